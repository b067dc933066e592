"""A node with a damaged log does not lead while others can, and gets the bytes from them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pymq.broker.raft.problems import RecentProblems
from pymq.broker.raft.rot_repair import HAND_OVER_TICKS, LEADERLESS_TICKS, MENDED_SHOWN_COUNT, RotRepair
from pymq.clock import ManualClock

BLOCK = 4096


class Node:
    """A node with a damaged log, what it asks of the others, and what they answer."""

    def __init__(self, *blocks: int) -> None:
        self.damaged = {block * BLOCK: (block + 1) * BLOCK for block in blocks}
        self.scan: Any = SimpleNamespace(
            damaged=self.damaged, step=lambda size: None, forget_behind=lambda end: None, mend=self.mend
        )
        self.raft: Any = SimpleNamespace(
            may_lead=True, leader="n1", leadership=None, confirm_offset=1 << 20, log=SimpleNamespace(end=1 << 20)
        )
        self.driver: Any = SimpleNamespace(node=self.raft, is_held=False, transfer=lambda to: self.handed_to.append(to))
        self.handed_to: list[str] = []
        self.asked: list[tuple[str, int, int]] = []
        self.mended: list[str] = []
        self.problems = RecentProblems(ManualClock())
        reader: Any = SimpleNamespace(ask=self.ask)
        self.repair = RotRepair(
            reader, ["one:1", "two:1"], successor=lambda: "n1", problems=self.problems, on_mended=self.mended.append
        )

    def mend(self, start: int, data: bytes) -> bool:
        if data != b"good":
            return False
        del self.damaged[start]
        return True

    def ask(self, address: str, start: int, size: int, on_data: Any, on_failure: Any) -> None:
        self.asked.append((address, start, size))
        self.on_data, self.on_failure = on_data, on_failure

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.raft.may_lead = True  # as the watch of failing disks leaves it
            self.repair.tick(self.driver, self.scan)


def test_a_sound_log_changes_nothing() -> None:
    node = Node()
    node.tick()
    assert node.raft.may_lead and not node.asked and not node.problems.texts()


def test_blocks_come_from_one_member_after_the_other_until_they_fit() -> None:
    node = Node(1, 3)
    node.tick(3)
    assert node.asked == [("one:1", BLOCK, BLOCK)], "one at a time"
    assert "damaged in 2 blocks, first at offset 4096" in node.problems.texts()[0]
    node.on_data(b"rotten, too")
    node.tick()
    assert node.asked[-1] == ("two:1", BLOCK, BLOCK)
    node.on_failure("no answer")
    node.tick()
    node.on_data(b"good")
    node.tick()
    node.on_data(b"good")
    node.tick()
    assert not node.damaged and node.raft.may_lead and len(node.mended) == 2 and not node.problems.texts()


def test_what_is_not_confirmed_is_asked_of_nobody() -> None:
    node = Node(1)
    node.raft.confirm_offset = 2 * BLOCK - 1
    node.tick()
    assert not node.asked
    node.raft.confirm_offset += 1
    node.tick()
    assert node.asked


def test_a_damaged_node_leads_when_nobody_else_does() -> None:
    node = Node(1)
    node.tick()
    assert not node.raft.may_lead
    node.raft.leader = None
    node.tick(LEADERLESS_TICKS - 1)
    assert not node.raft.may_lead
    node.tick()
    assert node.raft.may_lead
    node.raft.leader = "n1"
    node.tick()
    assert not node.raft.may_lead


def test_a_damaged_leader_hands_over_now_and_then() -> None:
    """Not more often: the others may be damaged as well."""
    node = Node(1)
    node.raft.leadership = SimpleNamespace(transfer_target=None)
    node.tick()
    assert node.handed_to == ["n1"]
    node.tick(HAND_OVER_TICKS)
    assert node.handed_to == ["n1"]
    node.tick()
    assert node.handed_to == ["n1", "n1"]


def test_the_log_names_so_many_mended_blocks() -> None:
    node = Node(*range(MENDED_SHOWN_COUNT + 2))
    while node.damaged:
        node.tick()
        node.on_data(b"good")
    assert len(node.mended) == MENDED_SHOWN_COUNT
