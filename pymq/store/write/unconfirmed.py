"""Unconfirmed commits: they are in the log, but stay invisible until they are on the disk, or on enough slaves.

Under SYNC_FLUSH a message becomes visible with its fsync. RocketMQ does the same: it dispatches only the flushed part
of the log to queues and index (Java: DefaultMessageStore.getConfirmOffset, ReputMessageService). Otherwise a consumer
could get a message that a power loss takes back, and another message would get its offset. Under SYNC_MASTER the same
holds for a failover: what no slave has is lost with its master. There RocketMQ makes the message visible at once.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pymq.store.index.keyed_records import KeyedRecords
from pymq.store.light.light_queues import StagedLight
from pymq.store.queue.batch_queue import AnyQueue

NEEDS_NOTHING = 0


class UnconfirmedCommit(NamedTuple):
    """One commit's units, keys and messages of light queues.

    ``last_store_ms``: store time of the newest record before it.

    ``needs_synced_offset``: the log offset up to which the disk must have the log; ``needs_confirm_offset``: the one up
    to which enough slaves must have it. Both are NEEDS_NOTHING when the commit only waits for those before it, after a
    change of the mode.
    """

    start: int
    last_store_ms: int
    needs_synced_offset: int
    needs_confirm_offset: int
    units: list[tuple[AnyQueue, bytes]]
    keys: KeyedRecords
    lights: list[StagedLight]


class UnconfirmedCommits:
    """Keeps unconfirmed commits in log order, and the newest known ``synced_offset`` and ``confirm_offset``."""

    def __init__(self) -> None:
        self._commits: deque[UnconfirmedCommit] = deque()
        self.synced_offset = 0
        self.confirm_offset = 0

    def __bool__(self) -> bool:
        return bool(self._commits)

    @property
    def oldest(self) -> UnconfirmedCommit | None:
        return self._commits[0] if self._commits else None

    def add(self, commit: UnconfirmedCommit) -> None:
        self._commits.append(commit)

    def pop_ready(self) -> UnconfirmedCommit | None:
        """Remove and return the oldest commit when disk and slaves have what it needs, else return None."""
        if (
            self._commits
            and self._commits[0].needs_synced_offset <= self.synced_offset
            and self._commits[0].needs_confirm_offset <= self.confirm_offset
        ):
            return self._commits.popleft()
        return None

    def find(self, topic: str, unique_key: bytes) -> int | None:
        """Return the physical offset of the topic's oldest record with this unique key; None: there is none."""
        wanted = b"UNIQ_KEY\x01" + unique_key + b"\x02"
        for commit in self._commits:
            keys = commit.keys
            for place, properties in enumerate(keys.properties):
                if wanted in properties and keys.topics[place] == topic:
                    return keys.offsets[place]
        return None

    def forget_topic(self, topic: str) -> None:
        """Drop the units of a deleted topic: they must never become visible."""
        for commit in self._commits:
            commit.units[:] = [(queue, units) for queue, units in commit.units if queue.topic != topic]
            commit.lights[:] = [light for light in commit.lights if light[0] != topic]
