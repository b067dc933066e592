"""ApacheCopy: tables of a RocketMQ master, which answers 9102 with code 3, as its own slaves ask for them."""

from __future__ import annotations

import json
import logging
import struct
from typing import Any

import pytest

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.replication.slave.metadata_copy import APACHE_INTERVAL_MS
from pymq.model.tables import TopicConfig
from pymq.store.disk.timer_checkpoint import TimerCheckFile
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply
from tests.broker.disk import failing
from tests.broker.replication.pair import MASTER, Pair
from tests.broker.world import ROOT, Caller, World

ROUND_MS = APACHE_INTERVAL_MS


class Apache:
    """Answers as a RocketMQ master does, keys of whole numbers unquoted; a code without a body is refused."""

    def __init__(self) -> None:
        self.log_end = 0
        self.counter = 1
        self.topics = {"T": {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": False}}
        self.groups = {"g": {"groupName": "g", "retryMaxTimes": 3, "groupRetryPolicy": {"type": "CUSTOMIZED"}}}
        self.timer_check = b""  # none
        self.bodies: dict[int, str] = {
            Code.GET_ALL_CONSUMER_OFFSET: '{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":5},'
            '"offsetTable":{"T@g":{0:4,1:2},"T@g@shadow":{0:1}}}',
            Code.GET_ALL_DELAY_OFFSET: '{"dataVersion":{"counter":2},"offsetTable":{1:2}}',
            Code.GET_ALL_MESSAGE_REQUEST_MODE: '{"messageRequestModeMap":{"T":{"g":{"mode":"PULL"}}}}',
            Code.GET_TIMER_METRICS: '{"dataVersion":{"counter":0},"timingCount":{}}',
        }
        self.committed: list[dict[str, str]] = []

    def dispatch(self, peer: Peer, command: Command) -> Reply | None:
        if command.code == Code.UPDATE_CONSUMER_OFFSET:
            if command.ext["consumerGroup"] not in self.groups:
                return Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group not exist!")
            self.committed.append(dict(command.ext))
            return Reply()
        if command.code == Code.GET_TIMER_CHECK_POINT and self.timer_check:
            return Reply(body=self.timer_check)
        body = self.body(command.code)
        if body is None:
            return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type not supported")
        return Reply(body=body.encode())

    def body(self, code: int) -> str | None:
        version = {"counter": self.counter, "stateVersion": 0, "timestamp": 9}
        if code == Code.GET_ALL_TOPIC_CONFIG:
            return json.dumps({"dataVersion": version, "mappingDataVersion": version, "topicConfigTable": self.topics})
        if code == Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
            table = {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": self.groups}
            return json.dumps(table)
        if code == Code.GET_BROKER_RUNTIME_INFO:
            return json.dumps({"table": {"commitLogMaxOffset": str(self.log_end)}})
        return self.bodies.get(code)


def apache_pair() -> tuple[Pair, Apache]:
    pair, apache = Pair(), Apache()
    pair.network.servers[MASTER] = apache  # type: ignore[assignment]
    return pair, apache


def test_the_timer_s_check_point_is_taken_once_what_it_calls_delivered_is_here() -> None:
    pair, apache = apache_pair()
    source = World(mappedFileSizeCommitLog=128 * 1024)
    source.put("T")
    apache.log_end = source.parts.store.physical_max_offset
    apache.timer_check = struct.pack(">7q", 1000, 52, 3, 7, 0, 5, 2)
    timers = pair.slave.parts.messages.timers
    timers.open(is_master=False)
    before_ms = timers.progress.read_ms
    pair.run(ROUND_MS)
    assert timers.progress.read_ms == before_ms
    pair.master = source
    pair.copy_log()
    pair.run(ROUND_MS)
    timers.tick()
    expected = {"lastReadTimeMs": 1000, "lastTimerLogFlushPos": 0, "lastTimerQueueOffset": 0}
    written = TimerCheckFile(pair.slave.files, ROOT).load()
    assert written == {**expected, "masterTimerQueueOffset": 7, "stateVersion": 0, "timestamp": 5, "counter": 2}
    apache.timer_check = struct.pack(">4q", 2000, 52, 3, 8)
    pair.run(ROUND_MS)
    assert timers.progress.read_ms == 2000 and pair.copy.problem == ""


def test_an_unreadable_timer_check_point_is_a_problem() -> None:
    pair, apache = apache_pair()
    apache.timer_check = b"\0" * 31
    pair.run(ROUND_MS)
    assert "timer check point" in pair.copy.problem and "these are 31" in pair.copy.problem
    apache.timer_check = b"\0" * 32
    pair.run(ROUND_MS)
    assert pair.copy.problem == ""


def test_everything_is_taken() -> None:
    pair, _ = apache_pair()
    pair.run(1000)
    slave = pair.slave.parts
    topic = slave.metadata.topics.get("T")
    assert topic is not None and topic.write_queue_nums == 4 and slave.metadata.topics.data_version.counter == 1
    assert slave.metadata.groups.require("g").retry_max_times == 3
    assert slave.metadata.cursors.as_table()["offsetTable"] == {"T@g": {"0": 4, "1": 2}}
    assert slave.metadata.cursors.data_version.counter == 7
    assert slave.messages.delays.offsets() == {1: 2}
    assert pair.copy.problem == "" and pair.copy.age_ms >= 0
    assert pair.file(pair.slave, "messageRequestMode")["messageRequestModeMap"] == {"T": {"g": {"mode": "PULL"}}}
    assert b'"timingCount"' in pair.slave.files.read_bytes("/data/config/timermetrics")


def test_it_is_asked_every_three_seconds_and_changes_are_taken_then() -> None:
    pair, apache = apache_pair()
    pair.run(1000)
    counts = dict(pair.network.code_counts)
    assert counts[Code.PYMQ_COPY_METADATA] == 1 and counts[Code.GET_ALL_TOPIC_CONFIG] == 1
    heard: list[list[str]] = []
    pair.slave.parts.metadata.topics.add_listener(heard.append)
    apache.counter += 1
    apache.topics["U"] = {**apache.topics["T"], "topicName": "U"}
    pair.run(ROUND_MS)
    assert heard == [["U"]] and pair.network.code_counts[Code.GET_ALL_TOPIC_CONFIG] == 2
    assert pair.network.code_counts[Code.PYMQ_COPY_METADATA] == 1
    assert pair.network.code_counts[Code.GET_BROKER_RUNTIME_INFO] == 1, "nothing was delivered since"


def test_delay_levels_wait_for_the_log() -> None:
    pair, apache = apache_pair()
    apache.log_end = 90
    pair.run(1000)
    assert pair.slave.parts.messages.delays.offsets() == {}
    pair.slave.put("T")
    assert pair.slave.parts.store.physical_max_offset >= 90
    pair.run(100)
    assert pair.slave.parts.messages.delays.offsets() == {1: 2}


def test_delay_levels_are_not_taken_when_the_log_s_end_is_unknown() -> None:
    pair, apache = apache_pair()
    apache.log_end = -5
    pair.run(1000)
    assert pair.slave.parts.messages.delays.offsets() == {} and "commitLogMaxOffset" in pair.copy.problem


def test_an_older_master_lacks_tables() -> None:
    pair, apache = apache_pair()
    for code in (Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.GET_TIMER_METRICS):
        del apache.bodies[code]
    pair.run(1000)
    assert pair.copy.problem == "" and not pair.has_file(pair.slave, "messageRequestMode")


def test_queues_of_a_vanished_topic_go() -> None:
    pair, apache = apache_pair()
    pair.run(1000)
    pair.slave.put("T")
    end = pair.slave.parts.store.physical_max_offset
    apache.counter += 1
    del apache.topics["T"]
    pair.clock.advance(ROUND_MS)
    pair.copy.tick()
    pair.slave.put("T", b"came after the question")
    pair.network.answer_all()
    store = pair.slave.parts.store
    assert pair.slave.parts.metadata.topics.get("T") is None and store.deletions.ends == {"T": end}
    assert store.max_offset("T", 0) == 2, "its newest record may be of a topic made again"


def test_queues_stay_when_the_master_lost_its_topics(caplog: pytest.LogCaptureFixture) -> None:
    pair, apache = apache_pair()
    apache.counter = 8
    pair.run(1000)
    pair.slave.put("T")
    apache.counter = 2
    del apache.topics["T"]
    pair.run(ROUND_MS)
    assert pair.slave.parts.metadata.topics.get("T") is None and pair.slave.parts.store.max_offset("T", 0) == 1
    assert pair.slave.parts.store.deletions.ends == {} and "queues of the missing topics T are kept" in caplog.text


def test_offsets_committed_here_are_sent_when_they_are_greater() -> None:
    pair, apache = apache_pair()
    pair.run(1000)
    caller = Caller(pair.slave)
    for queue_id, offset in ((0, 3), (1, 5)):
        caller.ok(Code.UPDATE_CONSUMER_OFFSET, consumerGroup="g", topic="T", queueId=queue_id, commitOffset=offset)
    pair.run(ROUND_MS)
    (sent,) = apache.committed
    assert (sent["queueId"], sent["commitOffset"]) == ("1", "5")
    assert pair.slave.parts.metadata.cursors.query("g", "T", 1) == 5, "its table was the same as before"


def test_offsets_of_a_group_that_it_has_not_met_wait_until_it_has(caplog: pytest.LogCaptureFixture) -> None:
    pair, apache = apache_pair()
    pair.run(1000)
    caller = Caller(pair.slave)
    caplog.set_level(logging.INFO)
    for group in ("new", "g"):
        caller.ok(Code.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic="T", queueId=1, commitOffset=5)
    pair.run(3 * ROUND_MS)
    assert [sent["consumerGroup"] for sent in apache.committed] == ["g"], "nobody waits for it"
    assert pair.slave.parts.metadata.cursors.query("new", "T", 1) == 5
    assert caplog.text.count("does not know group new yet") == 1
    apache.groups["new"] = {"groupName": "new"}
    pair.run(ROUND_MS)
    assert apache.committed[-1]["consumerGroup"] == "new" and not len(pair.slave.parts.metadata.pending_offsets)


def test_a_pymq_master_at_the_same_address_is_asked_as_one() -> None:
    pair, _ = apache_pair()
    pair.run(1000)
    pair.ha_client.is_following = False
    pair.run(ROUND_MS)
    pair.network.servers[MASTER] = broker_dispatcher(pair.master.parts)
    pair.ha_client.is_following = True
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="V")])
    pair.run(1000)
    assert pair.slave.parts.metadata.topics.all() == pair.master.parts.metadata.topics.all()
    assert (
        Code.GET_ALL_TOPIC_CONFIG in pair.network.code_counts and pair.network.code_counts[Code.PYMQ_COPY_METADATA] > 2
    )


