"""Transactions of a master and its slave: what a slave shows, what it refuses, and how it goes on once promoted."""

from __future__ import annotations

import pytest

from pymq.model.names import HALF_TOPIC
from pymq.model.tables import TopicConfig
from pymq.model.transactions import COMMIT
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.replication.pair import Pair
from tests.broker.transactions.driver import TransactionProducer, bodies, ops, run_round
from tests.broker.world import Caller, World

GROUP = "CID_RMQ_SYS_TRANS"


def joined_pair() -> Pair:
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    pair.run(500)
    return pair


def progress(world: World) -> int:
    return world.parts.metadata.cursors.query(GROUP, HALF_TOPIC, 0)


def test_a_slave_shows_no_half_message_and_ends_and_checks_none() -> None:
    pair = joined_pair()
    producer = TransactionProducer(pair.master)
    half = producer.half(b"m")
    pair.copy_log()
    slave = pair.slave
    assert bodies(slave) == [] and [message.body for message in slave.messages(HALF_TOPIC)] == [b"m"]
    caller = Caller(slave)
    assert caller.refused(Code.VIEW_MESSAGE_BY_ID, offset=half.physical_offset)[0] == ResponseCode.SYSTEM_ERROR
    code, remark = caller.refused(Code.END_TRANSACTION)
    assert code == ResponseCode.SLAVE_NOT_AVAILABLE and "ask its master" in remark
    assert not [job for job in slave.parts.jobs() if "transaction" in job.name]
    producer.commit(half)
    pair.copy_log()
    assert bodies(slave) == [b"m"]


@pytest.mark.parametrize("checked", [0, 2])
def test_a_promoted_slave_goes_on(checked: int) -> None:
    pair = joined_pair()
    producer = TransactionProducer(pair.master)
    done, kept = producer.half(b"done"), producer.half(b"kept", UNIQ_KEY="K2")
    for _ in range(checked):
        run_round(pair.master)
    producer.commit(done)
    pair.copy_log()
    pair.run(2000)
    pair.stop_master()
    master = pair.promote()
    again = TransactionProducer(master)
    assert len(master.parts.messages.transactions.halves) == 1
    run_round(master)
    (question,) = again.asked()
    assert question.ext["msgId"] == "K2"
    again.commit(kept)
    assert again.answer(question, COMMIT)[0] == 0
    assert bodies(master) == [b"done", b"kept"]


def test_the_progress_waits_for_the_slave_s_log() -> None:
    pair = joined_pair()
    producer = TransactionProducer(pair.master)
    half = producer.half(b"m")
    pair.copy_log()
    producer.commit(half)
    pair.master.parts.store.sync()
    pair.master.parts.messages.transactions.tick()
    assert progress(pair.master) == 1 and ops(pair.slave) == []
    pair.run(2000)
    assert progress(pair.slave) < 1, "the slave would lose the commit if it took over now"
    pair.copy_log()
    pair.run(2000)
    assert progress(pair.slave) == 1 and bodies(pair.slave) == [b"m"]


def test_a_commit_that_the_slave_lacks_is_asked_for_after_the_fail_over() -> None:
    pair = joined_pair()
    producer = TransactionProducer(pair.master)
    half = producer.half(b"m")
    pair.copy_log()
    producer.commit(half)
    pair.master.parts.store.sync()
    pair.master.parts.messages.transactions.tick()
    pair.run(2000)
    pair.stop_master()
    master = pair.promote()
    assert bodies(master) == []
    again = TransactionProducer(master)
    run_round(master)
    (question,) = again.asked()
    assert again.answer(question, COMMIT)[0] == 0 and bodies(master) == [b"m"]
