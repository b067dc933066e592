"""A topic that is deleted and made again begins empty: nothing that waited elsewhere comes back."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model import pop
from pymq.model.record import decode_records
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.model.transactions import COMMIT
from pymq.store.store import GetStatus
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.header import encode_header
from pymq.wire.headers.send import ConsumerSendMsgBackHeader
from tests.broker.handlers.test_clients import beat
from tests.broker.handlers.test_pop import Popping
from tests.broker.handlers.test_send import send, with_topic
from tests.broker.replication.pair import Pair
from tests.broker.transactions.driver import TransactionProducer, run_round, world_with_topic
from tests.broker.world import Caller, World


def made_again(world: World, topic: str = "T", queue_count: int = 4) -> None:
    """Delete the topic and make it again, as an operator does."""
    caller = Caller(world)
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic=topic)
    world.parts.end_turn()
    world.parts.metadata.topics.put(
        [TopicConfig(topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count)]
    )


@pytest.mark.parametrize("is_v2", [True, False])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_popped_messages_do_not_come_back(is_v2: bool, is_restarted: bool) -> None:
    p = Popping(enableRetryTopicV2=str(is_v2).lower())
    for number in range(4):
        p.world.put("T", b"old%d" % number)
    waits = p.pop(count=2, invisible_ms=1000)
    p.wait(1000)  # two wait in the retry topic
    held = p.pop(topic="T", count=9, invisible_ms=5000)
    assert len(held.bodies) == 4
    made_again(p.world, queue_count=1)
    if is_restarted:
        p = Popping(p.world.reopened(enableRetryTopicV2=str(is_v2).lower()))
    assert not [name for name in p.world.parts.metadata.topics.all() if name.startswith("%RETRY%g") and "T" in name]
    p.world.put("T", b"new")
    assert p.change(held.receipt(0), 60_000)[0] != 0
    assert p.change(waits.receipt(0), 60_000)[0] != 0
    found = p.pop(invisible_ms=1000)
    assert found.bodies == [b"new"]
    assert p.ack(found.receipt()) == 0
    p.wait(10_000)
    assert p.pop().messages == []


def test_retries_of_other_topics_and_groups_stay() -> None:
    topics = ["T", "a_T", "%RETRY%g+T", "%RETRY%g+a_T", "%RETRY%g_T", "%RETRY%g_a_T", "%RETRY%other_T", "%RETRY%g"]
    assert pop.retry_topics_of(["T"], topics, ["g"]) == ["%RETRY%g+T", "%RETRY%g_T"]
    assert pop.retry_topics_of(["T"], topics, ["g", "g_T"]) == ["%RETRY%g+T"], "a push group's own"
    assert pop.retry_topics_of(["T"], topics, ["g_a"]) == ["%RETRY%g+T", "%RETRY%g_a_T"]
    assert pop.retry_topics_of(["T"], topics, ["g_a", "g"]) == ["%RETRY%g+T", "%RETRY%g_T"], "or of g and a_T"


def test_a_deleted_group_s_hand_outs_end() -> None:
    p = Popping()
    p.world.put("T", b"m")
    held = p.pop(invisible_ms=1000)
    p.caller.ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName="g", cleanOffset="true")
    p.world.parts.end_turn()
    assert len(p.world.parts.pop.revive_log.check_points) == 0
    p.world.clock.advance(1)
    p = Popping(p.world.reopened())
    p.world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g")])
    assert p.change(held.receipt(), 60_000)[0] != 0
    p.wait(5000)
    assert p.pop(invisible_ms=1000).bodies == [b"m"], "from the topic itself, as the group begins again"
    assert not [name for name in p.world.parts.metadata.topics.all() if "+" in name]


def test_an_offset_of_the_old_topic_behind_the_new_end_goes_on_at_the_begin() -> None:
    world = with_topic()
    for _ in range(5):
        send(world, b"old")
    assert world.parts.store.get("T", 1, 20, 32, 1 << 20).next_offset == 5, "as RocketMQ does"
    made_again(world)
    send(world, b"new")
    result = world.parts.store.get("T", 1, 5, 32, 1 << 20)
    assert (result.status, result.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 0)


@pytest.mark.parametrize("is_parked", [False, True])
def test_a_connected_group_begins_again_where_the_new_topic_has_as_many_messages(is_parked: bool) -> None:
    world = with_topic()
    caller = Caller(world)
    caller.ok(Code.HEART_BEAT, beat(group="g", topic="T"))
    for _ in range(20):
        send(world, b"old")
    if is_parked:
        assert caller.ask(Code.PULL_MESSAGE, **pull_fields(20, suspend=True)) is None
    made_again(world)
    for _ in range(30):
        send(world, b"new")
    world.parts.end_turn()
    reply = caller.peer.answers.pop() if is_parked else caller.ask(Code.PULL_MESSAGE, **pull_fields(20))
    assert reply is not None and reply.code == ResponseCode.PULL_OFFSET_MOVED
    assert encode_header(reply.ext)["nextBeginOffset"] == "0"  # type: ignore[arg-type]
    for queue_id, offset in ((1, 0), (2, 0)):
        assert world.parts.metadata.cursors.query("g", "T", queue_id) == offset
    reply = caller.ask(Code.PULL_MESSAGE, **pull_fields(0))
    assert reply is not None and reply.code == 0 and len(decode_records(reply.body)) == 30
    Caller(world).ok(Code.UPDATE_AND_CREATE_TOPIC, **create_fields())
    reply = caller.ask(Code.PULL_MESSAGE, **pull_fields(5))
    assert reply is not None and reply.code == 0, "a change of settings is no new topic"


class Member:
    """A member of the broadcasting group g, which keeps its offsets itself."""

    def __init__(self, world: World, client_id: str) -> None:
        self.world = world
        self.caller = Caller(world)
        self.caller.ok(Code.HEART_BEAT, beat(client_id).replace(b"CLUSTERING", b"BROADCASTING"))

    def pull(self, offset: int, **more: bool) -> int | list[bytes] | None:
        """Return bodies, or where to go on instead."""
        reply = self.caller.ask(Code.PULL_MESSAGE, **pull_fields(offset, **more))
        return None if reply is None else self.found(reply)

    def found(self, reply: Any) -> int | list[bytes]:
        if reply.code == ResponseCode.PULL_OFFSET_MOVED:
            return int(encode_header(reply.ext)["nextBeginOffset"])
        assert reply.code == ResponseCode.SUCCESS, reply
        return [message.body for message in decode_records(reply.body)]


def test_every_member_of_a_broadcasting_group_begins_again() -> None:
    world = with_topic()
    first, second, parked = (Member(world, f"c{number}") for number in range(3))
    for _ in range(20):
        send(world, b"old")
    assert parked.pull(20, suspend=True) is None
    made_again(world)
    for _ in range(30):
        send(world, b"new")
    world.parts.end_turn()
    assert parked.found(parked.caller.peer.answers.pop()) == 0
    new = [b"new"] * 30
    for member in (first, second):
        assert member.pull(20) == 0
        assert member.pull(0) == new
        assert member.pull(10) == new[10:], "it has begun"
    assert parked.pull(0) == new and parked.pull(20) == new[20:]
    assert world.parts.metadata.cursors.offsets("g", "T") == {}, "the group has no offsets here"


def test_a_member_that_was_away_begins_again_and_one_that_has_begun_goes_on() -> None:
    world = with_topic()
    for _ in range(20):
        send(world, b"old")
    made_again(world)
    for _ in range(30):
        send(world, b"new")
    away, fresh = Member(world, "away"), Member(world, "fresh")
    assert away.pull(20) == 0
    assert fresh.pull(0) == [b"new"] * 30
    assert Member(world, "fresh").pull(25) == [b"new"] * 5, "over a new connection"
    assert Member(world, "away").pull(25) == [b"new"] * 5
    made_again(world)
    for _ in range(30):
        send(world, b"newer")
    assert Member(world, "fresh").pull(30) == 0
    Caller(world).ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    world.parts.end_turn()
    assert not world.parts.metadata.broadcast_begins._begun


@pytest.mark.parametrize("properties", ["DELAY\x012\x02", "TIMER_DELAY_MS\x013000\x02"])
def test_delayed_messages_of_the_old_topic_are_dropped(properties: str) -> None:
    world = with_topic()
    send(world, b"old", properties=f"UNIQ_KEY\x01A\x02{properties}")
    made_again(world)
    send(world, b"new", properties=f"UNIQ_KEY\x01B\x02{properties}")
    settle(world)
    assert [message.body for message in world.messages("T", 1)] == [b"new"]


def test_a_retry_that_waits_is_dropped() -> None:
    world = with_topic()
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g")])
    placed = world.put("T", b"old", queue_id=1)
    header = ConsumerSendMsgBackHeader(offset=placed.physical_offset, group="g", delay_level=1)
    assert world.parts.messages.retries.send_back(header, 479)
    world.parts.end_turn()
    made_again(world)
    settle(world)
    assert world.messages("%RETRY%g") == []


def give_back(world: World, offset: int) -> bool:
    header = ConsumerSendMsgBackHeader(offset=offset, group="g", delay_level=1)
    is_stored = world.parts.messages.retries.send_back(header, 479)
    world.parts.end_turn()
    return is_stored


def retries_pulled(world: World) -> list[bytes]:
    """Return what a member of the group gets of its retries."""
    reply = Caller(world).ask(Code.PULL_MESSAGE, **{**pull_fields(0), "topic": "%RETRY%g", "queueId": 0})
    assert reply is not None
    return [message.body for message in decode_records(reply.body)] if reply.code == ResponseCode.SUCCESS else []


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_there_again", [False, True])
def test_a_retry_that_can_be_pulled_is_left_out(is_there_again: bool, is_restarted: bool) -> None:
    world = with_topic()
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g")])
    world.parts.metadata.topics.put([TopicConfig(topic_name="Other", read_queue_nums=4, write_queue_nums=4)])
    held = [world.put(topic, body, queue_id=1) for topic, body in (("T", b"old"), ("Other", b"other"), ("T", b"later"))]
    for placed in held[:2]:
        assert give_back(world, placed.physical_offset)
    settle(world)
    assert retries_pulled(world) == [b"old", b"other"]
    retry = world.messages("%RETRY%g")[0].physical_offset
    if is_there_again:
        made_again(world)
    else:
        Caller(world).ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
        world.parts.end_turn()
    if is_restarted:
        world = world.reopened()
    assert retries_pulled(world) == [b"other"]
    assert not give_back(world, held[2].physical_offset) and not give_back(world, retry), "held meanwhile"
    settle(world)
    assert retries_pulled(world) == [b"other"]
    if is_there_again:
        placed = world.put("T", b"new", queue_id=1)
        assert give_back(world, placed.physical_offset)
        settle(world)
        assert retries_pulled(world) == [b"other", b"new"]


@pytest.mark.parametrize("is_fast", [False, True])
def test_an_open_transaction_is_not_committed_to_the_new_topic(is_fast: bool) -> None:
    producer = TransactionProducer(world_with_topic(), is_fast=is_fast)
    half = producer.half(b"old")
    made_again(producer.world)
    code, remark = producer.end(half, COMMIT)
    assert code == ResponseCode.TOPIC_NOT_EXIST and "deleted after the half message" in remark
    run_round(producer.world)
    assert not producer.asked() and len(producer.world.parts.messages.transactions.halves) == 0
    assert producer.world.messages("T", 1) == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_slave_keeps_the_rules_and_a_master_that_it_becomes(is_restarted: bool) -> None:
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    pair.master.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g")])
    for name in ("DELAY\x012", "TIMER_DELAY_MS\x0120000"):
        send(pair.master, b"old", properties=f"UNIQ_KEY\x01A\x02{name}\x02")
    for body in (b"old", b"later"):
        placed = pair.master.put("T", body, queue_id=1)
        assert give_back(pair.master, placed.physical_offset)
        if body == b"old":
            settle(pair.master)
    pair.run(1000)
    pair.copy_log()
    assert retries_pulled(pair.slave) == [b"old", b"later"]
    made_again(pair.master)
    for name in ("DELAY\x012", "TIMER_DELAY_MS\x0120000"):
        send(pair.master, b"new", properties=f"UNIQ_KEY\x01B\x02{name}\x02")
    send(pair.master, b"first")
    pair.run(1000)
    pair.copy_log()
    if is_restarted:
        pair.restart_slave()
    deletions = pair.slave.parts.store.deletions
    assert deletions.ends == pair.master.parts.store.deletions.ends != {}
    assert [message.body for message in pair.slave.messages("T", 1)] == [b"first"]
    assert pair.slave.parts.store.min_offset("T", 1) == 0
    assert retries_pulled(pair.slave) == []
    world = pair.promote()
    for _ in range(4):
        settle(world)
    assert [message.body for message in world.messages("T", 1)] == [b"first", b"new", b"new"]
    assert retries_pulled(world) == []


def pull_fields(offset: int, *, suspend: bool = False) -> dict[str, Any]:
    return {
        "consumerGroup": "g", "topic": "T", "queueId": 1, "queueOffset": offset, "maxMsgNums": 32,
        "sysFlag": 6 if suspend else 4, "commitOffset": 0, "suspendTimeoutMillis": 15_000, "subscription": "*",
        "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip


def create_fields() -> dict[str, Any]:
    return {
        "topic": "T", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
    }  # fmt: skip


def settle(world: World) -> None:
    parts = world.parts
    for _ in range(20):
        world.clock.advance(500)
        parts.messages.delays.tick()
        parts.messages.timers.tick()
        parts.end_turn()
