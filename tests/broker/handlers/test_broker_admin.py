"""Codes 25, 26, 28, 306, 315, 321 and 907: settings, runtime figures, statistics and cleaning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.broker.metadata.table_saver import TableSaver, run_inline
from pymq.config import parse_properties
from pymq.model.javahash import string_hash
from pymq.model.tables import TopicConfig
from pymq.store.disk.json_table import JsonTable
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, World

PATH = "/data/config/runtimeSettings.json"


def test_a_change_at_run_time_takes_effect_and_counts() -> None:
    world = World()
    caller = Caller(world)
    before = json.loads(caller.header(Code.GET_BROKER_CONFIG)["version"])
    caller.ok(Code.UPDATE_BROKER_CONFIG, b"maxMessageSize=2048\nautoCreateTopicEnable=false\n")
    assert world.config.max_message_size_bytes == 2048 and not world.config.auto_create_topic_enable
    reply = caller.ok(Code.GET_BROKER_CONFIG)
    shown = parse_properties(reply.body.decode())
    assert shown["maxMessageSize"] == "2048" and shown["brokerName"] == "broker-a"
    after = json.loads(caller.header(Code.GET_BROKER_CONFIG)["version"])
    assert after["counter"] == before["counter"] + 1


def test_every_change_is_answered_with_its_origin_when_asked() -> None:
    caller = Caller(World())
    caller.ok(Code.UPDATE_BROKER_CONFIG, b"maxTopics=50")
    fields = caller.header(Code.GET_BROKER_CONFIG, origins="true")
    assert json.loads(fields["origins"])["maxTopics"] == "runtime"
    changeable = fields["changeable"].split(";")
    assert "maxTopics" in changeable and "listenPort" not in changeable
    assert "origins" not in caller.header(Code.GET_BROKER_CONFIG)


def test_a_kept_change_is_answered_once_it_is_saved() -> None:
    world = World()
    held: list[Any] = []
    saver = TableSaver(JsonTable(world.files, PATH, "settings"), lambda work, done: held.append((work, done)))
    world.parts.runtime_settings._keeper = saver
    caller = Caller(world)
    assert caller.ask(Code.UPDATE_BROKER_CONFIG, b"maxTopics=50", persist="true") is None
    assert world.config.topic_count_max == 10_000 and not caller.peer.answers
    assert caller.refused(Code.UPDATE_BROKER_CONFIG, b"maxGroups=50")[0] == ResponseCode.SYSTEM_BUSY
    run_inline(*held.pop())
    assert world.config.topic_count_max == 50 and caller.peer.answers.pop().code == 0
    assert JsonTable(world.files, PATH).load() == {"settings": {"maxTopics": "50"}}
    saver._run_in_thread = run_inline
    caller.ok(Code.UPDATE_BROKER_CONFIG, b"", forget="maxTopics")
    assert world.config.topic_count_max == 10_000 and JsonTable(world.files, PATH).load() == {"settings": {}}


def test_a_change_that_can_not_be_saved_is_refused() -> None:
    world = World()
    world.parts.runtime_settings._keeper = TableSaver(JsonTable(world.files, "/no/directory", "settings"))
    code, remark = Caller(world).refused(Code.UPDATE_BROKER_CONFIG, b"maxTopics=50", persist="true")
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE and "can't be saved" in remark
    assert world.config.topic_count_max == 10_000


def test_a_change_after_another_one_is_refused() -> None:
    caller = Caller(World())
    seen = caller.header(Code.GET_BROKER_CONFIG)["version"]
    caller.ok(Code.UPDATE_BROKER_CONFIG, b"maxTopics=50", expectedVersion=seen)
    code, remark = caller.refused(Code.UPDATE_BROKER_CONFIG, b"maxTopics=60", expectedVersion=seen)
    assert code == ResponseCode.SYSTEM_ERROR and "look at them" in remark


def test_taking_back_a_master_s_role_does_not_make_a_slave_a_master() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_BROKER_CONFIG, b"brokerRole=SYNC_MASTER")
    world.config.broker_id, world.config.broker_role = 1, "SLAVE"  # as a change of role does
    code, remark = caller.refused(Code.UPDATE_BROKER_CONFIG, b"", forget="brokerRole")
    assert code == ResponseCode.NO_PERMISSION and "pymq broker promote" in remark
    assert world.config.broker_role == "SLAVE"


def test_settings_that_routes_show_are_registered_at_once() -> None:
    world = World()
    asked: list[int] = []
    world.parts.registration_requests.register_now = lambda: asked.append(1)  # type: ignore[method-assign]
    Caller(world).ok(Code.UPDATE_BROKER_CONFIG, b"maxTopics=50")
    assert not asked
    Caller(world).ok(Code.UPDATE_BROKER_CONFIG, b"brokerPermission=4")
    assert asked
    Caller(world).ok(Code.UPDATE_BROKER_CONFIG, b"defaultTopicQueueNums=3")
    assert world.parts.metadata.topics.require("TBW102").write_queue_nums == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"listenPort=1\n",
        b"storePathRootDir=/etc\n",
        b"nope=1\n",
        b"maxMessageSize=huge\n",
        b"maxMessageSize=1\n",
        b"longPollingEnable=false\nbrokerName=x\n",
        b"longPollingEnable=false\r\n",
        b"longPollingEnable=false\0\n",
        b"longPollingEnable=\\u0066alse\n",
        b"longPollingEnable=fal\\\nse\n",
        b"longPollingEnable\n",
        b"longPollingEnable=true\nlongPollingEnable=false\n",
        b"\xff\xfe=1\n",
        b"longPollingEnable=false\n" * 10_000,
    ],
)
def test_injected_and_impossible_changes_are_refused_whole(body: bytes) -> None:
    world = World()
    before = world.config.as_properties()
    code, remark = Caller(world).refused(Code.UPDATE_BROKER_CONFIG, body)
    assert code == ResponseCode.NO_PERMISSION and remark
    assert world.config.as_properties() == before


def test_runtime_info_has_what_the_tools_read() -> None:
    world = World()
    world.parts.stats.tick()
    for _ in range(10):
        world.parts.stats.message_put("T", 5, 500)
        world.clock.advance(1000)
        world.parts.stats.tick()
    world.put("T", DELAY="3")
    table = Caller(world).json(Code.GET_BROKER_RUNTIME_INFO)["table"]
    wanted = """brokerVersionDesc brokerVersion putTps getTransferredTps getTotalTps getFoundTps getMissTps
        sendThreadPoolQueueSize pullThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills
        pullThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio
        commitLogMaxOffset commitLogMinOffset timerReadBehind timerOffsetBehind timerCongestNum timerEnqueueTps
        timerDequeueTps msgPutTotalTodayNow msgPutTotalTodayMorning msgPutTotalYesterdayMorning msgGetTotalTodayNow
        msgGetTotalTodayMorning msgGetTotalYesterdayMorning bootTimestamp brokerActive runtime
        remainHowManyDataToFlush commitLogDirCapacity"""
    assert not [name for name in wanted.split() if name not in table]
    assert all(isinstance(value, str) for value in table.values())
    assert [float(rate) for rate in table["putTps"].split()] == pytest.approx([5.0] * 3, rel=0.2)
    assert table["msgPutTotalTodayNow"] == "50"
    assert table["scheduleMessageOffset_3"] == "0,1"
    assert table["runtime"] == "[ 0 days, 0 hours, 0 minutes, 10 seconds ]"


def test_statistics_by_name() -> None:
    world = World()
    world.parts.stats.message_put("T", 5, 500)
    world.clock.advance(1000)
    caller = Caller(world)
    shown = caller.json(Code.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="T")
    assert shown["statsMinute"] == {"sum": 5, "tps": 5.0, "avgpt": 5.0}
    assert shown["statsDay"]["sum"] == 5
    code, remark = caller.refused(Code.VIEW_BROKER_STATS_DATA, statsName="NOPE", statsKey="T")
    assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "The stats <NOPE> <T> not exist")


def test_statistics_of_all_keys_come_in_one_answer() -> None:
    world = World()
    stats = world.parts.stats
    stats.message_put("T", 5, 500)
    stats.message_put("unused", 0, 0)
    stats.messages_got("g", "T", 3, 300)
    stats.message_sent_back("T", "g")
    world.clock.advance(1000)
    caller = Caller(world)

    def sums(name: str) -> dict[str, int]:
        shown = caller.json(Code.VIEW_BROKER_STATS_DATA, statsName=name, statsKey="-", pymqAll="true")
        return {key: windows["statsMinute"]["sum"] for key, windows in shown["pymqKeys"].items()}

    assert sums("TOPIC_PUT_NUMS") == {"T": 5}
    assert sums("TOPIC_PUT_SIZE") == {"T": 500}
    assert sums("GROUP_GET_NUMS") == {"T@g": 3}
    assert sums("SNDBCK_PUT_NUMS") == {"T@g": 1}
    assert sums("BROKER_PUT_NUMS") == {world.config.broker_cluster_name: 5}
    assert sums("NOPE") == {}


def test_entries_of_a_consume_queue() -> None:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1)])
    placed = [world.put("T", TAGS=tag) for tag in ("A", "B", "C")]
    caller = Caller(world)
    caller.ok(Code.HEART_BEAT, beat())
    fields: dict[str, Any] = {"topic": "T", "queueId": 0}
    shown = caller.json(Code.QUERY_CONSUME_QUEUE, **fields, index=1, count=5, consumerGroup="g")
    assert (shown["minQueueIndex"], shown["maxQueueIndex"]) == (0, 3)
    assert [(row["physicOffset"], row["physicSize"], row["tagsCode"], row["eval"]) for row in shown["queueData"]] == [
        (placed[1].physical_offset, placed[1].size_bytes, string_hash("B"), True),
        (placed[2].physical_offset, placed[2].size_bytes, string_hash("C"), False),
    ]
    last = caller.json(Code.QUERY_CONSUME_QUEUE, **fields, index=-1, count=5)
    assert [row["physicOffset"] for row in last["queueData"]] == [placed[2].physical_offset]
    assert caller.json(Code.QUERY_CONSUME_QUEUE, **fields, index=9, count=5)["queueData"] == []
    for topic, queue_id, code in (("T", 1, ResponseCode.INVALID_PARAMETER), ("Nope", 0, ResponseCode.TOPIC_NOT_EXIST)):
        refused = caller.refused(Code.QUERY_CONSUME_QUEUE, topic=topic, queueId=queue_id, index=0, count=1)
        assert refused[0] == code


def test_replication_status_and_cleaning() -> None:
    world = World()
    world.put("T")
    caller = Caller(world)
    status = caller.json(Code.GET_BROKER_HA_STATUS)
    assert status["master"] is True and status["haConnectionInfo"] == []
    assert status["masterCommitLogMaxOffset"] == world.parts.store.physical_max_offset > 0
    caller.ok(Code.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert len(world.messages("T")) == 1
