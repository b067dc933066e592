"""Large groups get their notices in pieces; small ones at each change."""

from __future__ import annotations

import pytest

from pymq.broker.metadata import notices
from pymq.broker.metadata.notices import MEMBERS_AT_ONCE, NOTICES_A_TICK, Notices
from tests.broker.world import FakePeer


class Group:
    """A group "g" with members, and the notices that they got."""

    def __init__(self, count: int) -> None:
        self.members = [FakePeer() for _ in range(count)]
        self.notices = Notices(lambda group: self.members)

    def change(self) -> None:
        self.notices.send("g", len(self.members))

    def got(self) -> list[int]:
        return [len(peer.pushed) for peer in self.members]


def test_a_group_of_the_largest_size_is_notified_at_once_and_one_more_in_pieces() -> None:
    small, large = Group(MEMBERS_AT_ONCE), Group(MEMBERS_AT_ONCE + 1)
    small.change()
    large.change()
    assert set(small.got()) == {1} and set(large.got()) == {0}
    large.notices.tick()
    assert set(large.got()) == {1}
    assert large.members[0].pushed[0].ext == {"consumerGroup": "g"} and large.members[0].pushed[0].is_oneway


def test_changes_of_a_large_group_share_a_round() -> None:
    group = Group(5000)
    for _ in range(5000):
        group.change()
    for tick in range(1, 11):
        group.notices.tick()
        assert sum(group.got()) == tick * NOTICES_A_TICK
    group.notices.tick()
    assert set(group.got()) == {2}, "a round, and another one for what changed meanwhile"


def test_members_that_are_gone_get_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "MEMBERS_AT_ONCE", 1)
    group = Group(3)
    gone = group.members[2]
    group.change()
    del group.members[2]
    group.notices.tick()
    assert group.got() == [1, 1] and not gone.pushed
    group.change()
    group.change()
    group.members.clear()
    group.notices.tick()
    group.notices.tick()
    group.members = [FakePeer()]
    group.notices.tick()
    assert group.got() == [0]
