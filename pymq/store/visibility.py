"""Commits that are in the log but must not be seen before the disk has them.

Under SYNC_FLUSH a message becomes visible with its fsync: RocketMQ dispatches to queues and index no further than the
log is flushed then (Java: DefaultMessageStore.getConfirmOffset, ReputMessageService). Otherwise a consumer could get
a message that a power loss takes back, and its offset would be given to another one.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pymq.store.consume_queue import ConsumeQueue
from pymq.store.index_keys import KeyedRecords

NEEDS_NO_SYNC = 0


class HiddenCommit(NamedTuple):
    """One commit's units and keys. ``last_store_ms``: store time of the newest record before it.

    ``needs_synced``: the log offset that must be on the disk; NEEDS_NO_SYNC for a commit that only keeps its place
    behind others (it came after a switch to ASYNC_FLUSH).
    """

    start: int
    last_store_ms: int
    needs_synced: int
    units: list[tuple[ConsumeQueue, bytes]]
    keys: KeyedRecords


class HiddenCommits:
    """In the order of the log."""

    def __init__(self) -> None:
        self._commits: deque[HiddenCommit] = deque()

    def __bool__(self) -> bool:
        return bool(self._commits)

    @property
    def oldest(self) -> HiddenCommit | None:
        return self._commits[0] if self._commits else None

    def add(self, commit: HiddenCommit) -> None:
        self._commits.append(commit)

    def pop_synced(self, position: int) -> HiddenCommit | None:
        """The oldest commit, taken out, when the log below ``position`` is on the disk and that is enough for it."""
        if self._commits and self._commits[0].needs_synced <= position:
            return self._commits.popleft()
        return None
