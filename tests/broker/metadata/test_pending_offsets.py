"""PendingOffsets: a commit on a slave reaches its master, counts here until then, and moves no offset back there."""

from __future__ import annotations

import pytest

from pymq.broker.metadata.pending_offsets import PENDING_COUNT_MAX, PendingOffset, PendingOffsets
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.replication.slave.offset_push import ASKED_AT_ONCE
from pymq.clock import ManualClock
from pymq.errors import Refusal
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.disk import failing
from tests.broker.replication.pair import Pair
from tests.broker.world import Caller, slave_side


def joined_pair(messages: int = 5) -> Pair:
    """T and g are on both; the master's queue 0 has messages, g has consumed one."""
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    pair.master.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g")])
    for _ in range(messages):
        pair.master.put("T")
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 1)
    pair.run(1000)
    return pair


def commit(pair: Pair, offset: int, queue_id: int = 0, topic: str = "T", group: str = "g") -> None:
    Caller(pair.slave).ok(
        Code.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id, commitOffset=offset
    )


def test_a_commit_while_the_master_is_away_reaches_it_at_its_return() -> None:
    pair = joined_pair()
    pair.stop_master()
    commit(pair, 4)
    pair.run(2000)
    assert pair.slave.parts.metadata.cursors.query("g", "T", 0) == 4
    assert pair.file(pair.slave, "pendingOffsets") == {"pendingOffsets": {"T@g": {"0": 4}}}
    pair.start_master()
    pair.run(1000)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 4
    assert pair.slave.parts.metadata.cursors.query("g", "T", 0) == 4
    assert pair.file(pair.slave, "pendingOffsets") == {"pendingOffsets": {}}


def test_a_group_created_while_the_master_is_away_reaches_it() -> None:
    pair = joined_pair()
    pair.stop_master()
    commit(pair, 4, group="new")
    pair.run(1000)
    pair.start_master()
    pair.run(1000)
    assert pair.master.parts.metadata.groups.get("new") is not None
    assert (
        pair.master.parts.metadata.cursors.query("new", "T", 0)
        == pair.slave.parts.metadata.cursors.query("new", "T", 0)
        == 4
    )
    assert not len(pair.slave.parts.metadata.pending_offsets)


def test_an_offset_the_master_has_no_room_for_does_not_block_others(caplog: pytest.LogCaptureFixture) -> None:
    pair = joined_pair()
    commit(pair, 4, group="new")
    commit(pair, 5)
    pair.master.parts.metadata.groups._config.group_count_max = 1
    pair.run(1000)
    assert (
        pair.master.parts.metadata.cursors.query("g", "T", 0) == 5
        and pair.master.parts.metadata.groups.get("new") is None
    )
    assert not len(pair.slave.parts.metadata.pending_offsets) and "limit of 1 consumer groups" in caplog.text


def test_a_restart_of_the_slave_keeps_all_offsets() -> None:
    pair = joined_pair()
    pair.stop_master()
    commit(pair, 3)
    pair.restart_slave()
    assert (
        pair.slave.parts.metadata.cursors.query("g", "T", 0) == 3
        and len(pair.slave.parts.metadata.pending_offsets) == 1
    )
    pair.start_master()
    pair.run(1000)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 3


def test_a_commit_beside_a_living_master_is_forwarded() -> None:
    pair = joined_pair()
    commit(pair, 2)
    pair.run(500)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 2 and not len(
        pair.slave.parts.metadata.pending_offsets
    )


def test_offsets_wait_for_a_fenced_master_and_do_not_delay_tables() -> None:
    pair = joined_pair()
    pair.master.parts.replication.write_fence.begin(60_000, "hand-over")
    commit(pair, 4)
    pair.run(2000)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 1
    assert pair.file(pair.slave, "pendingOffsets") == {"pendingOffsets": {"T@g": {"0": 4}}}
    assert (
        slave_side(pair.slave.parts).metadata_copy.problem,
        slave_side(pair.slave.parts).metadata_copy.age_ms < 1000,
    ) == ("", True)
    pair.master.parts.replication.write_fence.end()
    pair.run(1000)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 4


