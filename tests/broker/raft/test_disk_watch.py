"""A leader whose log takes no records gives leadership away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pymq.broker.raft.disk_watch import PATIENCE_TICKS, FailingDisk
from pymq.raft.core import ELECTION_TICKS, Role
from pymq.raft.messages import HeartbeatAnswer, TimeoutNow
from tests.broker.raft.test_driver import Desk, leading
from tests.raft.bench import N0, N1, N2, THREE


class _Node:
    """A leader with a store that may have trouble, and n1 to hand over to."""

    def __init__(self, successor: str = "n1") -> None:
        self.store: Any = SimpleNamespace(broken=None, write_problem=None)
        self.problems: list[str] = []
        self.desk: Desk = leading()
        self.raft = self.desk.driver.node
        self.disk = FailingDisk(lambda: successor, self.problems.append)

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.desk.ticks(1)
            for member in (N1, N2):
                self.desk.driver.take(HeartbeatAnswer(member, N0, self.raft.term, 1, 20))
            self.disk.tick(self.desk.driver, self.store)

    @property
    def handed_over(self) -> list[Any]:
        return [message for _, message in self.desk.take_done("send") if isinstance(message, TimeoutNow)]


def test_a_disk_without_trouble_changes_nothing() -> None:
    node = _Node()
    node.ticks(3 * ELECTION_TICKS)
    assert node.raft.role is Role.LEADER and node.raft.may_lead and node.problems == [] and node.handed_over == []


def test_a_log_that_is_read_only_is_handed_over_at_once() -> None:
    node = _Node()
    node.store.broken = "fsync failed"
    node.ticks(1)
    assert node.handed_over == [TimeoutNow(N0, N1, node.raft.term)]
    assert node.problems == ["leadership goes to n1: fsync failed"] and not node.raft.may_lead


@pytest.mark.parametrize("successor", ["n1", ""])
def test_who_finds_nobody_to_take_over_resigns(successor: str) -> None:
    node = _Node(successor)
    node.store.broken = "fsync failed"
    node.ticks(ELECTION_TICKS + 1)
    assert node.raft.role is Role.FOLLOWER and node.problems[-1] == "this node leads no more: fsync failed"
    node.ticks(3 * ELECTION_TICKS)
    assert node.raft.role is Role.FOLLOWER, "it begins no election"
    node.store.broken = None
    node.ticks(1)
    assert node.raft.may_lead


def test_writes_that_fail_for_long_are_handed_over_again_and_again() -> None:
    node = _Node()
    node.store.write_problem = "no space"
    node.ticks(PATIENCE_TICKS - 1)
    assert node.handed_over == []
    node.ticks(1)
    assert len(node.handed_over) == 1 and node.raft.may_lead
    node.ticks(ELECTION_TICKS + PATIENCE_TICKS)
    assert len(node.handed_over) == 1, "the first one was given up"
    assert node.raft.role is Role.LEADER, "the disks of all may be full"


def test_a_write_that_succeeds_ends_the_trouble() -> None:
    node = _Node()
    node.store.write_problem = "no space"
    node.ticks(PATIENCE_TICKS - 1)
    node.store.write_problem = None
    node.ticks(1)
    node.store.write_problem = "no space"
    node.ticks(PATIENCE_TICKS - 1)
    assert node.handed_over == []


def test_a_held_node_hands_nothing_over() -> None:
    """It takes no records meanwhile, so the record of a membership that it is held for could never be written."""
    node = _Node()
    node.desk.is_failing = True
    node.desk.driver.change(THREE.without(N2))
    assert node.desk.driver.is_held
    node.store.write_problem = "no space"
    for _ in range(2 * PATIENCE_TICKS):
        node.disk.tick(node.desk.driver, node.store)
    assert node.problems == [] and node.raft.leadership is not None
    assert node.raft.leadership.transfer_target is None
    node.desk.is_failing, node.store.write_problem = False, None
    node.ticks(1)
    assert not node.desk.driver.is_held
