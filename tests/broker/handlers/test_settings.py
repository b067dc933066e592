"""Codes 25 and 26: settings that change while the broker runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.broker.metadata.table_saver import TableSaver, run_inline
from pymq.config import parse_properties
from pymq.store.disk.json_table import JsonTable
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
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
