"""Codes 28 and 315: runtime figures and statistics."""

from __future__ import annotations

import pytest

from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World


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
