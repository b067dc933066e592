"""Copied tables: deletions wait for the log, and progress of delay levels is never ahead of it."""

from __future__ import annotations

from typing import Any

from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from tests.broker.replication.pair import Pair
from tests.broker.world import Caller


def put_both(pair: Pair, topic: str, count: int = 1, **properties: Any) -> None:
    """Put the same records on both, as replication of the log does."""
    for world in (pair.master, pair.slave):
        for _ in range(count):
            world.put(topic, **properties)
    assert pair.master.parts.store.physical_max_offset == pair.slave.parts.store.physical_max_offset


def joined_pair() -> Pair:
    pair = Pair()
    make(pair)
    pair.run(500)
    return pair


def test_a_slave_knows_at_once_what_kind_of_master_it_has() -> None:
    """The successor keeps the same promise, also when it was switched a moment before."""
    pair = joined_pair()
    assert pair.slave.parts.replication.master_role.name == "ASYNC_MASTER"
    pair.run(1000)
    pair.master.config.broker_role = "SYNC_MASTER"
    pair.master.parts.end_turn()
    pair.network.deliver()
    assert pair.slave.parts.replication.master_role.name == "SYNC_MASTER"


def make(pair: Pair, topic: str = "T") -> None:
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name=topic)])


def delete(pair: Pair, topic: str = "T") -> None:
    Caller(pair.master).ok(Code.DELETE_TOPIC_IN_BROKER, topic=topic)


def queue(pair: Pair) -> tuple[int, int]:
    """Return both ends of T's queue on the slave."""
    store = pair.slave.parts.store
    return store.min_offset("T", 0), store.max_offset("T", 0)


def test_a_deleted_topic_s_queues_go_on_the_slave() -> None:
    pair = joined_pair()
    put_both(pair, "T", 3)
    delete(pair)
    pair.run(500)
    assert pair.slave.parts.metadata.topics.get("T") is None and ("T", 0) not in list(pair.slave.parts.store.queues())
    assert pair.slave.parts.store.deletions.ends == pair.master.parts.store.deletions.ends != {}


def test_a_topic_made_again_keeps_its_new_messages() -> None:
    pair = joined_pair()
    put_both(pair, "T", 3)
    delete(pair)
    pair.slave.parts.store.delete_topics_below({"T": pair.slave.parts.store.physical_max_offset})
    make(pair)
    put_both(pair, "T", 2)  # the slave had the new records before it knew of the deletion
    pair.run(500)
    assert queue(pair) == (0, 2) and pair.slave.parts.metadata.topics.get("T") is not None


def test_a_slave_that_lags_leaves_the_deleted_records_out_when_they_come() -> None:
    pair = joined_pair()
    for _ in range(3):
        pair.master.put("T")
    delete(pair)
    end = pair.master.parts.store.physical_max_offset
    pair.run(500)
    assert pair.slave.parts.store.deletions.end("T") == end > pair.slave.parts.store.physical_max_offset


def test_forgotten_deletions_stay_while_the_slave_has_their_records() -> None:
    pair = joined_pair()
    put_both(pair, "T", 3)
    delete(pair)
    pair.run(500)
    ends = pair.slave.parts.store.deletions.ends
    pair.master.parts.store.deletions.bound(10**9, 10**9)
    pair.run(500)
    assert pair.master.parts.store.deletions.ends == {} and pair.slave.parts.store.deletions.ends == ends


def test_a_failing_disk_deletes_at_the_next_round() -> None:
    pair = joined_pair()
    put_both(pair, "T", 3)
    delete(pair)

    def fault(called: str, path: str) -> None:
        if called == "replace" and "deletedqueues" in path:
            raise OSError(5, "Input/output error", path)

    pair.slave.parts.store._housekeeping.write()
    pair.slave.files.fault = fault
    pair.run(500)
    assert "could not be taken" in pair.copy.problem
    pair.slave.files.fault = None
    pair.run(500)
    assert pair.copy.problem == "" and queue(pair) == (0, 0)