@pytest.mark.parametrize("code", [Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET])
@pytest.mark.parametrize("body", ["", "[]", "{", '{"offsetTable":7}'])
def test_an_invalid_answer_is_a_problem_and_requested_again(code: int, body: str) -> None:
    pair, apache = apache_pair()
    good = apache.bodies[code]
    apache.bodies[code] = body
    pair.run(1000)
    assert "could not be taken" in pair.copy.problem
    apache.bodies[code] = good
    pair.run(ROUND_MS)
    assert pair.copy.problem == "" and pair.slave.parts.messages.delays.offsets() == {1: 2}


@pytest.mark.parametrize("lost", range(8))
def test_a_lost_answer_ends_the_round(lost: int) -> None:
    pair, _ = apache_pair()
    pair.copy.tick()
    for _ in range(lost):
        pair.network.answer_one()
    if pair.network.asked:
        pair.network.answer_one(lose_answer=True)
        assert pair.copy.problem == "the answer was lost"
    pair.run(ROUND_MS)
    assert pair.copy.problem == "" and pair.slave.parts.messages.delays.offsets() == {1: 2}


@pytest.mark.parametrize("answered", range(8))
def test_nothing_is_taken_from_a_master_no_longer_followed(answered: int) -> None:
    pair, _ = apache_pair()
    pair.copy.tick()
    for _ in range(answered):
        pair.network.answer_one()
    before = tables(pair)
    pair.ha_client.is_following = False
    pair.network.answer_all()
    assert tables(pair) == before


