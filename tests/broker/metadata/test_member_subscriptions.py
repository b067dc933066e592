"""MemberSubscriptions: which members of a group subscribe differently, in bounded memory."""

from __future__ import annotations

import pytest

from pymq.broker.metadata.member_subscriptions import TOPICS_MAX, VARIANTS_MAX, MemberSubscriptions
from pymq.wire.bodies_client import SubscriptionData
from tests.broker.world import FakePeer


def wants(**topics: str) -> list[SubscriptionData]:
    return [SubscriptionData(topic=topic, sub_string=text) for topic, text in topics.items()]


def test_members_that_subscribe_alike_do_not_differ() -> None:
    found = MemberSubscriptions()
    for number, text in enumerate(["A || B", "B||A", " A||B "]):
        found.note(FakePeer(str(number)), [*wants(T=text), *wants(**{f"%RETRY%{number}": "*"})])
    assert not found.differ and found.differences() == {}


def test_differences_are_counted_by_topic() -> None:
    found, peers = MemberSubscriptions(), [FakePeer(str(number)) for number in range(4)]
    for peer, text in zip(peers, ["A", "A", "B", "A"], strict=True):
        found.note(peer, wants(T=text, U="*"))
    found.note(peers[3], wants(T="A", V="*"))
    assert found.differ
    assert found.differences() == {"T": {"A": 3, "B": 1}, "U": {"*": 3, "-": 1}, "V": {"-": 3, "*": 1}}
    found.forget(peers[2])
    assert found.differences().keys() == {"U", "V"}
    found.note(peers[3], wants(T="A", U="*"))
    assert not found.differ
    for peer in peers:
        found.forget(peer)
    assert not found.differ and found.size_bytes == 0


@pytest.mark.slow
def test_what_many_members_subscribe_to_takes_bounded_memory() -> None:
    found = MemberSubscriptions()
    peers = [FakePeer(str(number)) for number in range(1000)]
    for number, peer in enumerate(peers):
        found.note(peer, wants(**{f"T{topic}": f"{number}" + "x" * 10_000 for topic in range(TOPICS_MAX + 10)}))
    assert found.size_bytes < VARIANTS_MAX * TOPICS_MAX * 500
    differences = found.differences()
    assert len(differences) == TOPICS_MAX
    assert all(sum(selections.values()) == 1000 for selections in differences.values())
    for peer in peers:
        found.forget(peer)
    assert found.size_bytes == 0
