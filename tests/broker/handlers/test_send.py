"""Codes 10, 310, 320: what is stored and answered, and each refusal with RocketMQ's code and a next step."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from pymq.broker.report.registration import RegistrationRequests
from pymq.config import load_broker_config
from pymq.model.record import encode_batch_entry
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.headers.send import V2_LETTERS
from tests.broker.disk import Threads, failing
from tests.broker.world import Caller, World

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
# snake_case name -> the wire name of code 10.
_V1_NAMES = {name: re.sub("_(.)", lambda found: found[1].upper(), name) for name in V2_LETTERS}


class LateRegistration(RegistrationRequests):
    """Name servers know a change when a test runs what :meth:`take` returns."""

    def __init__(self) -> None:
        super().__init__(load_broker_config(None, {"namesrvAddr": "127.0.0.1:9876"}), wake=lambda: None)


@pytest.fixture
def world() -> World:
    """T has queues 0 to 3."""
    return with_topic()


def with_topic(**settings: Any) -> World:
    world = World(**settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    return world


def fields(code: int = Code.SEND_MESSAGE_V2, **changes: Any) -> dict[str, Any]:
    """Return a send's header with the names of its code. ``changes`` has snake_case names; None leaves a field out."""
    header: dict[str, Any] = {
        "producer_group": "PG",
        "topic": "T",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 1,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_001,
        "flag": 5,
        "properties": "UNIQ_KEY\x01ABC\x02TAGS\x01A\x02",
        **changes,
    }
    names = _V1_NAMES if code == Code.SEND_MESSAGE else V2_LETTERS
    return {names[name]: value for name, value in header.items() if value is not None}


def send(world: World, body: bytes = b"body", code: int = Code.SEND_MESSAGE_V2, **changes: Any) -> Command:
    """Send, commit the turn, and return the answer."""
    caller = Caller(world)
    assert caller.ask(code, body, **fields(code, **changes)) is None
    assert caller.peer.frames == [], "an answer left before the commit"
    world.parts.messages.writer.commit()
    (answer,) = caller.peer.frames
    assert answer.code == 0 and answer.is_response
    return answer


def refusal(world: World, body: bytes = b"body", code: int = Code.SEND_MESSAGE_V2, **changes: Any) -> tuple[int, str]:
    """Return (code, remark) of a refused send, which must store nothing."""
    log_end = world.parts.store.physical_max_offset
    told = Caller(world).refused(code, body, **fields(code, **changes))
    world.parts.messages.writer.commit()
    assert world.parts.store.physical_max_offset == log_end
    return told


def batch(*entries: tuple[bytes, bytes]) -> bytes:
    return b"".join(encode_batch_entry(body, properties) for body, properties in entries)


# -- what is stored and answered ---------------------------------------------------------------------------------