def tables(pair: Pair) -> list[Any]:
    parts = pair.slave.parts
    return [
        part.as_table()
        for part in (parts.metadata.topics, parts.metadata.groups, parts.metadata.cursors, parts.messages.delays)
    ]


def test_kept_tables_are_saved_at_the_next_round_after_a_full_disk() -> None:
    pair, _ = apache_pair()
    with failing(pair.slave, "pwrite", "messageRequestMode"):
        pair.run(1000)
    assert not pair.has_file(pair.slave, "messageRequestMode")
    pair.run(ROUND_MS)
    assert pair.has_file(pair.slave, "messageRequestMode")


def test_a_retaken_table_changes_nothing() -> None:
    pair, apache = apache_pair()
    pair.run(1000)
    pair.restart_slave()
    heard: list[list[str]] = []
    pair.slave.parts.metadata.topics.add_listener(heard.append)
    pair.run(1000)
    assert heard == [] and pair.slave.parts.metadata.topics.data_version.counter == apache.counter


def test_a_commit_for_a_group_that_is_gone_leaves_no_offset() -> None:
    """The slave commits before it learns that its master has deleted the group; no later table would remove it."""
    pair, apache = apache_pair()
    apache.groups["h"] = {"groupName": "h"}
    pair.run(ROUND_MS)
    cursors = pair.slave.parts.metadata.cursors
    del apache.groups["h"]
    apache.counter += 1
    cursors.commit("h", "T", 0, 1)
    pair.run(2 * ROUND_MS)
    assert pair.slave.parts.metadata.groups.get("h") is None
    assert cursors.as_table()["offsetTable"] == {"T@g": {"0": 4, "1": 2}}
