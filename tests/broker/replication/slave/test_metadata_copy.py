"""MetadataCopy: a change is on the slave within a second, byte for byte; an idle pair exchanges almost nothing."""

from __future__ import annotations

import msgspec
import pytest

from pymq.broker.replication.master import table_requests
from pymq.broker.replication.slave.metadata_copy import WAIT_MS, HaClientAndTables
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.bodies_replication import HaClientState
from pymq.wire.codes import RequestCode as Code
from pymq.wire.reply import Reply
from tests.broker.disk import failing
from tests.broker.replication.pair import MASTER, Pair
from tests.broker.world import Caller, World

FILES = ("topics", "subscriptionGroup", "consumerOffset")


def make_topic(world: World, name: str, queues: int = 4) -> None:
    world.parts.metadata.topics.put([TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)])


def make_group(world: World, name: str, retries: int = 16) -> None:
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name=name, retry_max_times=retries)])


def assert_equal(pair: Pair) -> None:
    """Check that the slave's tables, in memory and on the disk, equal the master's."""
    master, slave = pair.master.parts, pair.slave.parts
    assert slave.metadata.topics.as_table() == master.metadata.topics.as_table()
    assert slave.metadata.groups.as_table() == master.metadata.groups.as_table()
    assert slave.metadata.cursors.as_table()["offsetTable"] == master.metadata.cursors.as_table()["offsetTable"]
    assert slave.messages.delays.as_table()["offsetTable"] == master.messages.delays.as_table()["offsetTable"]


def test_a_new_slave_gets_everything() -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    make_group(pair.master, "g", retries=3)
    pair.master.parts.metadata.groups.set_readable("g", "T", False)
    pair.master.put("T")
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 1)
    assert pair.copy.age_ms == -1
    pair.run(1000)
    slave = pair.slave.parts
    assert slave.metadata.topics.get("T") == pair.master.parts.metadata.topics.get("T")
    assert slave.metadata.groups.require("g").retry_max_times == 3 and slave.metadata.groups.is_forbidden("g", "T")
    assert slave.metadata.cursors.query("g", "T", 0) == 1
    assert_equal(pair)
    assert 0 <= pair.copy.age_ms <= 1000 and pair.copy.problem == ""
    assert pair.ha_client.master_end == pair.master.parts.store.physical_max_offset


def test_a_change_is_on_the_slave_s_disk_within_a_second() -> None:
    pair = Pair()
    pair.run(1000)
    make_topic(pair.master, "T")
    make_group(pair.master, "g")
    pair.master.put("T")
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 1)
    pair.run(1000)
    assert "T" in pair.file(pair.slave, "topics")["topicConfigTable"]
    assert "g" in pair.file(pair.slave, "subscriptionGroup")["subscriptionGroupTable"]
    assert pair.file(pair.slave, "consumerOffset")["offsetTable"] == {"T@g": {"0": 1}}


def test_at_rest_the_files_are_the_master_s_with_its_versions() -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    for number in range(3):
        make_group(pair.master, f"g{number}")
        pair.master.put("T")
        pair.master.parts.metadata.cursors.commit(f"g{number}", "T", 0, number)
        pair.run(2000)
    pair.run(10_000)
    for name in FILES:
        assert pair.file(pair.slave, name) == pair.file(pair.master, name), name


def test_registration_hears_of_copied_topics() -> None:
    pair = Pair()
    pair.run(500)
    heard: list[list[str]] = []
    pair.slave.parts.metadata.topics.add_listener(heard.append)
    make_topic(pair.master, "T")
    pair.run(500)
    assert heard == [["T"]]
    pair.run(2000)
    assert heard == [["T"]], "nothing changed since"


def test_an_idle_pair_exchanges_next_to_nothing() -> None:
    pair = Pair()
    for number in range(100):
        make_topic(pair.master, f"T{number}")
    pair.run(1000)
    pair.network.code_counts.clear()
    pair.network.replies.clear()
    pair.run(6 * WAIT_MS)
    assert 5 <= pair.network.code_counts[Code.PYMQ_COPY_METADATA] <= 6
    assert all(len(reply.body) < 100 for reply in pair.network.replies)
    assert 0 <= pair.copy.age_ms <= WAIT_MS


def test_a_change_goes_with_the_turn_it_was_made_in() -> None:
    pair = Pair()
    pair.run(5000)
    make_topic(pair.master, "T")
    pair.master.parts.end_turn()
    pair.network.deliver()
    assert pair.slave.parts.metadata.topics.get("T") is not None and pair.copy.age_ms == 0


