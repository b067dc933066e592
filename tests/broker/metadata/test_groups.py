"""GroupManager: groups made on first use, limits, forbidden topics, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.metadata.groups import GroupManager
from pymq.broker.metadata.table_saver import TableSaver
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.errors import Refusal
from pymq.model.tables import SubscriptionGroupConfig
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.codes import ResponseCode
from tests.broker.disk import Threads


def manager(files: MemoryFiles | None = None, **settings: str) -> GroupManager:
    files = files or MemoryFiles()
    files.makedirs("/data/config")
    table = TableSaver(JsonTable(files, "/data/config/subscriptionGroup.json"))
    groups = GroupManager(table, clock=ManualClock(), config=load_broker_config(None, settings))
    groups.load()
    return groups


def test_a_group_is_made_on_its_first_use() -> None:
    groups = manager()
    assert groups.get("g") is None
    assert groups.ensure("g").retry_max_times == 16
    assert groups.require("g") is groups.get("g")


def test_system_groups_are_made_even_when_that_is_off() -> None:
    groups = manager(autoCreateSubscriptionGroup="false")
    with pytest.raises(Refusal) as error:
        groups.ensure("g")
    assert error.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert groups.ensure("TOOLS_CONSUMER").group_name == "TOOLS_CONSUMER"
    assert groups.ensure("CID_RMQ_SYS_TRANS")


@pytest.mark.parametrize("name", ["", "a/b", "g\n", "x" * 256])
def test_illegal_names_are_refused(name: str) -> None:
    with pytest.raises(Refusal) as error:
        manager().ensure(name)
    assert error.value.code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("change", [{"retry_queue_nums": 65}, {"retry_max_times": -2}, {"consume_timeout_minute": 0}])
def test_out_of_range_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as error:
        manager().put([SubscriptionGroupConfig(group_name="g", **change)])
    assert error.value.code == ResponseCode.INVALID_PARAMETER


def test_the_number_of_groups_is_bounded() -> None:
    groups = manager(maxGroups="20")
    with pytest.raises(Refusal) as error:
        for i in range(21):
            groups.ensure(f"g{i}")
    assert error.value.code == ResponseCode.NO_PERMISSION and "maxGroups" in error.value.remark
    groups.put([SubscriptionGroupConfig(group_name="g1", consume_enable=False)])


def test_groups_and_forbidden_topics_survive_a_restart() -> None:
    files = MemoryFiles()
    groups = manager(files)
    groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=3, consume_enable=False)])
    groups.set_readable("g", "T", False)
    again = manager(files)
    assert again.require("g") == groups.require("g")
    assert again.is_forbidden("g", "T") and not again.is_forbidden("g", "U")
    assert again.forbidden_table() == {"g": {"T": 4}}
    again.set_readable("g", "T", True)
    assert not again.is_forbidden("g", "T") and again.forbidden_table() == {}


def test_a_heartbeat_counts_at_once_and_an_operators_change_once_saved() -> None:
    files, threads = MemoryFiles(), Threads()
    files.makedirs("/data/config")
    saver = TableSaver(JsonTable(files, "/data/config/subscriptionGroup.json"), threads)
    groups = GroupManager(saver, clock=ManualClock(), config=load_broker_config(None, {"maxGroups": "20"}))
    groups.load()
    heard: list[object] = []
    groups.ensure("g")
    groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=3)], heard.append)
    groups.put([SubscriptionGroupConfig(group_name=f"g{i}") for i in range(19)], heard.append)
    groups.set_readable("g", "T", False, heard.append)
    with pytest.raises(Refusal, match="maxGroups"):
        groups.ensure("one_too_many")
    assert groups.require("g").retry_max_times == 16 and groups.get("g1") is None
    assert not groups.is_forbidden("g", "T") and groups.forbidden_table() == {} and heard == []
    while threads.waiting:
        threads.run_one()
    assert heard == [None] * 3 and groups.require("g").retry_max_times == 3 and groups.is_forbidden("g", "T")
    groups.delete("g", done=heard.append)
    groups.set_readable("g1", "T", False, heard.append)
    assert groups.is_forbidden("g", "T")
    while threads.waiting:
        threads.run_one()
    again = manager(files)
    assert again.forbidden_table() == groups.forbidden_table() == {"g1": {"T": 4}}
    assert again.all() == groups.all() and again.data_version == groups.data_version and again.get("g") is None


def test_deleting_a_group_drops_its_forbidden_topics() -> None:
    groups = manager()
    groups.ensure("g")
    groups.set_readable("g", "T", False)
    groups.delete("g")
    groups.delete("g")
    assert groups.get("g") is None
    assert not groups.is_forbidden("g", "T")
    with pytest.raises(Refusal):
        groups.require("g")
