"""TailRefill: a master's log gets back the end that it lost and its slaves have, before it takes new records."""

from __future__ import annotations

from pymq.store.replica.follower import Follower
from pymq.store.store import MessageStore


class TailRefill:
    """The log of an open store, which grows as a slave's does until :meth:`finish`."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._follower: Follower | None = None

    @property
    def start(self) -> int:
        return self._store.physical_min_offset

    @property
    def end(self) -> int:
        return self._store.physical_max_offset

    @property
    def segment_size_bytes(self) -> int:
        return self._store.settings.segment_size_bytes

    def tail_digest(self, end: int, tail_bytes: int) -> str:
        """See :meth:`MessageStore.tail_digest`."""
        return self._store.tail_digest(end, tail_bytes)

    def append(self, position: int, data: bytes) -> None:
        """Write bytes at the log's end and dispatch whole records. Raises StoreUnavailableError."""
        if self._follower is None:
            self._follower = self._store.follow()
        self._follower.append(position, data)
        self._follower.dispatch()

    def finish(self) -> None:
        """See :meth:`MessageStore.end_following`. Raises StoreUnavailableError."""
        if self._follower is not None:
            self._store.end_following()
            self._follower = None