def test_an_ordinary_send_is_stored_and_answered(world: World) -> None:
    answer = send(world)
    (message,) = world.messages("T", 1)
    assert (message.body, message.flag, message.queue_offset, message.tags) == (b"body", 5, 0, "A")
    assert message.born_timestamp_ms == 1_700_000_000_001 and message.message_id == "ABC"
    assert answer.ext == {
        "msgId": message.offset_message_id,
        "queueId": "1",
        "queueOffset": "0",
        "transactionId": "ABC",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert {name: message.properties[name] for name in ("MSG_REGION", "CLUSTER", "TRACE_ON")} == {
        "MSG_REGION": "DefaultRegion",
        "CLUSTER": "DefaultCluster",
        "TRACE_ON": "true",
    }


def test_both_header_versions_store_the_same() -> None:
    old, new = with_topic(), with_topic()
    changes: dict[str, Any] = {"reconsume_times": 2, "sys_flag": 1, "unit_mode": "false", "batch": "false"}
    answers = [send(old, code=Code.SEND_MESSAGE, **changes), send(new, code=Code.SEND_MESSAGE_V2, **changes)]
    assert answers[0].ext == answers[1].ext
    assert old.messages("T", 1) == new.messages("T", 1) != []
    assert old.messages("T", 1)[0].reconsume_times == 2


def test_a_queue_left_open_is_picked_by_the_broker(world: World) -> None:
    picked = {send(world, queue_id=-1).ext["queueId"] for _ in range(50)}
    assert picked == {"0", "1", "2", "3"}
    assert sum(len(world.messages("T", queue_id)) for queue_id in range(4)) == 50


def test_a_missing_unique_key_is_added(world: World) -> None:
    answer = send(world, properties="TAGS\x01A")
    (message,) = world.messages("T", 1)
    key = message.properties["UNIQ_KEY"]
    assert re.fullmatch("[0-9A-F]{32}", key) and answer.ext["transactionId"] == key
    assert message.tags == "A"
    assert send(world, properties=None).ext["transactionId"] not in ("", key)


def test_a_one_way_send_is_stored_without_an_answer(world: World) -> None:
    caller = Caller(world)
    assert caller.ask(Code.SEND_MESSAGE_V2, b"body", oneway=True, **fields()) is None
    world.parts.messages.writer.commit()
    assert caller.peer.frames == [] and caller.peer.answers == []
    assert [message.body for message in world.messages("T", 1)] == [b"body"]


def test_a_delayed_send_waits_in_its_level_s_queue_and_comes_out(world: World) -> None:
    answer = send(world, properties="UNIQ_KEY\x01ABC\x02DELAY\x013\x02")
    assert answer.ext["queueId"] == "1"
    (waiting,) = world.messages(SCHEDULE, 2)
    assert (waiting.properties["REAL_TOPIC"], waiting.properties["REAL_QID"]) == ("T", "1")
    assert world.messages("T", 1) == []
    world.clock.advance(10_000)
    assert world.parts.messages.delays.tick()
    (message,) = world.messages("T", 1)
    assert (message.body, message.message_id, message.flag) == (b"body", "ABC", 5)


@pytest.mark.parametrize("level", ["0", "-1"])
def test_a_level_that_delays_nothing_is_an_ordinary_property(world: World, level: str) -> None:
    send(world, properties=f"UNIQ_KEY\x01ABC\x02DELAY\x01{level}\x02")
    assert world.messages("T", 1)[0].properties["DELAY"] == level


@pytest.mark.parametrize("level", ["soon", "1.5", "9999999999"])
def test_a_level_that_is_not_a_number_is_refused(world: World, level: str) -> None:
    properties = f"UNIQ_KEY\x01ABC\x02DELAY\x01{level}\x02"
    assert refusal(world, properties=properties)[0] == ResponseCode.MESSAGE_ILLEGAL
    code, remark = refusal(world, batch((b"1", properties.encode())), Code.SEND_BATCH_MESSAGE, batch="true")
    assert code == ResponseCode.MESSAGE_ILLEGAL and "DELAY" in remark


@pytest.mark.parametrize("sys_flag", [0x100, 0x300, 0x401, 0x701, 0x80, 0x40, 0x81])
@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
def test_flags_that_contradict_each_other_are_refused(world: World, sys_flag: int, code: int) -> None:
    body = batch((b"1", b"")) if code == Code.SEND_BATCH_MESSAGE else b"body"
    refused = refusal(world, body, code, batch="true" if code == Code.SEND_BATCH_MESSAGE else None, sys_flag=sys_flag)
    assert refused[0] == ResponseCode.MESSAGE_ILLEGAL and f"sysFlag {sys_flag} contradicts itself" in refused[1]


@pytest.mark.parametrize("sys_flag", [0x1, 0x101, 0x201, 0x301, 0x2, 0x33])
def test_flags_that_clients_set_are_taken(world: World, sys_flag: int) -> None:
    send(world, sys_flag=sys_flag)
    assert world.messages("T", 1)[0].sys_flag == sys_flag & ~0x30  # the hosts' own bits are the broker's


def test_transaction_bits_do_not_reach_the_record(world: World) -> None:
    send(world, sys_flag=0x4 | 0x1)
    assert world.messages("T", 1)[0].sys_flag & 0xC == 0


# -- batches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [Code.SEND_BATCH_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_MESSAGE])
def test_a_batch_is_stored_as_single_messages(world: World, code: int) -> None:
    send(world, b"before")
    body = batch((b"1", b"KEYS\x01k1\x02"), (b"22", b""), (b"333", b"TAGS\x01own"))
    answer = send(world, body, code, batch="true", properties="UNIQ_KEY\x01HEAD\x02TAGS\x01shared\x02")
    messages = world.messages("T", 1)[1:]
    assert [message.body for message in messages] == [b"1", b"22", b"333"]
    assert [message.queue_offset for message in messages] == [1, 2, 3]
    assert answer.ext["msgId"].split(",") == [message.offset_message_id for message in messages]
    assert (answer.ext["queueOffset"], answer.ext["transactionId"]) == ("1", "HEAD")
    # The header's properties stand behind each entry's own, and the last one of a name counts.
    assert all(message.tags == "shared" and message.message_id == "HEAD" for message in messages)
    assert messages[0].keys == "k1"
    assert messages[2].raw_properties.startswith(b"TAGS\x01own\x02UNIQ_KEY\x01HEAD\x02")


@pytest.mark.parametrize(
    "body",
    [
        b"no batch at all",
        batch((b"1", b""))[:-1],
        batch((b"1", b"")) + b"\0",
        batch((b"1", b"")) + b"\xff" * 30,
        batch((b"1", b""), (b"2", b"DELAY\x011\x02")),
        batch((b"1", b""), (b"2", b"x\x01" + b"y" * 32_700 + b"\x02")),
    ],
)
def test_a_broken_batch_is_refused_as_a_whole(world: World, body: bytes) -> None:
    code, remark = refusal(world, body, Code.SEND_BATCH_MESSAGE, batch="true")
    assert code == ResponseCode.MESSAGE_ILLEGAL and "batch" in remark
    assert world.messages("T", 1) == []
    assert send(world).ext["queueOffset"] == "0"


def test_a_batch_can_t_be_delayed_or_retried(world: World) -> None:
    world.parts.metadata.groups.ensure("g")
    for changes in ({"properties": "DELAY\x011\x02"}, {"topic": "%RETRY%g", "queue_id": 0}):
        code, remark = refusal(world, batch((b"1", b"")), Code.SEND_BATCH_MESSAGE, batch="true", **changes)
        assert code == ResponseCode.MESSAGE_ILLEGAL and "one by one" in remark


def test_a_batch_of_too_many_messages_is_refused() -> None:
    world = with_topic(maxBatchNums=3)
    code, remark = refusal(world, batch((b"1", b"")) * 4, Code.SEND_BATCH_MESSAGE, batch="true")
    assert code == ResponseCode.MESSAGE_ILLEGAL and "3" in remark
    assert send(world, batch((b"1", b"")) * 3, Code.SEND_BATCH_MESSAGE, batch="true").ext["msgId"].count(",") == 2


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["../../etc/passwd", "a b", "x" * 128, "T.1", "a\x00b", "ü"])
def test_an_illegal_topic_name(world: World, topic: str) -> None:
    code, remark = refusal(world, topic=topic)
    assert code == ResponseCode.INVALID_PARAMETER
    assert repr(topic[:10])[1:-1] in remark and ("use only" in remark or "limit is 127" in remark)
    assert world.parts.metadata.topics.get(topic) is None