def test_constant_changes_are_copied_once_an_interval() -> None:
    pair = Pair(slaveSyncInterval=500)
    make_topic(pair.master, "T")
    make_group(pair.master, "g")
    for _ in range(200):
        pair.master.put("T")
    pair.run(5000)
    pair.network.code_counts.clear()
    for number in range(100):
        pair.master.parts.metadata.cursors.commit("g", "T", 0, number)
        pair.run(100)
        assert pair.slave.parts.metadata.cursors.query("g", "T", 0) >= number - 5
    assert 18 <= pair.network.code_counts[Code.PYMQ_COPY_METADATA] <= 20


def test_while_the_master_is_fenced_the_slave_asks_at_each_interval() -> None:
    """A promotion waits for tables that were asked for since the write fence."""
    pair = Pair()
    pair.run(5000)
    assert pair.network.held and pair.copy.age_ms > 0
    pair.master.parts.replication.write_fence.begin(10_000, "a promotion")
    pair.run(400)
    assert not pair.network.held and pair.copy.age_ms < 400
    pair.network.code_counts.clear()
    pair.run(3000)
    assert pair.network.code_counts[Code.PYMQ_COPY_METADATA] == 10
    pair.master.parts.replication.write_fence.end()
    pair.run(400)
    assert pair.network.held


def test_a_slave_names_the_fence_behind_which_its_tables_were_read() -> None:
    """A topic that was made while an answer from before the fence was on its way is not in these tables."""
    pair = Pair()
    fence = pair.master.parts.replication.write_fence
    pair.run(500)
    make_topic(pair.master, "T")
    pair.master.parts.end_turn()  # the held request has its answer
    make_topic(pair.master, "U")
    fence.begin(10_000, "a promotion")
    pair.network.deliver()
    slave = pair.slave.parts.metadata.topics
    assert slave.get("T") and not slave.get("U") and pair.copy.age_ms == 0
    assert pair.copy.fence == 0
    pair.run(400)
    assert slave.get("U") and pair.copy.fence == fence.number > 0
    fence.end()
    make_topic(pair.master, "V")
    pair.run(400)
    assert slave.get("V") and pair.copy.fence == 0


def test_a_table_that_waits_for_the_log_is_not_had_yet() -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    pair.run(500)
    pair.master.put("T")
    pair.master.parts.metadata.cursors.hand_out("g", "T", 0, 1)
    fence = pair.master.parts.replication.write_fence
    fence.begin(10_000, "a promotion")
    pair.run(1000)
    assert pair.copy.fence == 0
    pair.copy_log()
    pair.tick()
    assert pair.copy.fence == fence.number


def test_offsets_that_were_committed_here_do_not_wait_for_a_change_there() -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    make_group(pair.master, "g")
    pair.master.put("T")
    pair.run(5000)
    pair.copy_log()
    assert pair.network.held
    pair.slave.parts.metadata.cursors.commit("g", "T", 0, 1)
    pair.run(400)
    assert pair.master.parts.metadata.cursors.query("g", "T", 0) == 1
    pair.run(1000)
    assert len(pair.slave.parts.metadata.pending_offsets) == 0 and len(pair.network.held) == 1


def test_a_held_question_to_a_master_that_is_followed_no_more_is_given_up() -> None:
    pair = Pair()
    pair.run(1000)
    make_topic(pair.master, "T")
    pair.ha_client.is_following = False
    pair.copy.tick()
    pair.ha_client.is_following = True
    pair.tick()
    pair.network.deliver()
    assert pair.slave.parts.metadata.topics.get("T") is None, "the answer comes too late"
    pair.run(400)
    assert pair.slave.parts.metadata.topics.get("T") is not None and pair.copy.problem == ""
    assert len(pair.network.held) == 1, "the master keeps no more than one"


@pytest.mark.parametrize("held_ms", [-5, 10**12])
def test_an_invalid_wait_time_of_a_master_is_ignored(held_ms: int) -> None:
    pair = Pair()
    pair.copy.tick()
    _, command, on_answer = pair.network.asked.pop()
    pair.clock.advance(1000)
    on_answer(Reply(body=msgspec.json.encode({"heldMs": held_ms})).to_command(command))
    assert 0 <= pair.copy.age_ms <= 1000
    pair.clock.advance(300)
    pair.copy.tick()
    assert len(pair.network.asked) == 1


