"""Codes 200, 225, 207, 5003, 201, 352, 353."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.broker.handlers.name_lists import LISTED_COUNT_MAX
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.disk import Threads, failing
from tests.broker.world import Caller, World


def group(name: str, **fields: object) -> bytes:
    return json.dumps(
        {"groupName": name, "retryMaxTimes": 3, "groupRetryPolicy": {"type": "CUSTOMIZED"}, **fields}
    ).encode()


def test_create_change_show_delete() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g"))
    caller.ok(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g", consumeEnable=False))
    shown = caller.json(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group="g")
    assert (shown["retryMaxTimes"], shown["consumeEnable"], shown["groupName"]) == (3, False, "g")
    table = caller.json(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert table["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 3 and table["dataVersion"]["counter"] == 2
    caller.ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName="g")
    code, remark = caller.refused(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group="g")
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST and "'g'" in remark


def test_changes_are_answered_when_they_are_saved() -> None:
    world = World()
    caller = Caller(world)
    world.put("T")
    caller.ok(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g"))
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    world.parts.metadata.cursors.commit("g", "T", 0, 1)
    world.run_in_thread = threads = Threads()
    body = json.dumps({"groupConfigList": [{"groupName": "a"}, {"groupName": "b"}]}).encode()
    assert caller.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("h")) is None
    assert caller.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body) is None
    assert caller.ask(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, group="g", topic="T", readable="false") is None
    threads.run_one()
    assert len(caller.peer.answers) == 1 and world.parts.metadata.groups.all().keys() == {"g", "h"}
    threads.run_one()
    assert [reply.code for reply in caller.peer.answers] == [0] * 3
    assert json.loads(caller.peer.answers[2].body)["readable"] is False
    assert world.parts.metadata.groups.all().keys() == {"g", "h", "a", "b"}
    assert caller.ask(Code.DELETE_SUBSCRIPTIONGROUP, groupName="g", cleanOffset="true") is None
    assert world.parts.metadata.cursors.query("g", "T", 0) == 1
    threads.run_one()
    assert len(caller.peer.answers) == 4 and world.parts.metadata.cursors.query("g", "T", 0) == -1


def test_what_can_t_be_saved_is_refused_and_changes_nothing() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g"))
    world.put("T")
    world.parts.metadata.cursors.commit("g", "T", 0, 1)
    with failing(world, "open", "/config/subscriptionGroup"):
        caller.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g", retryMaxTimes=9))
        caller.ask(Code.DELETE_SUBSCRIPTIONGROUP, groupName="g", cleanOffset="true")
    assert [reply.code for reply in caller.peer.answers] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
    assert (
        world.parts.metadata.groups.require("g").retry_max_times == 3
        and world.parts.metadata.cursors.query("g", "T", 0) == 1
    )


def test_a_change_made_from_an_older_version_is_refused() -> None:
    caller = Caller(World())
    put = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert caller.ok(put, group("g")).ext is None
    assert caller.ok(put, group("g", retryMaxTimes=4), pymqExpectedVersion="1").ext == {"pymqVersion": "2"}
    code, remark = caller.refused(put, group("g", retryMaxTimes=5), pymqExpectedVersion="1")
    assert code == ResponseCode.SUBSCRIPTION_NOT_LATEST and "version 2" in remark and "version 1" in remark
    assert caller.json(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group="g")["retryMaxTimes"] == 4


def test_a_change_while_another_is_saved_is_refused() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g"))
    world.run_in_thread = Threads()
    assert caller.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g", retryMaxTimes=4)) is None
    late = caller.refused(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g"), pymqExpectedVersion="1")
    assert late[0] == ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_offsets_go_with_a_group_only_when_asked() -> None:
    for field in ("cleanOffset", "removeOffset", None):
        world = World()
        world.put("T")
        world.parts.metadata.groups.ensure("g")
        world.parts.metadata.cursors.commit("g", "T", 0, 1)
        world.parts.metadata.leaser.lock_batch("g", "a", [MessageQueue("T", "broker-a", 0)])
        fields: dict[str, Any] = {field: "true"} if field else {}
        Caller(world).ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName="g", **fields)
        assert world.parts.metadata.cursors.query("g", "T", 0) == (-1 if field else 1)
        assert not world.parts.metadata.leaser.is_ordered("g")


def test_a_list_is_taken_whole_or_not_at_all() -> None:
    world = World()
    caller = Caller(world)
    body = {"groupConfigList": [{"groupName": "a"}, {"groupName": "b"}]}
    caller.ok(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, json.dumps(body).encode())
    assert world.parts.metadata.groups.get("a") and world.parts.metadata.groups.get("b")
    body = {"groupConfigList": [{"groupName": "c"}, {"groupName": "d/e"}]}
    code, _ = caller.refused(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, json.dumps(body).encode())
    assert code == ResponseCode.INVALID_PARAMETER and world.parts.metadata.groups.get("c") is None


def test_bad_bodies_are_refused() -> None:
    caller = Caller(World())
    assert caller.refused(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b"{}")[0] == ResponseCode.SYSTEM_ERROR
    code, remark = caller.refused(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group("g", retryMaxTimes="x"))
    assert code == ResponseCode.SYSTEM_ERROR and "retryMaxTimes" in remark


def test_forbidding_a_group_to_read() -> None:
    world = World()
    caller = Caller(world)
    fields: dict[str, Any] = {"group": "g", "topic": "T"}
    assert caller.refused(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, **fields)[0] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    world.parts.metadata.groups.ensure("g")
    assert caller.refused(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, **fields)[0] == ResponseCode.TOPIC_NOT_EXIST
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    assert caller.json(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, **fields)["readable"] is True
    assert caller.json(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, **fields, readable="false")["readable"] is False
    assert world.parts.metadata.groups.is_forbidden("g", "T")


@pytest.mark.parametrize("with_offsets", [True, False])
def test_listed_groups_go_with_leases_and_with_offsets_when_asked(with_offsets: bool) -> None:
    world = World()
    world.put("T")
    metadata = world.parts.metadata
    for name in ("g", "h", "stays"):
        metadata.groups.ensure(name)
        metadata.cursors.commit(name, "T", 0, 1)
        metadata.leaser.lock_batch(name, "a", [MessageQueue("T", "broker-a", 0)])
    listed = {"groupNameList": ["g", "h", "h", "never"], "cleanOffset": with_offsets}
    Caller(world).ok(Code.DELETE_SUBSCRIPTION_GROUP_LIST, json.dumps(listed).encode())
    assert metadata.groups.all().keys() == {"stays"}
    left = [metadata.cursors.query(name, "T", 0) for name in ("g", "h", "stays")]
    assert left == ([-1, -1, 1] if with_offsets else [1, 1, 1])
    assert [metadata.leaser.is_ordered(name) for name in ("g", "h", "stays")] == [False, False, True]
    assert World(world.files.after_kill(), world.clock).parts.metadata.groups.all() == metadata.groups.all()


@pytest.mark.parametrize(
    ("groups", "part"),
    [
        ([], "empty"),
        (["g", "d/e"], "character"),
        ([f"g{number}" for number in range(LISTED_COUNT_MAX + 1)], f"at most {LISTED_COUNT_MAX}"),
        (["g", "x" * 200_000], "255"),
    ],
)
def test_a_list_that_can_t_be_deleted_deletes_no_group(groups: list[str], part: str) -> None:
    world = World()
    world.parts.metadata.groups.ensure("g")
    body = json.dumps({"groupNameList": groups}).encode()
    code, remark = Caller(world).refused(Code.DELETE_SUBSCRIPTION_GROUP_LIST, body)
    assert code == ResponseCode.INVALID_PARAMETER and part in remark and len(remark) < 1000
    assert world.parts.metadata.groups.get("g") is not None