def test_an_empty_topic_name(world: World) -> None:
    assert refusal(world, topic="") == (29, "the topic name is empty: give a name of 1 to 127 characters")


@pytest.mark.parametrize("topic", [SCHEDULE, "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT"])
def test_a_system_topic(world: World, topic: str) -> None:
    code, remark = refusal(world, topic=topic, queue_id=0)
    assert code == ResponseCode.NO_PERMISSION and topic in remark


def test_a_first_send_is_taken_once_its_topic_is_saved() -> None:
    world = with_topic()
    sender = Caller(world)
    world.run_in_thread = threads = Threads()
    for code in (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2):
        assert sender.ask(code, b"x", **fields(code, topic="New")) is None
    entries = batch((b"y", b""), (b"z", b""))
    assert sender.ask(Code.SEND_BATCH_MESSAGE, entries, **fields(topic="New", batch="true")) is None
    world.parts.messages.writer.commit()
    assert sender.peer.frames == [] and world.parts.store.max_offset("New", 0) == 0
    threads.run_one()
    world.parts.messages.writer.commit()
    assert [answer.code for answer in sender.peer.frames] == [0, 0, 0]
    assert world.parts.store.max_offset("New", 1) == 4


def test_a_first_send_whose_topic_cannot_be_saved_is_refused() -> None:
    world = with_topic()
    with failing(world, "pwrite", "topics.json"):
        code, remark = refusal(world, topic="New")
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE and "topics.json" in remark
    send(world, topic="New")


def test_an_unknown_topic_without_auto_creation() -> None:
    world = with_topic(autoCreateTopicEnable="false")
    code, remark = refusal(world, topic="New")
    assert code == ResponseCode.TOPIC_NOT_EXIST and "'New'" in remark and "pymq topic create New" in remark
    assert world.parts.metadata.topics.get("New") is None