def test_a_greater_offset_of_the_master_wins() -> None:
    pair = joined_pair()
    pair.stop_master()
    commit(pair, 2)
    pair.start_master()
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 5)
    pair.run(1000)
    assert (
        pair.master.parts.metadata.cursors.query("g", "T", 0)
        == pair.slave.parts.metadata.cursors.query("g", "T", 0)
        == 5
    )
    assert Code.UPDATE_CONSUMER_OFFSET not in pair.network.code_counts, "there was nothing to send"


def test_a_late_offset_does_not_move_the_master_s_back() -> None:
    pair = joined_pair()
    pair.clock.advance(300)
    commit(pair, 3)
    pair.copy.tick()
    pair.network.answer_one()
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 4)  # after the slave got 1, before its own commit comes
    pair.network.answer_all()
    assert pair.network.code_counts[Code.UPDATE_CONSUMER_OFFSET] == 1
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 4
    pair.run(300)
    assert pair.slave.parts.metadata.cursors.query("g", "T", 0) == 4 and not len(
        pair.slave.parts.metadata.pending_offsets
    )


def test_an_older_commit_here_changes_nothing() -> None:
    pair = joined_pair()
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 5)
    pair.run(500)
    commit(pair, 2)
    assert pair.slave.parts.metadata.cursors.query("g", "T", 0) == 5 and not len(
        pair.slave.parts.metadata.pending_offsets
    )


def test_a_commit_may_lie_behind_what_the_slave_has() -> None:
    pair = joined_pair()
    assert pair.slave.parts.store.max_offset("T", 0) == 0, "this slave's log got nothing"
    commit(pair, 5)
    pair.run(500)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 5


def test_an_offset_the_master_refuses_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    pair = joined_pair()
    commit(pair, 6)
    pair.slave.parts.metadata.cursors.commit("g", "T", 9, 1)
    pair.run(1000)
    assert pair.master.parts.metadata.cursors.offsets("g", "T") == {0: 1} and not len(
        pair.slave.parts.metadata.pending_offsets
    )
    assert "did not take PendingOffset(group='g', topic='T', queue_id=9, offset=1)" in caplog.text
    assert pair.slave.parts.metadata.cursors.offsets("g", "T") == {0: 1}, (
        "it stands here no more, though nothing changed there"
    )
    assert pair.slave.parts.metadata.cursors.offsets("g", "T") == {0: 1}, "here it is gone too"


def test_offsets_past_a_crashed_log_are_capped_at_its_end() -> None:
    pair = joined_pair(messages=3)
    crashed = MemoryFiles.restored(
        pair.master.files.snapshot().image()
    )  # with less than all, as a power loss leaves it
    pair.master.put("T")
    pair.master.put("T")
    pair.run(300)
    pair.stop_master()
    commit(pair, 5)
    pair.open_master(crashed)
    pair.master.put("T", b"stored since, with a lost one's offset")
    pair.ha_client.is_following = True
    pair.run(1000)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 3 and not len(
        pair.slave.parts.metadata.pending_offsets
    )
    assert pair.slave.parts.metadata.cursors.query("g", "T", 0) == 3


def test_a_lost_answer_sends_it_again() -> None:
    pair = joined_pair()
    commit(pair, 3)
    pair.clock.advance(300)
    pair.copy.tick()
    pair.network.answer_one()
    pair.network.answer_one(lose_answer=True)
    assert (
        pair.master.parts.metadata.cursors.query("g", "T", 0) == 3
        and len(pair.slave.parts.metadata.pending_offsets) == 1
    )
    pair.run(500)
    assert not len(pair.slave.parts.metadata.pending_offsets)


def test_a_deleted_topic_s_and_group_s_are_forgotten() -> None:
    pair = joined_pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="U")])
    pair.master.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="h")])
    pair.run(500)
    pair.ha_client.is_following = False
    commit(pair, 4)
    commit(pair, 4, topic="U", group="h")
    caller = Caller(pair.master)
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    caller.ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName="h")
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    for _ in range(9):
        pair.master.put("T")
    pair.ha_client.is_following = True
    pair.run(1000)
    assert not len(pair.slave.parts.metadata.pending_offsets)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == -1, "4 was an offset of the old T"


