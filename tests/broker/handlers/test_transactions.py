"""Half messages, END_TRANSACTION (37) and RESUME_CHECK_HALF_MESSAGE (323): what is stored, and each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model.names import DLQ_PREFIX, HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from pymq.model.properties import encode_properties
from pymq.model.transactions import COMMIT, ROLLBACK, UNKNOWN
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.disk import failing
from tests.broker.transactions.driver import TransactionProducer, bodies, halves, ops, run_round, world_with_topic
from tests.broker.world import Caller, World


@pytest.fixture
def world() -> World:
    return world_with_topic()


@pytest.fixture
def producer(world: World) -> TransactionProducer:
    return TransactionProducer(world)


def test_a_half_message_waits_in_the_half_topic_as_rocketmq_stores_it(
    world: World, producer: TransactionProducer
) -> None:
    half = producer.half(b"m", 3, TAGS="A", KEYS="k", UNIQ_KEY="ID1")
    assert (half.queue_offset, half.transaction_id, half.answer.ext["queueId"]) == (0, "ID1", "3")
    assert bodies(world, "T", 3) == []
    (stored,) = halves(world)
    assert (stored.body, stored.flag, stored.sys_flag, stored.queue_id) == (b"m", 9, 0, 0)
    assert stored.physical_offset == half.physical_offset and stored.prepared_transaction_offset == 0
    assert stored.properties == {
        "TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "ID1", "TAGS": "A", "KEYS": "k",
        "MSG_REGION": "DefaultRegion", "CLUSTER": "DefaultCluster", "TRACE_ON": "true",
        "__transactionId__": "ID1", "REAL_TOPIC": "T", "REAL_QID": "3",
    }  # fmt: skip
    assert ops(world) == []


def test_a_commit_stores_the_message_and_an_op_record(world: World, producer: TransactionProducer) -> None:
    half = producer.half(b"m", 3, TAGS="A")
    producer.commit(half)
    (message,) = world.messages("T", 3)
    assert (message.body, message.flag, message.tags, message.sys_flag) == (b"m", 9, "A", 8)
    assert message.prepared_transaction_offset == half.physical_offset
    assert message.properties == halves(world)[0].properties
    (op,) = world.messages(OP_HALF_TOPIC)
    assert (op.body, op.raw_properties, op.queue_id) == (b"0,", b"WAIT\x01true\x02TAGS\x01d\x02", 0)
    assert op.physical_offset > message.physical_offset


def test_a_rollback_stores_only_an_op_record(world: World, producer: TransactionProducer) -> None:
    producer.roll_back(producer.half())
    assert bodies(world) == [] and ops(world) == [b"0,"]


def test_the_ends_of_one_turn_share_an_op_record(world: World, producer: TransactionProducer) -> None:
    found = [producer.half(b"%d" % i) for i in range(4)]
    for half in found[:3]:
        producer.caller.ask(
            Code.END_TRANSACTION, producerGroup="PG", tranStateTableOffset=half.queue_offset,
            commitLogOffset=half.physical_offset, commitOrRollback=COMMIT, oneway=True,
        )  # fmt: skip
    world.parts.end_turn()
    assert ops(world) == [b"0,1,2,"] and bodies(world) == [b"0", b"1", b"2"]


def test_op_records_keep_their_limit_of_size() -> None:
    world = world_with_topic(transactionOpMsgMaxSize=32)
    producer = TransactionProducer(world)
    for half in [producer.half() for _ in range(20)]:
        producer.caller.ask(
            Code.END_TRANSACTION, producerGroup="PG", tranStateTableOffset=half.queue_offset,
            commitLogOffset=half.physical_offset, commitOrRollback=ROLLBACK, oneway=True,
        )  # fmt: skip
    world.parts.end_turn()
    assert b"".join(ops(world)) == b"".join(b"%d," % i for i in range(20))
    assert len(ops(world)) == 2 and all(len(body) <= 32 for body in ops(world))


def test_a_transaction_whose_state_is_unknown_stays_open(world: World, producer: TransactionProducer) -> None:
    half = producer.half()
    code, remark = producer.end(half, UNKNOWN)
    assert code == 0 and "stays open" in remark
    producer.commit(half)


# -- ending wrongly ----------------------------------------------------------------------------------------------


def test_the_same_end_twice_is_answered_and_does_nothing(world: World, producer: TransactionProducer) -> None:
    half = producer.half()
    producer.commit(half)
    code, remark = producer.end(half)
    assert code == 0 and "committed before" in remark
    assert bodies(world) == [b"m"] and ops(world) == [b"0,"]


@pytest.mark.parametrize(("first", "second", "text"), [(COMMIT, ROLLBACK, "committed"), (ROLLBACK, COMMIT, "rolled")])
def test_another_end_is_refused(
    world: World, producer: TransactionProducer, first: int, second: int, text: str
) -> None:
    half = producer.half()
    assert producer.end(half, first)[0] == 0
    before = bodies(world), ops(world)
    code, remark = producer.end(half, second)
    assert code == ResponseCode.SYSTEM_ERROR and text in remark and "ends once" in remark
    assert (bodies(world), ops(world)) == before


def test_two_ends_in_one_turn(world: World, producer: TransactionProducer) -> None:
    half = producer.half()
    ext: dict[str, Any] = {
        "producerGroup": "PG", "tranStateTableOffset": half.queue_offset, "commitLogOffset": half.physical_offset,
    }  # fmt: skip
    assert producer.caller.ask(Code.END_TRANSACTION, commitOrRollback=COMMIT, **ext) is None
    assert producer.caller.refused(Code.END_TRANSACTION, commitOrRollback=ROLLBACK, **ext)[0] == 1
    world.parts.end_turn()
    assert bodies(world) == [b"m"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"producerGroup": "OTHER"}, "The producer group wrong"),
        ({"tranStateTableOffset": 1}, "The transaction state table offset wrong"),
        ({"commitLogOffset": 7}, "Find prepared transaction message failed"),
        ({"commitLogOffset": -1}, "Find prepared transaction message failed"),
        ({"commitLogOffset": 1 << 60}, "Find prepared transaction message failed"),
        ({"commitOrRollback": 4}, "commitOrRollback field wrong"),
    ],
)
def test_a_forged_end_is_refused(
    world: World, producer: TransactionProducer, change: dict[str, Any], text: str
) -> None:
    half = producer.half()
    code, remark = producer.end(half, **change) if "commitOrRollback" not in change else producer.end(half, 4)
    assert code == ResponseCode.SYSTEM_ERROR and text in remark
    assert bodies(world) == [] and ops(world) == []
    producer.commit(half)


def test_a_message_that_is_no_half_message_can_t_be_committed(world: World, producer: TransactionProducer) -> None:
    half = producer.half()
    producer.commit(half)
    (message,) = world.messages("T", 1)
    code, remark = producer.end(half, commitLogOffset=message.physical_offset)
    assert code == ResponseCode.SYSTEM_ERROR and "no half message" in remark
    assert bodies(world) == [b"m"]


def test_a_late_end_of_a_message_with_its_own_immunity_time_is_refused_unless_the_broker_asked(
    world: World, producer: TransactionProducer
) -> None:
    half = producer.half(CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    world.clock.advance(10_001)
    code, remark = producer.end(half)
    assert code == ResponseCode.ILLEGAL_OPERATION and "10001 ms" in remark and "10000 ms" in remark
    assert producer.end(half, fromTransactionCheck="true")[0] == 0
    assert bodies(world) == [b"m"]


def test_a_commit_for_a_topic_that_is_gone_leaves_the_transaction_open(
    world: World, producer: TransactionProducer
) -> None:
    half = producer.half()
    producer.caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert producer.end(half)[0] == ResponseCode.TOPIC_NOT_EXIST
    assert ops(world) == [] and len(world.parts.messages.transactions.halves) == 1


def test_a_commit_that_can_t_be_stored_leaves_the_transaction_open(world: World, producer: TransactionProducer) -> None:
    half = producer.half(b"first")
    with failing(world, "pwrite", "commitlog"):
        assert producer.end(half)[0] == ResponseCode.SERVICE_NOT_AVAILABLE
        producer.ask_half(b"second")
        world.parts.end_turn()
        assert producer.peer.frames.pop().code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert producer.end(half, ROLLBACK)[0] == ResponseCode.SERVICE_NOT_AVAILABLE
    assert bodies(world) == [] and ops(world) == [] and len(world.parts.messages.transactions.halves) == 1
    third = producer.half(b"third")
    assert third.queue_offset == 1
    producer.commit(half)
    producer.commit(third)
    assert bodies(world) == [b"first", b"third"]


# -- half messages that are refused ------------------------------------------------------------------------------


def refused_half(producer: TransactionProducer, **properties: Any) -> tuple[int, str]:
    return producer.caller.refused(Code.SEND_MESSAGE_V2, b"m", **producer.half_fields(**properties))


@pytest.mark.parametrize("name", ["DELAY", "__STARTDELIVERTIME"])
def test_a_delayed_half_message_is_refused(world: World, producer: TransactionProducer, name: str) -> None:
    code, remark = refused_half(producer, **{name: "3"})
    assert code == ResponseCode.MESSAGE_ILLEGAL and "DELAY" in remark and halves(world) == []


@pytest.mark.parametrize("name", ["TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"])
def test_a_half_message_with_a_timer_is_refused(world: World, producer: TransactionProducer, name: str) -> None:
    assert refused_half(producer, **{name: "3"})[0] in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR)
    assert halves(world) == []


def test_half_messages_are_refused_where_the_operator_says_so() -> None:
    producer = TransactionProducer(world_with_topic(rejectTransactionMessage="true"))
    code, remark = refused_half(producer)
    assert code == ResponseCode.NO_PERMISSION and "rejectTransactionMessage" in remark


def test_open_transactions_are_bounded() -> None:
    producer = TransactionProducer(world_with_topic(maxOpenTransactions=2))
    half = producer.half()
    producer.half()
    code, remark = refused_half(producer)
    assert code == ResponseCode.SYSTEM_BUSY and "limit is 2" in remark and "maxOpenTransactions" in remark
    producer.commit(half)
    producer.half()


def test_properties_leave_room_for_what_checks_add(producer: TransactionProducer) -> None:
    code, remark = refused_half(producer, big="x" * 32_540)
    assert code == ResponseCode.MESSAGE_ILLEGAL and "shorten" in remark


@pytest.mark.parametrize("topic", [HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC])
@pytest.mark.parametrize("is_half", [True, False])
def test_a_client_s_own_send_to_a_topic_of_transactions_is_refused(
    world: World, producer: TransactionProducer, topic: str, is_half: bool
) -> None:
    fields = {**producer.half_fields(), "b": topic}
    if not is_half:
        fields["i"] = "UNIQ_KEY\x01A\x02"
    assert producer.caller.refused(Code.SEND_MESSAGE_V2, b"m", **fields)[0] == ResponseCode.NO_PERMISSION
    assert halves(world) == [] and ops(world) == []


def test_what_only_the_broker_may_say_is_not_taken_from_a_client(world: World, producer: TransactionProducer) -> None:
    first = producer.half(b"first", UNIQ_KEY="A")
    producer.half(
        b"second", UNIQ_KEY="B", TRAN_PREPARED_QUEUE_OFFSET="0", TRANSACTION_CHECK_TIMES="15", REAL_TOPIC="X",
        REAL_QID="9", __transactionId__="Z",
    )  # fmt: skip
    stored = halves(world)[1].properties
    assert (stored["REAL_TOPIC"], stored["REAL_QID"], stored["__transactionId__"]) == ("T", "1", "B")
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in stored and "TRANSACTION_CHECK_TIMES" not in stored
    producer.commit(first)
    assert bodies(world) == [b"first"]


def test_a_half_message_without_a_producer_group_gets_the_sender_s(world: World) -> None:
    producer = TransactionProducer(world, "SENDER")
    fields = {**producer.half_fields(), "i": encode_properties({"TRAN_MSG": "TRUE"}).decode()}
    assert producer.caller.ask(Code.SEND_MESSAGE_V2, b"m", **fields) is None
    world.parts.end_turn()
    assert halves(world)[0].properties["PGROUP"] == "SENDER"


# -- never visible before the commit -----------------------------------------------------------------------------


def test_no_look_up_shows_a_half_message_through_another_topic(world: World, producer: TransactionProducer) -> None:
    half = producer.half(KEYS="k", UNIQ_KEY="ID1")
    world.parts.store.insert_waiting_keys()
    caller = Caller(world)
    code, remark = caller.refused(Code.VIEW_MESSAGE_BY_ID, offset=half.physical_offset)
    assert code == ResponseCode.SYSTEM_ERROR and "still open" in remark
    assert caller.refused(Code.VIEW_MESSAGE_BY_ID, offset=half.physical_offset, topic="T")[0] == 1
    assert caller.ok(Code.VIEW_MESSAGE_BY_ID, offset=half.physical_offset, topic=HALF_TOPIC).body
    for key in ("k", "ID1"):
        query: dict[str, Any] = {"topic": "T", "key": key, "maxNum": 9, "beginTimestamp": 0, "endTimestamp": 2**62}
        assert caller.refused(Code.QUERY_MESSAGE, **query)[0] == ResponseCode.QUERY_NOT_FOUND
    back: dict[str, Any] = {"offset": half.physical_offset, "group": "CG", "delayLevel": -1}
    assert caller.refused(Code.CONSUMER_SEND_MSG_BACK, **back)[0] == ResponseCode.SYSTEM_ERROR
    assert world.messages(f"{DLQ_PREFIX}CG") == []


# -- asking again ------------------------------------------------------------------------------------------------


def test_resume_check_starts_the_checks_again(world: World, producer: TransactionProducer) -> None:
    half = producer.half()
    run_round(world)
    assert halves(world)[-1].properties["TRANSACTION_CHECK_TIMES"] == "1"
    code = producer.caller.ask(Code.RESUME_CHECK_HALF_MESSAGE, msgId=half.message_id)
    world.parts.end_turn()
    assert code is None and producer.peer.frames.pop().code == 0
    run_round(world)
    assert halves(world)[-1].properties["TRANSACTION_CHECK_TIMES"] == "1"
    producer.commit(half)
    assert bodies(world) == [b"m"]
    assert producer.caller.refused(Code.RESUME_CHECK_HALF_MESSAGE, msgId=half.message_id)[0] == 1
    assert producer.caller.refused(Code.RESUME_CHECK_HALF_MESSAGE, msgId="junk")[0] == ResponseCode.INVALID_PARAMETER