def test_no_permission_to_write(world: World) -> None:
    topic = world.parts.metadata.topics.require("T")
    world.parts.metadata.topics.put([msgspec.structs.replace(topic, perm=4)])
    code, remark = refusal(world)
    assert code == ResponseCode.NO_PERMISSION and "topic T has permission 4" in remark and "--perm 6" in remark
    world = with_topic(brokerPermission=4)
    code, remark = refusal(world)
    assert code == ResponseCode.NO_PERMISSION and "brokerPermission 4" in remark and "set it to 6" in remark


@pytest.mark.parametrize("queue_id", [4, 2**31 - 1])
def test_a_queue_that_does_not_exist(world: World, queue_id: int) -> None:
    code, remark = refusal(world, queue_id=queue_id)
    assert code == ResponseCode.INVALID_PARAMETER
    assert f"queue {queue_id} of topic T" in remark and "queues 0 to 3" in remark


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
def test_an_empty_body(world: World, code: int) -> None:
    told, remark = refusal(world, b"", code)
    assert told == ResponseCode.MESSAGE_ILLEGAL and "at least one byte" in remark


def test_a_body_at_and_above_the_limit() -> None:
    world = with_topic(maxMessageSize=2000)
    send(world, b"x" * 2000)
    for code in (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE):
        told, remark = refusal(world, b"x" * 2001, code)
        assert told == ResponseCode.MESSAGE_ILLEGAL
        assert "2001" in remark and "2000" in remark and "maxMessageSize" in remark
    assert [len(message.body) for message in world.messages("T", 1)] == [2000]


def test_properties_at_and_above_the_limit(world: World) -> None:
    own = len(world.parts.messages.writer.enrichment) + len("UNIQ_KEY\x01A\x02x\x01\x02")
    send(world, properties="UNIQ_KEY\x01A\x02x\x01" + "y" * (32_767 - own) + "\x02")
    code, remark = refusal(world, properties="UNIQ_KEY\x01A\x02x\x01" + "y" * (32_768 - own) + "\x02")
    assert code == ResponseCode.MESSAGE_ILLEGAL and "32768" in remark and "32767" in remark and "shorten" in remark
    assert len(world.messages("T", 1)[0].raw_properties) == 32_767


def test_a_transactional_message_in_a_batch(world: World) -> None:
    entries = batch((b"1", b""), (b"2", b"TRAN_MSG\x01true\x02"))
    code, remark = refusal(world, entries, Code.SEND_BATCH_MESSAGE, batch="true")
    assert code == ResponseCode.MESSAGE_ILLEGAL and "message 1" in remark and "TRAN_MSG=true" in remark
    send(world, properties="TRAN_MSG\x01false\x02UNIQ_KEY\x01A\x02")


@pytest.mark.parametrize("name", ["TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"])
def test_a_timer_message(world: World, name: str) -> None:
    for value in ("1800000000000", "9" * 19, "9" * 30, "1e3", "", "\u0663"):
        code, remark = refusal(world, properties=f"{name}\x01{value or ' '}\x02")
        assert code == ResponseCode.MESSAGE_ILLEGAL and "259200000ms" in remark and "timerMaxDelaySec" in remark
    entries = batch((b"1", b""), (b"2", f"{name}\x011\x02".encode()))
    assert refusal(world, entries, Code.SEND_BATCH_MESSAGE, batch="true")[0] == ResponseCode.MESSAGE_ILLEGAL
    assert refusal(world, entries[:1], Code.SEND_BATCH_MESSAGE, batch="true", properties=f"{name}\x011\x02")[0] == 13
    send(world, properties=f"MY_{name}\x015\x02")


@pytest.mark.parametrize(("name", "value"), [("queue_id", None), ("queue_id", "x"), ("born_timestamp", 2**63)])
def test_a_missing_or_ill_typed_field_is_named(world: World, name: str, value: Any) -> None:
    for code, names in ((Code.SEND_MESSAGE, _V1_NAMES), (Code.SEND_MESSAGE_V2, V2_LETTERS)):
        assert names[name] in refusal(world, code=code, **{name: value})[1]


# -- topics made by a first send ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "made"), [(4, 4), (1, 1), (8, 8), (16, 8), (0, 1), (-3, 1)])
def test_a_new_topic_gets_at_most_the_template_s_queues(world: World, wanted: int, made: int) -> None:
    send(world, topic="New", default_topic_queue_nums=wanted, queue_id=0)
    topic = world.parts.metadata.topics.require("New")
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (made, made, 6)
    assert len(world.messages("New")) == 1