def test_one_question_is_under_way_at_a_time_and_not_before_the_interval() -> None:
    pair = Pair(slaveSyncInterval=1000)
    pair.copy.tick()
    assert len(pair.network.asked) == 1
    for _ in range(30):
        pair.clock.advance(100)
        pair.copy.tick()
    assert len(pair.network.asked) == 1
    pair.network.answer_all()
    pair.copy.tick()
    make_topic(pair.master, "T")
    pair.network.answer_all()
    assert pair.network.code_counts == {Code.PYMQ_COPY_METADATA: 2}
    pair.clock.advance(999)
    pair.copy.tick()
    assert not pair.network.asked
    pair.clock.advance(1)
    pair.copy.tick()
    assert len(pair.network.asked) == 1


def test_nothing_is_taken_from_a_master_that_is_not_followed() -> None:
    pair = Pair()
    pair.ha_client.is_following = False
    pair.run(1000)
    assert pair.network.code_counts == {} and pair.copy.age_ms == -1
    pair.ha_client.is_following = True
    make_topic(pair.master, "T")
    pair.copy.tick()
    pair.ha_client.is_following = False
    pair.network.answer_all()
    assert pair.slave.parts.metadata.topics.get("T") is None and "no longer follows" in pair.copy.problem


def test_a_closed_copy_takes_no_late_answer() -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    pair.copy.tick()
    pair.copy.close()
    pair.network.answer_all()
    assert pair.slave.parts.metadata.topics.get("T") is None
    pair.clock.advance(10_000)
    pair.copy.tick()
    assert not pair.network.asked


def test_lost_questions_and_answers_are_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    pair = Pair()
    make_topic(pair.master, "T")
    pair.copy.tick()
    pair.network.answer_one(lose_request=True)
    pair.clock.advance(300)
    pair.copy.tick()
    pair.network.answer_one(lose_answer=True)
    assert pair.slave.parts.metadata.topics.get("T") is None and pair.copy.problem == "the answer was lost"
    pair.run(300)
    assert pair.slave.parts.metadata.topics.get("T") is not None and pair.copy.problem == ""
    assert "could not be copied from master 10.0.0.1:10911: the answer was lost" in caplog.text
    assert "are copied from master 10.0.0.1:10911 again" in caplog.text


def test_a_master_that_restarts_repeats_no_version() -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    make_group(pair.master, "g")
    pair.master.put("T")
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 1)
    pair.run(1000)
    files = pair.master.files
    pair.stop_master()
    # Its tables were put back to something else while it was away, with as many changes as before.
    for name in ("consumerOffset", "topics", "subscriptionGroup"):
        path = f"/data/config/{name}.json"
        lines = files.read_bytes(path).replace(b'"T@g"', b'"T@h"').splitlines()
        file = files.open(path)
        raw = b"\n".join(line for line in lines if b"pymqCrc32" not in line)
        file.truncate(0)
        file.pwrite(0, raw)
    pair.start_master()
    pair.run(1000)
    assert pair.slave.parts.metadata.cursors.all_groups() == ["h"]
    assert_equal(pair)


def test_a_restarted_slave_goes_on_with_what_it_had() -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    make_group(pair.master, "g")
    pair.master.put("T")
    pair.master.parts.metadata.cursors.commit("g", "T", 0, 1)
    pair.run(1000)
    pair.stop_master()
    pair.restart_slave()
    assert (
        pair.slave.parts.metadata.topics.get("T") is not None and pair.slave.parts.metadata.groups.get("g") is not None
    )
    assert pair.slave.parts.metadata.cursors.query("g", "T", 0) == 1
    pair.start_master()
    pair.run(1000)
    assert_equal(pair)


def test_a_slave_makes_no_topics_of_its_own() -> None:
    pair = Pair()
    assert pair.slave.parts.metadata.topics.all() == {} and not pair.has_file(pair.slave, "topics")
    assert pair.slave.parts.metadata.topics.is_system("SELF_TEST_TOPIC")
    master = pair.promote()
    assert master.parts.metadata.topics.get("SELF_TEST_TOPIC") is not None


def test_of_many_offsets_only_what_changed_is_sent() -> None:
    pair = Pair()
    make_topic(pair.master, "T", queues=4)
    for number in range(500):
        make_group(pair.master, f"group-{number}")
    pair.master.put("T")
    for number in range(500):
        pair.master.parts.metadata.cursors.commit(f"group-{number}", "T", 0, 1)
    pair.run(1000)
    pair.master.parts.metadata.cursors.commit("group-7", "T", 0, 0)
    pair.run(300)
    reply = pair.network.replies[-1]
    assert len(reply.body) < 500 and b"group-7" in reply.body and b"group-8" not in reply.body
    assert pair.slave.parts.metadata.cursors.query("group-7", "T", 0) == 0
    pair.master.parts.metadata.cursors.forget_group("group-8")
    pair.run(300)
    assert pair.slave.parts.metadata.cursors.query("group-8", "T", 0) == -1
    assert_equal(pair)


