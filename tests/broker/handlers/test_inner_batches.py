"""Topics with queue.type=BatchCQ: which sends become inner batches, what pulls return, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.errors import Refusal
from pymq.model.inner_batch import unwrapped
from pymq.model.record import StoredMessage, decode_records
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command, decode_command, encode_command
from tests.broker.fast.test_send import binary_payload, ordinary, payload_of
from tests.broker.handlers.test_send import batch, refusal, send
from tests.broker.world import Caller, FakePeer, World

BATCHES = {"queue.type": "BatchCQ"}
HEAD = "UNIQ_KEY\x01HEAD\x02KEYS\x01k1 k2\x02"
ENTRIES = batch((b"1", b"UNIQ_KEY\x01U1\x02KEYS\x01k1\x02"), (b"22", b"UNIQ_KEY\x01U2\x02TAGS\x01A\x02"))


@pytest.fixture
def world() -> World:
    """T has batch queues 0 to 3, and P plain ones."""
    world = World(mapperFileSizeBatchConsumeQueue=4600)
    topics = [
        TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4, attributes=BATCHES),
        TopicConfig(topic_name="P", read_queue_nums=4, write_queue_nums=4),
    ]
    world.parts.metadata.topics.put(topics)
    return world


def send_batch(world: World, body: bytes = ENTRIES, **changes: Any) -> Command:
    return send(world, body, Code.SEND_BATCH_MESSAGE, **{"batch": "true", "properties": HEAD, **changes})


def pull(world: World, offset: int, count: int = 32, tags: str = "*", topic: str = "T") -> tuple[dict[str, str], Any]:
    reply = Caller(world).ok(
        Code.PULL_MESSAGE, consumerGroup="g", topic=topic, queueId=1, queueOffset=offset, maxMsgNums=count, sysFlag=4,
        commitOffset=0, suspendTimeoutMillis=0, subscription=tags, subVersion=0, expressionType="TAG",
    )  # fmt: skip
    return reply.to_command(Command(11)).ext or {}, reply.body


def stored(world: World, topic: str = "T") -> list[StoredMessage]:
    return world.messages(topic, 1)


def test_a_batch_becomes_one_record(world: World) -> None:
    send(world, b"single")
    answer = send_batch(world)
    single, record = stored(world)
    assert (single.queue_offset, single.sys_flag) == (0, 0)
    assert (record.queue_offset, record.sys_flag, record.body, record.flag) == (1, 0xC0, ENTRIES, 5)
    assert record.properties == {
        "UNIQ_KEY": "HEAD", "KEYS": "k1 k2", "MSG_REGION": "DefaultRegion", "CLUSTER": "DefaultCluster",
        "TRACE_ON": "true", "INNER_NUM": "2", "INNER_BASE": "1",
    }  # fmt: skip
    assert answer.ext == {
        "msgId": record.offset_message_id, "queueId": "1", "queueOffset": "1", "transactionId": "HEAD",
        "batchUniqId": "HEAD", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    assert world.parts.store.max_offset("T", 1) == 3
    inner = list(unwrapped([record]))
    assert [(m.queue_offset, m.body, m.message_id, m.sys_flag) for m in inner] == [
        (1, b"1", "U1", 0),
        (2, b"22", "U2", 0),
    ]
    assert send(world, b"next").ext["queueOffset"] == "3"


@pytest.mark.parametrize("topic", ["T", "P"])
def test_a_batch_without_a_unique_key_is_stored_as_single_messages_that_keep_their_ids(
    world: World, topic: str
) -> None:
    answer = send_batch(world, topic=topic, properties="WAIT\x01true\x02")
    assert "transactionId" not in answer.ext and answer.ext["msgId"].count(",") == 1
    assert [m.message_id for m in stored(world, topic)] == ["U1", "U2"]
    world.parts.store.insert_waiting_keys()
    for key, body in (("U1", b"1"), ("U2", b"22"), ("k1", b"1")):
        found = [decode_records(record)[0].body for record in world.parts.store.find_by_key(topic, key, 9)]
        assert found == [body]


def test_a_batch_to_a_plain_topic_is_stored_as_single_messages(world: World) -> None:
    assert "batchUniqId" not in send_batch(world, topic="P").ext
    assert [m.body for m in stored(world, "P")] == [b"1", b"22"]


def test_pulls_return_whole_records_from_any_offset(world: World) -> None:
    send_batch(world)
    send_batch(world)
    for offset, begin, count, end in (
        (0, 0, 1, 2),
        (1, 0, 1, 2),
        (1, 0, 4, 4),
        (2, 2, 1, 4),
        (3, 2, 32, 4),
        (0, 0, 3, 2),
    ):
        ext, body = pull(world, offset, count)
        messages = list(unwrapped(decode_records(body)))
        assert [m.queue_offset for m in messages] == list(range(begin, end))
        assert (ext["nextBeginOffset"], ext["minOffset"], ext["maxOffset"]) == (str(end), "0", "4")


def test_tags_are_those_of_the_record(world: World) -> None:
    send_batch(world)  # has no tags of its own, so a consumer with tags does not get it
    send_batch(world, properties="UNIQ_KEY\x01H2\x02TAGS\x01A\x02")
    send(world, b"single", properties="TAGS\x01A\x02")
    ext, body = pull(world, 0, tags="A")
    assert [m.queue_offset for m in decode_records(body)] == [2, 4] and ext["nextBeginOffset"] == "5"


def test_the_index_finds_a_batch_by_its_own_keys(world: World) -> None:
    send_batch(world)
    world.parts.store.insert_waiting_keys()
    for key, count in (("HEAD", 1), ("k1", 1), ("k2", 1), ("U1", 0), ("U2", 0)):
        assert len(world.parts.store.find_by_key("T", key, 9)) == count


def test_a_restart_goes_on_with_the_offsets(world: World) -> None:
    send_batch(world)
    again = world.reopened(mapperFileSizeBatchConsumeQueue=4600)
    assert send_batch(again).ext["queueOffset"] == "2"
    assert again.files.is_dir("/data/batchconsumequeue/T/1") and not again.files.is_dir("/data/consumequeue/T")


def test_what_can_t_be_an_inner_batch_is_refused(world: World) -> None:
    for body, changes in (
        (ENTRIES, {"properties": HEAD + "DELAY\x011\x02"}),
        (batch((b"1", b"DELAY\x011\x02")), {}),
        (batch((b"1", b"TRAN_MSG\x01true\x02")), {}),
        (ENTRIES[:-1], {}),
        (ENTRIES, {"properties": HEAD + "long\x01" + "x" * 32_650 + "\x02"}),
    ):
        code, _ = refusal(world, body, Code.SEND_BATCH_MESSAGE, **{"batch": "true", "properties": HEAD, **changes})
        assert code == ResponseCode.MESSAGE_ILLEGAL
    for topic in ("T", "P"):
        assert refusal(world, ENTRIES, topic=topic, sys_flag=0xC0)[0] == ResponseCode.MESSAGE_ILLEGAL


def test_an_inner_batch_can_t_be_sent_back(world: World) -> None:
    send_batch(world)
    world.parts.metadata.groups.ensure("g")
    code, remark = Caller(world).refused(Code.CONSUMER_SEND_MSG_BACK, offset=0, group="g", delayLevel=0)
    assert code == ResponseCode.SYSTEM_ERROR and "MESSAGE_ILLEGAL" in remark


def test_delayed_and_transactional_single_messages_arrive_in_batch_queues(world: World) -> None:
    send_batch(world)
    send(world, b"later", properties="DELAY\x011\x02")
    assert world.parts.store.max_offset("T", 1) == 2
    world.clock.advance(2_000)
    world.parts.messages.delays.tick()
    world.parts.messages.writer.commit()
    assert [m.body for m in stored(world)[1:]] == [b"later"] and world.parts.store.max_offset("T", 1) == 3


def test_the_queue_type_of_a_topic_stays(world: World) -> None:
    topics = world.parts.metadata.topics
    for topic, kind in (("T", "SimpleCQ"), ("P", "BatchCQ")):
        with pytest.raises(Refusal, match="unchangeable attribute"):
            topics.put([TopicConfig(topic_name=topic, attributes={"queue.type": kind})])
    with pytest.raises(Refusal, match="unchangeable attribute"):
        topics.changed_attributes("T", "-queue.type")
    topics.put([TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8)])  # without attributes
    assert topics.require("T").attributes == BATCHES
    with pytest.raises(Refusal, match="SimpleCQ, BatchCQ"):
        topics.put([TopicConfig(topic_name="New", attributes={"queue.type": "Other"})])


def test_a_deleted_topic_may_come_back_with_the_other_type(world: World) -> None:
    send_batch(world)
    Caller(world).ask(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    assert send_batch(world).ext["queueOffset"] == "0"
    assert [m.body for m in stored(world)] == [b"1", b"22"]
    again = world.reopened(mapperFileSizeBatchConsumeQueue=4600)
    assert [m.body for m in stored(again)] == [b"1", b"22"]


# -- the fast path ------------------------------------------------------------------------------------------------


def inner_world() -> World:
    world = World(mapperFileSizeBatchConsumeQueue=4600)
    topic = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4, attributes=BATCHES)
    world.parts.metadata.topics.put([topic])
    return world


def sent_both_ways(payload: bytes) -> tuple[bool, Any, Any]:
    """Return whether the fast path took a send, and what the fast path and the plain one left."""
    left = []
    took = False
    for is_fast in (True, False):
        world, peer = inner_world(), FakePeer()
        for _ in range(2):
            if is_fast and world.parts.requests.fast_path(peer, payload):  # type: ignore[arg-type]
                took = True
            else:
                command = decode_command(payload)
                reply = broker_dispatcher(world.parts).dispatch(peer, command)
                if reply is not None:
                    peer.write(encode_command(reply.to_command(command)))
        world.parts.messages.writer.commit()
        world.parts.store.insert_waiting_keys()
        keys = [len(world.parts.store.find_by_key("T", key, 9)) for key in ("HEAD", "k1", "own")]
        answers = [(frame.code, frame.ext, frame.serialize) for frame in peer.frames]
        left.append((answers, stored(world), keys, world.parts.store.max_offset("T", 1)))
    return took, left[0], left[1]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=9),
    st.booleans(),
    st.sampled_from(["", "KEYS\x01k1 k2\x02", "TAGS\x01A\x02", "WAIT\x01false\x02TAGS\x01A"]),
    st.sampled_from([payload_of, binary_payload]),
    st.sampled_from([0, 1]),
)
def test_the_fast_path_stores_the_same(
    sizes: list[int], same: bool, properties: str, make: Callable[..., bytes], sys_flag: int
) -> None:
    sizes = sizes[:1] * len(sizes) if same else sizes
    body = batch(*((b"DELAY\x01"[:size], b"KEYS\x01own\x02" if size % 2 else b"") for size in sizes))
    ext = ordinary(m="true", i="UNIQ_KEY\x01HEAD\x02" + properties, f=str(sys_flag))
    took, fast, plain = sent_both_ways(make(ext, body, code=320))
    assert fast == plain
    assert took
    assert fast[3] == 2 * len(sizes)


def test_the_fast_path_declines_what_is_refused() -> None:
    good = batch((b"body", b"KEYS\x01k\x02"), (b"BODY", b"KEYS\x01l\x02"))
    for body in (
        good[:-1],
        good + b"\0",
        good[:4],
        b"\0" * 22,
        batch((b"b", b"DELAY\x011\x02")),
        batch((b"b", b""), (b"bb", b"TRAN_MSG\x01true\x02")),
        good[:18] + good[:9],
    ):
        took, fast, plain = sent_both_ways(payload_of(ordinary(m="true", i="UNIQ_KEY\x01HEAD\x02"), body, code=320))
        assert not took and fast == plain and not fast[1]
    for index in range(20):
        changed = bytearray(good)
        changed[index] ^= 1
        _, fast, plain = sent_both_ways(payload_of(ordinary(m="true", i="UNIQ_KEY\x01H\x02"), bytes(changed), code=320))
        assert fast == plain
