"""TransactionChecks: who is asked, when, how often, and what becomes of a transaction that stays open."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model.record import decode_record
from pymq.model.transactions import COMMIT, ROLLBACK, UNKNOWN
from pymq.wire.codes import RequestCode as Code
from tests.broker.disk import failing
from tests.broker.transactions.driver import (
    OP,
    TransactionProducer,
    bodies,
    halves,
    ops,
    run_round,
    world_with_topic,
)
from tests.broker.world import World

DISCARDED = "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.fixture
def world() -> World:
    return world_with_topic()


@pytest.fixture
def producer(world: World) -> TransactionProducer:
    return TransactionProducer(world)


def offsets(world: World) -> tuple[int, int]:
    """Return the offsets of the system's group in the half and the op queue."""
    world.parts.store.sync()
    world.parts.messages.transactions.tick()
    cursors = world.parts.metadata.cursors
    return (
        cursors.query("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0),
        cursors.query("CID_RMQ_SYS_TRANS", OP, 0),
    )


def test_a_check_stores_the_half_message_again_and_asks_as_rocketmq_does(
    world: World, producer: TransactionProducer
) -> None:
    producer.half(b"m", 3, TAGS="A", UNIQ_KEY="ID1")
    run_round(world)
    (question,) = producer.asked()
    first, copy = halves(world)
    assert question.code == Code.CHECK_TRANSACTION_STATE and question.is_oneway
    assert question.ext == {
        "topic": "T",
        "tranStateTableOffset": "1",
        "commitLogOffset": str(copy.physical_offset),
        "msgId": "ID1",
        "transactionId": "ID1",
        "offsetMsgId": first.offset_message_id,
        "bname": "broker-a",
    }
    asked = decode_record(question.body)
    assert (asked.topic, asked.queue_id, asked.body, asked.sys_flag) == ("T", 3, b"m", 0)
    assert (asked.queue_offset, asked.physical_offset) == (1, copy.physical_offset)
    assert asked.properties == copy.properties
    assert copy.properties == {
        **first.properties, "TRANSACTION_CHECK_TIMES": "1", "WAIT": "false", "TRAN_PREPARED_QUEUE_OFFSET": "0",
    }  # fmt: skip
    assert (copy.flag, copy.born_timestamp_ms) == (first.flag, first.born_timestamp_ms)


@pytest.mark.parametrize(("state", "found"), [(COMMIT, [b"m"]), (ROLLBACK, [])])
def test_the_answer_to_a_check_ends_the_transaction(
    world: World, producer: TransactionProducer, state: int, found: list[bytes]
) -> None:
    producer.half()
    run_round(world)
    (question,) = producer.asked()
    assert producer.answer(question, state)[0] == 0
    assert bodies(world) == found and ops(world) == [b"0,1,"]
    run_round(world)
    assert producer.asked() == [] and len(halves(world)) == 2
    assert offsets(world) == (2, 1)


def test_the_first_copy_s_offsets_end_it_as_well_and_once(world: World, producer: TransactionProducer) -> None:
    half = producer.half()
    run_round(world)
    (question,) = producer.asked()
    producer.commit(half)
    assert producer.answer(question, COMMIT)[0] == 0
    assert bodies(world) == [b"m"]
    run_round(world)
    assert producer.asked() == []


def test_a_young_half_message_is_not_asked_about(world: World, producer: TransactionProducer) -> None:
    world.clock.advance(25_000)
    producer.half()
    run_round(world, 5_000)
    assert producer.asked() == [] and len(halves(world)) == 1
    run_round(world, 29_999)
    assert producer.asked() == []
    run_round(world, 1)
    assert len(producer.asked()) == 1


def test_a_message_s_own_immunity_time_counts_and_costs_no_check(world: World, producer: TransactionProducer) -> None:
    half = producer.half(CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    for _ in range(19):
        run_round(world)
        assert producer.asked() == []
    assert len(halves(world)) == 1, "it was stored again for nothing"
    run_round(world)
    (question,) = producer.asked()
    assert halves(world)[-1].properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert producer.answer(question, COMMIT)[0] == 0 and bodies(world) == [b"m"]
    assert producer.end(half, fromTransactionCheck="true")[0] == 0 and bodies(world) == [b"m"]


@pytest.mark.parametrize("text", ["-1", "x", "", "99999999999999", "1"])
def test_an_immunity_time_that_is_none_counts_as_the_default(
    world: World, producer: TransactionProducer, text: str
) -> None:
    producer.half(CHECK_IMMUNITY_TIME_IN_SECONDS=text)
    run_round(world)
    assert len(producer.asked()) == 1


def test_an_immune_message_moves_with_the_younger_ones_behind_it(world: World, producer: TransactionProducer) -> None:
    immune = producer.half(b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    producer.half(b"other")
    run_round(world)
    assert [question.ext["tranStateTableOffset"] for question in producer.asked()] == ["3"]
    moved = halves(world)[2]
    assert moved.body == b"immune" and "TRANSACTION_CHECK_TIMES" not in moved.properties
    assert moved.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert offsets(world)[0] == 2
    producer.commit(immune)
    assert bodies(world) == [b"immune"]
    run_round(world, 700_000)
    assert [question.ext["tranStateTableOffset"] for question in producer.asked()] == ["4"]


def test_a_transaction_asked_about_too_often_goes_to_the_topic_of_discarded_ones() -> None:
    world = world_with_topic(transactionCheckMax=3)
    producer = TransactionProducer(world)
    half = producer.half(b"m", 2, TAGS="A")
    for count in range(1, 4):
        run_round(world)
        (question,) = producer.asked()
        assert decode_record(question.body).properties["TRANSACTION_CHECK_TIMES"] == str(count)
        assert producer.answer(question, UNKNOWN)[0] == 0
    assert world.messages(DISCARDED) == []
    run_round(world)
    assert producer.asked() == [] and bodies(world, "T", 2) == []
    (discarded,) = world.messages(DISCARDED)
    assert (discarded.body, discarded.tags, discarded.properties["REAL_TOPIC"]) == (b"m", "A", "T")
    assert ops(world) == [b"0,1,2,3,"] and offsets(world) == (4, 1)
    run_round(world)
    assert len(halves(world)) == 4
    producer.commit(half)  # too late, but the producer's word is known now
    assert bodies(world, "T", 2) == [b"m"]


def test_a_round_without_a_producer_counts_as_rocketmq_counts_it(world: World) -> None:
    TransactionProducer(world, joins=False).half()
    run_round(world)
    assert halves(world)[-1].properties["TRANSACTION_CHECK_TIMES"] == "1"
    late = TransactionProducer(world)
    run_round(world)
    (question,) = late.asked()
    assert question.ext["tranStateTableOffset"] == "2"


def test_an_old_transaction_is_discarded_before_its_segment_is_deleted() -> None:
    world = world_with_topic(fileReservedTime=1)
    producer = TransactionProducer(world)
    producer.half()
    run_round(world, 3_600_001)
    assert producer.asked() == [] and len(world.messages(DISCARDED)) == 1


def test_a_client_s_clock_does_not_discard_or_keep_a_transaction(world: World, producer: TransactionProducer) -> None:
    fields = {**producer.half_fields(), "g": 0}
    producer.caller.ask(Code.SEND_MESSAGE_V2, b"old", **fields)
    producer.caller.ask(Code.SEND_MESSAGE_V2, b"new", **{**fields, "g": 2**62})
    world.parts.end_turn()
    run_round(world, 5_999)
    assert producer.asked() == []
    run_round(world, 30_000)
    assert len(producer.asked()) == 2 and world.messages(DISCARDED) == []


def test_members_of_the_group_take_turns_and_others_are_not_asked(world: World) -> None:
    first, second, other = TransactionProducer(world), TransactionProducer(world), TransactionProducer(world, "OTHER")
    third = TransactionProducer(world)
    third.peer.is_behind = True
    for number in range(4):
        first.half(b"%d" % number, UNIQ_KEY=str(number))
    run_round(world)
    assert (len(first.asked()), len(second.asked()), len(third.asked()), len(other.asked())) == (2, 2, 0, 0)


def test_many_open_transactions_are_looked_at_some_in_each_tick(world: World, producer: TransactionProducer) -> None:
    for _ in range(600):
        producer.ask_half()
    world.parts.end_turn()
    world.clock.advance(30_000)
    counts = []
    for _ in range(4):
        world.parts.messages.transaction_checks.tick()
        counts.append(len(producer.asked()))
    assert counts == [256, 256, 88, 0]


def test_a_half_message_that_is_only_staged_is_no_lost_one() -> None:
    world = world_with_topic(transactionTimeOut=0)
    producer = TransactionProducer(world)
    world.clock.advance(30_000)
    producer.ask_half()
    world.parts.messages.transaction_checks.tick()
    assert len(producer.asked()) == 1 and world.parts.messages.transactions.unreadable_count == 0


def test_a_disk_that_fails_puts_the_round_off(world: World, producer: TransactionProducer) -> None:
    half = producer.half()
    with failing(world, "pwrite", "commitlog"):
        run_round(world)
        assert producer.asked() == [] and len(halves(world)) == 1
    run_round(world, 100)
    (question,) = producer.asked()
    assert question.ext["tranStateTableOffset"] == "1"
    producer.commit(half)
    assert bodies(world) == [b"m"]


# -- restarts ----------------------------------------------------------------------------------------------------


def test_open_transactions_survive_a_stop(world: World, producer: TransactionProducer) -> None:
    done, kept = producer.half(b"done"), producer.half(b"kept", UNIQ_KEY="K2")
    producer.commit(done)
    world = world.reopened()
    again = TransactionProducer(world)
    assert len(world.parts.messages.transactions.halves) == 1
    code, remark = again.end(done)
    assert code == 1 and "has ended already" in remark
    again.commit(kept)
    assert bodies(world) == [b"done", b"kept"]


def test_a_client_s_clock_does_not_discard_or_keep_a_checked_transaction_after_a_stop() -> None:
    """A copy tells no more when its transaction began: the record of the first one does, also behind the offsets."""
    world = world_with_topic(fileReservedTime=1)
    producer = TransactionProducer(world)
    fields = {**producer.half_fields(), "g": 0}
    producer.caller.ask(Code.SEND_MESSAGE_V2, b"m", **fields)
    world.parts.end_turn()
    run_round(world)
    assert offsets(world)[0] == 1
    world = world.reopened(fileReservedTime=1)
    again = TransactionProducer(world)
    (half,) = world.parts.messages.transactions.halves.all()
    assert half.begun_ms == halves(world)[0].store_timestamp_ms
    run_round(world)
    assert len(again.asked()) == 1 and world.messages(DISCARDED) == []
    run_round(world, 3_600_000)
    assert again.asked() == [] and len(world.messages(DISCARDED)) == 1


@pytest.mark.parametrize("saves", [True, False], ids=["offsets saved", "offsets lost"])
def test_checked_transactions_survive_a_stop_as_one(saves: bool) -> None:
    world = world_with_topic()
    producer = TransactionProducer(world)
    half = producer.half()
    for _ in range(3):
        run_round(world)
    world = world.reopened()
    if not saves:
        world.parts.metadata.cursors.forget_group("CID_RMQ_SYS_TRANS")
        world.parts.messages.transactions.start()
    again = TransactionProducer(world)
    assert len(world.parts.messages.transactions.halves) == 1
    run_round(world)
    (question,) = again.asked()
    assert decode_record(question.body).properties["TRANSACTION_CHECK_TIMES"] == "4"
    again.commit(half)
    assert again.answer(question, COMMIT)[0] == 0
    assert bodies(world) == [b"m"]
    world.parts.messages.transactions.start()
    assert len(world.parts.messages.transactions.halves) == 0


def test_the_offsets_move_only_over_what_the_disk_has(world: World, producer: TransactionProducer) -> None:
    cursors = world.parts.metadata.cursors
    world.parts.store.sync()
    world.parts.messages.transactions.tick()
    producer.commit(producer.half())
    world.parts.messages.transactions.tick()
    assert cursors.query("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0) < 1
    assert offsets(world) == (1, 1)


def test_records_that_are_none_stall_nothing(world: World, producer: TransactionProducer) -> None:
    half = producer.half(b"good")
    world.put("RMQ_SYS_TRANS_HALF_TOPIC", b"no half message")
    world.put("RMQ_SYS_TRANS_HALF_TOPIC", b"no group", REAL_TOPIC="T", REAL_QID="0")
    world.put(OP, b"junk,,9999999999999999999999,-3,")
    world.put(OP, b"1")
    world = world.reopened()
    again = TransactionProducer(world)
    transactions: Any = world.parts.messages.transactions
    assert len(transactions.halves) == 1 and transactions.unreadable_count == 2
    run_round(world)
    assert len(again.asked()) == 1
    again.commit(half)
    assert bodies(world) == [b"good"]
    assert offsets(world) == (4, 3)
