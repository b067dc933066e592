"""DiskWatch: what a node's disk means for its place in the group: it refuses writes, or has damaged bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from pymq.broker.raft.driver import RaftDriver
from pymq.broker.raft.log_reader import LogReader
from pymq.broker.raft.members import GroupSettings
from pymq.broker.raft.problems import RecentProblems
from pymq.broker.raft.rot_repair import RotRepair
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)


# A write that failed may succeed in a moment (200 ms), for example when old segments have been deleted.
PATIENCE_TICKS = 4


class FailingDisk:
    """Looks at the disk of one node with each tick.

    After a failed sync the log takes nothing until it is opened again. Until then the node does not lead. A leader
    whose writes fail, as on a full disk, hands over, but it may be elected again: the disks of all may be full.
    """

    def __init__(self, successor: Callable[[], str], on_problem: Callable[[str], None]) -> None:
        """``successor`` returns the node that leadership should go to, empty when there is none."""
        self._successor = successor
        self._on_problem = on_problem
        self._ticks = 0  # since this leader's log has taken nothing
        self._has_asked = False

    def tick(self, driver: RaftDriver, store: MessageStore) -> None:
        """Hand leadership over, or resign, when that is due."""
        node, why = driver.node, store.broken or store.write_problem
        node.may_lead = store.broken is None
        if driver.is_held:
            return  # it is as if it were paused, so the others elect a leader
        if why is None or node.leadership is None:
            self._ticks, self._has_asked = 0, False
            return
        self._ticks += 1
        if node.may_lead and self._ticks < PATIENCE_TICKS:
            return
        if not self._has_asked:
            self._has_asked = True
            if successor := self._successor():
                self._on_problem(f"leadership goes to {successor}: {why}")
                driver.transfer(successor)
                return
        if node.leadership.transfer_target is None:
            self._give_up(driver, why)

    def _give_up(self, driver: RaftDriver, why: str) -> None:
        """Nobody took over. A node that may lead again tries to hand over later."""
        self._ticks, self._has_asked = 0, False
        if not driver.node.may_lead:
            self._on_problem(f"this node leads no more: {why}")
            driver.resign()


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
