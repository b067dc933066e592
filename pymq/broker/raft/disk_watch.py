"""DiskWatch: what a node's disk means for its place in the group: it refuses writes, or has damaged bytes."""

from __future__ import annotations

import logging
from typing import Protocol

from pymq.broker.raft.driver import RaftDriver
from pymq.broker.raft.failing_disk import FailingDisk
from pymq.broker.raft.log_reader import LogReader
from pymq.broker.raft.members import GroupSettings
from pymq.broker.raft.problems import RecentProblems
from pymq.broker.raft.rot_repair import RotRepair
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)


class Watched(Protocol):
    """The group of the node."""

    @property
    def settings(self) -> GroupSettings: ...

    def best_successor(self) -> str: ...


class DiskWatch:
    """Looks at one node's disk with each tick."""

    def __init__(self, group: Watched, problems: RecentProblems, reader: LogReader) -> None:
        self._failing_disk = FailingDisk(group.best_successor, problems.note)
        self._rot_repair = RotRepair(
            reader,
            [member.address for member in group.settings.others],
            successor=group.best_successor,
            problems=problems,
            on_mended=log.warning,
        )

    def tick(self, driver: RaftDriver, store: MessageStore) -> None:
        """Take leadership from a node whose disk fails, and mend what is damaged."""
        self._failing_disk.tick(driver, store)
        if store.scan is not None:
            self._rot_repair.tick(driver, store.scan)
