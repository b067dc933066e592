"""A master's log that grows by bytes another has kept of it, before it takes records of its own."""

from __future__ import annotations

from pymq.store.replica.follower import Follower
from pymq.store.store import MessageStore


class TailRefill:
    """An open store's log, which grows as a slave's does until :meth:`finish`."""

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
        """Writes bytes at the log's end and hands whole records on. Raises StoreUnavailableError."""
        if self._follower is None:
            self._follower = self._store.follow()
        self._follower.append(position, data)
        self._follower.dispatch()

    def finish(self) -> None:
        """Cuts what is no whole record, and brings the rest to the disk; from now on the log takes records of its own.

        Raises StoreUnavailableError when that can't be done.
        """
        if self._follower is not None:
            self._store.end_following()
            self._follower = None
