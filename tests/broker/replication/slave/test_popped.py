"""A slave that becomes the master goes on with what its master handed out to pops."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_pop import Popping
from tests.broker.handlers.test_pop_orderly import Ordered
from tests.broker.replication.pair import Pair
from tests.broker.world import Caller


@pytest.fixture
def pair() -> Pair:
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1)])
    for body in (b"a", b"b", b"c"):
        pair.master.put("T", body)
    return pair


def test_a_promoted_slave_delivers_what_is_not_acknowledged_again_in_time_and_nothing_else(pair: Pair) -> None:
    p = Popping(pair.master)
    found = p.pop(count=2, invisible_ms=10_000)
    assert p.ack(found.receipt(0)) == 0
    pair.copy_log()
    pair.run(500)
    q = Popping(pair.promote())
    assert q.pop().bodies == [b"c"]
    q.wait(9499)
    assert q.pop().code == ResponseCode.POLLING_TIMEOUT
    q.wait(1)
    again = q.pop()
    assert again.bodies == [b"b"] and again.messages[0].reconsume_times == 1
    assert q.ack(again.receipt()) == 0
    q.wait(100_000)
    assert q.pop().bodies == [b"c"]


def test_messages_whose_check_point_a_slave_lacks_come_again(pair: Pair) -> None:
    pair.copy_log()
    p = Popping(pair.master)
    p.pop(count=1)
    pair.copy_log()
    pair.run(500)
    p.pop(count=1)
    pair.run(500)
    assert pair.slave.parts.metadata.cursors.query("g", "T", 0) == 1
    q = Popping(pair.promote())
    assert q.pop().bodies == [b"b", b"c"]
    q.wait(60_000)
    assert b"a" in q.pop().bodies


def test_messages_come_again_although_the_master_had_delivered_them_again(pair: Pair) -> None:
    p = Popping(pair.master)
    p.pop(count=2, invisible_ms=5000)
    pair.copy_log()
    pair.run(500)
    p.wait(5000)
    p.wait(1000)
    assert p.world.parts.pop.revive_log.check_points.finished_offset(1) == 1
    pair.run(500)
    q = Popping(pair.promote())
    q.tick()
    assert sorted(q.pop().bodies) == [b"a", b"b", b"c"]


def test_a_slave_drops_offsets_of_pops_with_their_group_and_keeps_them_over_a_restart_of_its_master(pair: Pair) -> None:
    p = Popping(pair.master)
    p.pop(count=1)
    assert p.ack(p.pop(count=1, consumerGroup="h").receipt(), consumerGroup="h") == 0
    pair.copy_log()
    pair.run(500)
    ours = pair.slave.parts.metadata.cursors
    for _ in range(2):
        assert [ours.query(group, "T", 0) for group in "gh"] == [1, 1]
        pair.restart_master()
        pair.run(500)
    fields: dict[str, Any] = {"groupName": "h", "cleanOffset": "true"}
    Caller(pair.master).ok(Code.DELETE_SUBSCRIPTIONGROUP, **fields)
    pair.run(500)
    assert [ours.query(group, "T", 0) for group in "gh"] == [1, -1]


def test_receipts_of_the_old_master_acknowledge_on_the_new_one(pair: Pair) -> None:
    receipt = Popping(pair.master).pop(count=1, invisible_ms=10_000).receipt()
    pair.copy_log()
    pair.run(500)
    q = Popping(pair.promote())
    assert q.ack(receipt) == 0
    assert q.pop(invisible_ms=0).bodies == [b"b", b"c"]
    q.wait(20_000)
    assert q.pop().bodies == [b"b", b"c"]


def test_a_promoted_slave_keeps_ordered_queues_blocked_and_their_counts(pair: Pair) -> None:
    p = Ordered(pair.master)
    p.pop(count=2, invisible_ms=0)
    p.world.clock.advance(1)
    found = p.pop(count=2, invisible_ms=10_000)
    assert p.ack(found.receipt(0)) == 0
    pair.copy_log()
    pair.run(500)
    pair.run(500)
    q = Ordered(pair.promote())
    assert q.pop().code == ResponseCode.POLLING_TIMEOUT
    q.wait(10_000)
    again = q.pop()
    assert again.bodies == [b"b", b"c"]
    assert again.ext["orderCountInfo"] == "0 qo0%1 2;0 0 0"


def test_a_promoted_slave_forgets_ordered_hand_outs_of_messages_that_it_lacks(pair: Pair) -> None:
    pair.copy_log()
    pair.master.put("T", b"lost")
    receipt = Ordered(pair.master).pop(invisible_ms=60_000).receipt(3)
    pair.run(500)
    q = Ordered(pair.promote())
    q.world.put("T", b"new")
    assert q.ack(receipt) == 0
    assert q.pop().bodies == [b"a", b"b", b"c", b"new"]


def test_a_slave_takes_changes_and_removals_of_order_information(pair: Pair) -> None:
    p = Ordered(pair.master)
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="U", read_queue_nums=1, write_queue_nums=1)])
    p.world.put("U")
    p.pop()
    p.pop(topic="U")
    pair.run(500)
    theirs, ours = (world.parts.metadata.order_infos for world in (pair.master, pair.slave))
    for change in (
        lambda: p.pop(consumerGroup="h"),
        lambda: p.pop(topic="U", consumerGroup="h"),
        lambda: Caller(pair.master).ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName="h"),
        lambda: theirs.forget("T", "g", 0),
    ):
        assert ours.as_table() == theirs.as_table() != {"table": {}}
        change()
        pair.run(500)
    assert ours.as_table() == theirs.as_table()
    assert list(ours.as_table()["table"]) == ["U@g"]
