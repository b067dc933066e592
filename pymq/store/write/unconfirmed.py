"""Commits that are in the log but must not be seen before the disk, or enough slaves, have them.

Under SYNC_FLUSH a message becomes visible with its fsync: RocketMQ dispatches to queues and index no further than the
log is flushed then (Java: DefaultMessageStore.getConfirmOffset, ReputMessageService). Otherwise a consumer could get
a message that a power loss takes back, and its offset would be given to another one. Under SYNC_MASTER the same holds
for a fail-over: what no slave has is lost with its master. RocketMQ shows it at once there.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pymq.store.index.keyed_records import KeyedRecords
from pymq.store.queue.consume_queue import ConsumeQueue

NEEDS_NOTHING = 0


class UnconfirmedCommit(NamedTuple):
    """One commit's units and keys. ``last_store_ms``: store time of the newest record before it.

    ``needs_synced_offset``: the log offset that must be on the disk, ``needs_confirm_offset``: that enough slaves must have;
    NEEDS_NOTHING in both for a commit that only keeps its place behind others (it came after a switch of modes).
    """

    start: int
    last_store_ms: int
    needs_synced_offset: int
    needs_confirm_offset: int
    units: list[tuple[ConsumeQueue, bytes]]
    keys: KeyedRecords


class UnconfirmedCommits:
    """In the order of the log. ``synced`` and ``confirm_offset`` are the log offsets last heard of."""

    def __init__(self) -> None:
        self._commits: deque[UnconfirmedCommit] = deque()
        self.synced = 0
        self.confirm_offset = 0

    def __bool__(self) -> bool:
        return bool(self._commits)

    @property
    def oldest(self) -> UnconfirmedCommit | None:
        return self._commits[0] if self._commits else None

    def add(self, commit: UnconfirmedCommit) -> None:
        self._commits.append(commit)

    def pop_ready(self) -> UnconfirmedCommit | None:
        """The oldest commit, taken out, when disk and slaves have what it needs."""
        if (
            self._commits
            and self._commits[0].needs_synced_offset <= self.synced
            and self._commits[0].needs_confirm_offset <= self.confirm_offset
        ):
            return self._commits.popleft()
        return None

    def forget_topic(self, topic: str) -> None:
        """Drops the units of a topic that is deleted: they are never to be seen."""
        for commit in self._commits:
            commit.units[:] = [(queue, units) for queue, units in commit.units if queue.topic != topic]