def test_a_long_answer_is_split_between_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_requests, "ANSWER_BYTES", 10)
    pair = Pair()
    make_topic(pair.master, "T")
    make_group(pair.master, "g")
    pair.copy.tick()
    pair.network.answer_one()
    assert pair.slave.parts.metadata.topics.get("T") is None, "deletions are a table already"
    pair.network.answer_one()
    assert pair.slave.parts.metadata.topics.get("T") is not None and pair.slave.parts.metadata.groups.get("g") is None
    pair.network.answer_all()
    assert_equal(pair)
    assert pair.network.code_counts[Code.PYMQ_COPY_METADATA] == 12


def test_a_slave_does_not_serve_its_copy_of_the_tables() -> None:
    pair = Pair()
    code, remark = Caller(pair.slave).refused(Code.PYMQ_COPY_METADATA, b"{}")
    assert code == 1 and "slave itself (id 1)" in remark
    code, remark = Caller(pair.master).refused(Code.PYMQ_COPY_METADATA, b"[]")
    assert code == 1 and "table of versions" in remark


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1]",
        b'{"versions":{"topics":"1"},"tables":{"topics":[]}}',
        b'{"versions":{"topics":"1"},"tables":{"topics":{"topicConfigTable":3}}}',
        b'{"versions":{"subscriptionGroup":"1"},'
        b'"tables":{"subscriptionGroup":{"subscriptionGroupTable":{},"forbiddenTable":{"g":{"t":"x"}}}}}',
        b'{"versions":{"topics":"\xff"}}',
        b'{"fence":"17"}',
        pytest.param(b'{"fence":1' + b"0" * 5000 + b"}", id="a fence of 5,001 digits"),
        b'{"fence":17,"versions":{"topics":"1"},"tables":{"topics":[]}}',
        pytest.param(b'{"other":' + b"[" * 100_000, id="too deep"),
        b'{"versions":{"topics":"1"},"tables":{"topics":{"topicConfigTable":{"T":{"topicName":"\xff"}}}}}',
    ],
)
def test_an_unusable_answer_is_a_problem_and_requested_again(body: bytes) -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    pair.copy.tick()
    _, command, on_answer = pair.network.asked.pop()
    on_answer(Reply(body=body).to_command(command))
    assert "could not be taken" in pair.copy.problem and pair.copy.fence == 0
    pair.run(300)
    assert pair.copy.problem == "" and pair.slave.parts.metadata.topics.get("T") is not None


def test_unknown_tables_of_a_newer_master_are_left_out() -> None:
    pair = Pair()
    pair.copy.tick()
    _, command, on_answer = pair.network.asked.pop()
    body = msgspec.json.encode({"versions": {"later": "9"}, "tables": {"later": {"x": 1}}, "logEnd": 5})
    on_answer(Reply(body=body).to_command(command))
    assert pair.copy.problem == "" and pair.ha_client.master_end == 5
    pair.clock.advance(300)
    pair.copy.tick()
    assert b'"later":"9"' in pair.network.asked[0][1].body, "it has that one as far as its master should care"


def test_a_full_disk_on_the_slave_is_tried_again() -> None:
    pair = Pair()
    make_topic(pair.master, "T")
    with failing(pair.slave, "pwrite", "topics.json"):
        pair.run(1000)
        assert pair.slave.parts.metadata.topics.get("T") is not None and not pair.has_file(pair.slave, "topics")
    pair.slave.parts.metadata.topics.tick()
    assert "T" in pair.file(pair.slave, "topics")["topicConfigTable"]


def test_the_status_shows_the_age_of_the_tables() -> None:
    class State:
        problem = ""

        def state(self) -> HaClientState:
            return HaClientState(problem=self.problem)

    pair = Pair()
    ha_client = State()
    view = HaClientAndTables(ha_client, pair.copy)
    assert view.state() == HaClientState(metadata_age_ms=-1)
    pair.run(500)
    pair.clock.advance(1000)
    age_ms = pair.copy.age_ms
    assert view.state() == HaClientState(metadata_age_ms=age_ms) and 1000 <= age_ms <= 1500
    pair.network.lose(MASTER)
    assert view.state().problem.startswith("topics, groups and offsets are not copied: the connection to")
    ha_client.problem = "refused"
    assert view.state().problem == "refused"