def test_many_are_sent_some_at_a_time() -> None:
    pair = joined_pair()
    for number in range(200):
        pair.master.parts.metadata.groups.put([SubscriptionGroupConfig(group_name=f"g{number}")])
    pair.run(500)
    for number in range(200):
        commit(pair, 3, group=f"g{number}")
    pair.clock.advance(300)
    pair.copy.tick()
    pair.network.answer_one()
    assert len(pair.network.asked) == ASKED_AT_ONCE
    pair.network.answer_all()
    assert pair.network.code_counts[Code.UPDATE_CONSUMER_OFFSET] == 200
    assert all(pair.master.parts.metadata.cursors.query(f"g{number}", "T", 0) == 3 for number in range(200))


def test_too_many_are_refused() -> None:
    files = MemoryFiles()
    files.makedirs("/d")
    pending = PendingOffsets(TableSaver(JsonTable(files, "/d/p.json")), clock=ManualClock(), count_max=2)
    pending.note("g", "T", 0, 1)
    pending.note("g", "T", 1, 1)
    pending.note("g", "T", 1, 2)
    with pytest.raises(Refusal) as error:
        pending.note("g", "T", 2, 1)
    assert error.value.code == ResponseCode.SYSTEM_BUSY and "the limit is 2" in error.value.remark
    pending.settle(PendingOffset("g", "T", 1, 1))
    assert len(pending) == 2, "a later commit waits on"
    pending.settle(PendingOffset("g", "T", 1, 2))
    pending.note("g", "T", 2, 1)


def test_the_number_of_pending_offsets_is_bounded() -> None:
    pair = joined_pair()
    pair.stop_master()
    pending = pair.slave.parts.metadata.pending_offsets
    for queue_id in range(PENDING_COUNT_MAX):
        pending.note("g", "T", queue_id, 1)
    pending.note("g", "T", 0, 2)
    with pytest.raises(Refusal, match=f"the limit is {PENDING_COUNT_MAX}: commit again when the master is back"):
        pending.note("g", "T", PENDING_COUNT_MAX, 1)
    assert len(pending) == PENDING_COUNT_MAX


def test_a_full_disk_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    pair = joined_pair()
    pair.stop_master()
    with failing(pair.slave, "pwrite", "pendingOffsets"):
        commit(pair, 4)
        pair.run(1000)
        assert "could not be saved" in caplog.text
    pair.run(1000)
    assert pair.file(pair.slave, "pendingOffsets") == {"pendingOffsets": {"T@g": {"0": 4}}}


def test_a_promoted_slave_takes_pending_offsets_up_to_its_log_end() -> None:
    pair = joined_pair()
    for queue_id in (0, 1):
        for _ in range(3):
            pair.slave.put("T", queue_id=queue_id)  # what it got of the log
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 5)
    pair.run(500)
    pair.stop_master()
    commit(pair, 2, queue_id=1)
    commit(pair, 7, queue_id=2)
    master = pair.promote()
    cursors = master.parts.metadata.cursors
    assert cursors.offsets("g", "T") == {0: 3, 1: 2, 2: 0}
    assert pair.file(master, "consumerOffset")["offsetTable"] == {"T@g": {"0": 3, "1": 2, "2": 0}}
    assert pair.file(master, "pendingOffsets") == {"pendingOffsets": {}}
    cursors.reset("g", "T", 1, 0)
    assert master.reopened(**pair.settings).parts.metadata.cursors.query("g", "T", 1) == 0, "they count once"


def test_a_negative_offset_is_refused() -> None:
    pair = joined_pair()
    code, _ = Caller(pair.slave).refused(
        Code.UPDATE_CONSUMER_OFFSET, consumerGroup="g", topic="T", queueId=0, commitOffset=-1
    )
    assert code == ResponseCode.INVALID_PARAMETER