def test_the_first_send_is_stored_once_name_servers_know_its_topic() -> None:
    requests = LateRegistration()
    world = World(registration_requests=requests)
    caller = Caller(world)
    assert caller.ask(Code.SEND_MESSAGE_V2, b"body", **fields(topic="New", queue_id=0)) is None
    world.parts.messages.writer.commit()
    assert world.parts.metadata.topics.get("New") is not None
    assert (caller.peer.frames, caller.peer.answers, world.messages("New")) == ([], [], [])
    for callback in requests.take():
        callback()
    world.parts.messages.writer.commit()
    assert [answer.code for answer in caller.peer.frames] == [0]
    assert len(world.messages("New")) == 1


def test_a_first_send_whose_topic_is_deleted_before_name_servers_know_it_makes_it_again() -> None:
    requests = LateRegistration()
    world = World(registration_requests=requests)
    caller = Caller(world)
    caller.ask(Code.SEND_MESSAGE_V2, b"body", **fields(topic="New", queue_id=0))
    world.parts.metadata.topics.delete("New")
    for _ in range(2):
        assert caller.peer.frames == []
        for callback in requests.take():
            callback()
        world.parts.messages.writer.commit()
    assert [answer.code for answer in caller.peer.frames] == [0]
    assert world.parts.metadata.topics.get("New") is not None and len(world.messages("New")) == 1


def test_a_first_send_that_waits_while_the_broker_stops_is_refused() -> None:
    requests = LateRegistration()
    world = World(registration_requests=requests)
    caller = Caller(world)
    caller.ask(Code.SEND_MESSAGE_V2, b"body", **fields(topic="New", queue_id=0))
    world.parts.store.close()
    for callback in requests.take():
        callback()
    assert [answer.code for answer in caller.peer.answers] == [ResponseCode.SERVICE_NOT_AVAILABLE]


def test_a_new_topic_s_template_must_allow_it(world: World) -> None:
    world.parts.metadata.topics.put([TopicConfig(topic_name="Template", read_queue_nums=2, write_queue_nums=2, perm=7)])
    send(world, topic="New", default_topic="Template", queue_id=0)
    assert world.parts.metadata.topics.require("New").write_queue_nums == 2
    for template in ("T", "Nope"):
        assert refusal(world, topic="Other", default_topic=template)[0] == ResponseCode.TOPIC_NOT_EXIST


def test_a_retry_topic_of_a_known_group_is_made_regardless_of_the_template(world: World) -> None:
    world.parts.metadata.groups.ensure("g")
    send(world, topic="%RETRY%g", default_topic="", queue_id=0)
    assert [message.body for message in world.messages("%RETRY%g")] == [b"body"]


@pytest.mark.parametrize("topic", ["%RETRY%stranger", "%DLQ%stranger"])
def test_a_send_makes_no_retry_or_dead_letter_topic_of_an_unknown_group(world: World, topic: str) -> None:
    code, remark = refusal(world, topic=topic, queue_id=0)
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST and "'stranger' not exist" in remark
    assert world.parts.metadata.topics.get(topic) is None and world.parts.metadata.groups.get("stranger") is None


# -- topics with a type ------------------------------------------------------------------------------------------


def test_a_topic_takes_all_messages_whatever_its_type(world: World) -> None:
    topic = TopicConfig(topic_name="F", read_queue_nums=4, write_queue_nums=4, attributes={"message.type": "FIFO"})
    world.parts.metadata.topics.put([topic])
    send(world, topic="F", properties="UNIQ_KEY\x01A\x02")
    assert len(world.messages("F", 1)) == 1


def test_with_the_check_of_types_a_topic_takes_only_messages_of_its_type() -> None:
    world = World(enableTopicMessageTypeCheck="true")
    topic = TopicConfig(topic_name="F", read_queue_nums=4, write_queue_nums=4, attributes={"message.type": "FIFO"})
    world.parts.metadata.topics.put([topic])
    send(world, topic="F", properties="UNIQ_KEY\x01A\x02__SHARDINGKEY\x01k\x02")
    code, remark = refusal(world, topic="F", properties="UNIQ_KEY\x01A\x02")
    assert code == ResponseCode.MESSAGE_ILLEGAL and "FIFO" in remark and "__SHARDINGKEY" in remark
    entries = batch((b"1", b"__SHARDINGKEY\x01k\x02"), (b"2", b""))
    assert refusal(world, entries, Code.SEND_BATCH_MESSAGE, topic="F", batch="true")[0] == ResponseCode.MESSAGE_ILLEGAL
    assert len(world.messages("F", 1)) == 1