def test_delay_progress_counts_once_the_slave_has_the_delivered_messages() -> None:
    pair = joined_pair()
    put_both(pair, "T", DELAY="1")
    pair.clock.advance(1000)
    pair.master.parts.messages.delays.tick()
    assert pair.master.parts.messages.delays.offsets() == {1: 1}
    pair.run(500)
    assert pair.slave.parts.messages.delays.offsets() == {}, "the delivered message is not here"
    # More is delivered over there meanwhile: the first state has its turn all the same.
    end = pair.master.parts.store.physical_max_offset
    for _ in range(3):
        pair.master.put("T", DELAY="1")
        pair.clock.advance(1000)
        pair.master.parts.messages.delays.tick()
        pair.run(500)
    assert pair.slave.parts.messages.delays.offsets() == {}
    while pair.slave.parts.store.physical_max_offset < end:
        pair.slave.put("T")
    pair.run(100)
    assert pair.slave.parts.messages.delays.offsets() == {1: 1}
    while pair.slave.parts.store.physical_max_offset < pair.master.parts.store.physical_max_offset:
        pair.slave.put("T")
    pair.run(600)
    assert pair.slave.parts.messages.delays.offsets() == {1: 4}
    assert pair.file(pair.slave, "delayOffset")["offsetTable"] == {"1": 4}


def test_a_promoted_slave_delivers_what_its_master_had_not() -> None:
    pair = joined_pair()
    put_both(pair, "T", DELAY="1")
    put_both(pair, "T", DELAY="1")
    pair.run(500)
    master = pair.promote()
    master.clock.advance(1000)
    assert master.parts.messages.delays.tick()
    assert len(master.messages("T")) == 2


def test_a_slave_delivers_nothing() -> None:
    pair = joined_pair()
    put_both(pair, "T", DELAY="1")
    pair.clock.advance(5000)
    assert pair.slave.parts.messages.delays.next_due_ms() is None and not pair.slave.parts.messages.delays.tick()
    assert pair.slave.messages("T") == []
    pair.restart_slave()
    assert pair.slave.parts.messages.delays.next_due_ms() is None


def test_a_recreated_topic_keeps_its_first_message_at_a_late_deletion() -> None:
    pair = joined_pair()
    for _ in range(2):
        pair.master.put("T", b"old")
    pair.copy_log()
    delete(pair)
    make(pair)
    pair.master.put("T", b"new")
    pair.copy_log()
    assert [message.body for message in pair.slave.messages("T")] == [b"old", b"old"], "it looks like damage so far"
    pair.restart_slave()
    pair.run(500)
    assert [message.body for message in pair.slave.messages("T")] == [b"new"]
    pair.master.put("T", b"next")
    pair.copy_log()
    pair.restart_slave()
    assert [message.body for message in pair.slave.messages("T")] == [b"new", b"next"]


def test_a_crash_within_a_deletion_is_made_good_by_the_next_round() -> None:
    calls = ("makedirs", "sync_dir", "pwrite", "sync", "replace")
    for call in calls:
        for number in range(30):
            if not crash_within_deletion(call, number):
                break
        else:
            raise AssertionError(f"{call} is called again and again")


def crash_within_deletion(call: str, number: int) -> bool:
    """Let the slave die in place of its nth ``call`` while it takes a deletion. Return False when there are fewer."""
    pair = joined_pair()
    for _ in range(2):
        pair.master.put("T", b"old")
    pair.copy_log()
    pair.slave.parts.store._housekeeping.write()
    delete(pair)
    make(pair)
    pair.master.put("T", b"new")
    pair.copy_log()
    left = number

    def fault(called: str, path: str) -> None:
        nonlocal left
        if called == call:
            left -= 1
            if left == -1:
                raise OSError(5, "Input/output error", path)

    files = pair.slave.files
    files.fault = fault
    pair.master.parts.end_turn()
    pair.network.deliver()
    files.fault = None
    pair.copy.close()
    pair.slave.parts.leave_group("killed")
    pair.open_slave(files.after_kill())
    pair.network.asked.clear()
    pair.network.held.clear()
    pair.run(500)
    assert [message.body for message in pair.slave.messages("T")] == [b"new"], f"{call} {number}"
    pair.restart_slave()
    assert [message.body for message in pair.slave.messages("T")] == [b"new"], f"{call} {number}"
    return left < 0
