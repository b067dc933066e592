"""BroadcastBegins: each member of a broadcasting group begins once in each queue, within limits."""

from __future__ import annotations

import pytest

from pymq.broker.metadata import broadcast_begins
from pymq.broker.metadata.broadcast_begins import TOPICS_MAX, BroadcastBegins
from pymq.wire.codes import RequestCode
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, FakePeer, World


def joined(model: bytes = b"BROADCASTING") -> tuple[BroadcastBegins, FakePeer]:
    """Return the broker's, and the connection of a member of group g."""
    world = World()
    caller = Caller(world)
    caller.ok(RequestCode.HEART_BEAT, beat().replace(b"CLUSTERING", model))
    return world.parts.metadata.broadcast_begins, caller.peer


def test_a_member_begins_once_in_each_queue() -> None:
    begins, peer = joined()
    assert not begins.begin("g", "T", 0, 5, peer), "the topic is the only one of its name"
    begins.made_again("T")
    assert begins.is_new("g", "T", 0, peer)
    assert begins.begin("g", "T", 0, 5, peer)
    assert not begins.is_new("g", "T", 0, peer) and not begins.begin("g", "T", 0, 5, peer)
    assert not begins.begin("g", "T", 1, 0, peer), "it is at the begin"
    assert not begins.begin("g", "T", 1, 5, peer), "and has begun"
    begins.made_again("T")
    assert begins.begin("g", "T", 0, 5, peer)
    begins.forget("T")
    assert not begins.is_new("g", "T", 1, peer)


@pytest.mark.parametrize("code", [RequestCode.GET_MAX_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP])
def test_a_member_that_asks_where_to_begin_has_no_offset_of_the_former_topic(code: int) -> None:
    world = World()
    caller = Caller(world)
    caller.ok(RequestCode.HEART_BEAT, beat().replace(b"CLUSTERING", b"BROADCASTING"))
    begins = world.parts.metadata.broadcast_begins
    begins.made_again("T")
    caller.ok(code, topic="T", queueId="0", timestamp="1")
    assert not begins.begin("g", "T", 0, 5, caller.peer) and begins.begin("g", "T", 1, 5, caller.peer)


def test_others_are_no_members() -> None:
    begins, peer = joined(b"CLUSTERING")
    begins.made_again("T")
    assert not begins.begin("g", "T", 0, 5, peer)
    begins, peer = joined()
    begins.made_again("T")
    assert not begins.begin("g", "T", 0, 5, FakePeer())
    assert not begins.begin("other", "T", 0, 5, peer)


def test_the_number_of_topics_has_a_limit() -> None:
    begins, peer = joined()
    for number in range(TOPICS_MAX + 1):
        begins.made_again(f"T{number}")
    assert not begins.is_new("g", "T0", 0, peer)
    assert begins.is_new("g", "T1", 0, peer) and begins.is_new("g", f"T{TOPICS_MAX}", 0, peer)


def test_the_number_of_queues_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast_begins, "QUEUES_MAX", 2)
    begins, peer = joined()
    begins.made_again("T")
    assert [begins.begin("g", "T", queue_id, 5, peer) for queue_id in range(3)] == [True, True, False]
