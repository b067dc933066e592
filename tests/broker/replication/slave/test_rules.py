"""The requests that a slave serves: every code is classified, and none that is served writes its tables or its log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.broker.assembly.wiring import make_handlers, routes_in_role
from pymq.broker.metadata.topics import read_topics
from pymq.broker.replication.slave.rules import refusal_text
from pymq.broker.routes import broker_rows
from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.codes import RequestCode, ResponseCode, request_name
from tests.broker.fast.test_send import ordinary, payload_of
from tests.broker.replication.pair import Pair
from tests.broker.world import Caller, FakePeer, World, slave_side

REFUSED = {
    row.code: row.on_slave.refused_code
    for row in broker_rows(make_handlers(World().parts))
    if row.on_slave.refused_code is not None
}


def test_a_cluster_wide_request_is_left_to_the_master() -> None:
    slave = World(brokerId="1")
    slave.parts.metadata.topics.take_over(read_topics({"topicConfigTable": {"T": {"topicName": "T"}}}), DataVersion())
    reply = Caller(slave).ok(RequestCode.CLEAN_UNUSED_TOPIC)
    assert "nothing was done here" in (reply.remark or "") and slave.parts.metadata.topics.get("T") is not None


def test_expired_queues_go_on_a_slave_too_and_offsets_stay() -> None:
    world = World()
    world.put("Gone", b"1")
    world.parts.close()
    slave = World(world.files, world.clock, brokerId="1")
    slave.parts.metadata.cursors.take_over({"offsetTable": {"Gone@g": {"0": 1}}}, is_part=False)  # type: ignore[attr-defined]
    queue = slave.parts.store.queue_view("Gone", 0)
    assert queue is not None
    queue.min_offset = queue.max_offset  # as after its segment went
    Caller(slave).ok(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert slave.parts.store.queue_end("Gone", 0) is None and slave.parts.metadata.cursors.query("g", "Gone", 0) == 1


@pytest.mark.parametrize("code", sorted(REFUSED), ids=request_name)
def test_a_refusal_names_slave_and_master(code: int) -> None:
    slave = World(brokerId="1")
    slave_side(slave.parts).ha_client.note_master("10.0.0.1:10911", "10.0.0.1:10912")
    got, remark = Caller(slave).refused(code, b"nonsense", no="fields")
    assert got == REFUSED[code]
    assert remark.startswith("broker-a is a slave (id 1) and ") and remark.endswith("ask its master at 10.0.0.1:10911")


def test_a_master_that_is_not_known_yet() -> None:
    assert "not known yet: check that one is registered at the name servers" in refusal_text(
        "b", 2, "", "takes no messages"
    )


def test_a_master_refuses_none_of_it_for_its_role() -> None:
    caller = Caller(World())
    for code in REFUSED:
        assert "slave" not in ((caller.ask(code, b"nonsense") or FakeReply()).remark or "")


class FakeReply:
    remark = ""


def test_sends_are_refused_on_the_fast_path_too() -> None:
    slave = World(brokerId="1")
    slave.parts.metadata.topics.take_over(read_topics({"topicConfigTable": {"T": {"topicName": "T"}}}), DataVersion())
    peer = FakePeer()
    assert not slave.parts.requests.fast_path(peer, payload_of(ordinary(b="T"), b"body"))  # type: ignore[arg-type]
    slave.parts.messages.writer.commit()
    assert peer.frames == [] and slave.parts.store.physical_max_offset == 0
    assert slave.parts.store.queue_end("T", 1) is None, "no queue is made for it"


def heartbeat(group: str) -> bytes:
    subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    consumer |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription]}  # type: ignore[dict-item]
    return json.dumps({"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}).encode()


PULL: dict[str, Any] = {
    "consumerGroup": "new", "topic": "T", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 0,
    "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 1,
}  # fmt: skip


def test_clients_are_served_and_make_nothing() -> None:
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    pair.run(1000)
    slave, caller = pair.slave, Caller(pair.slave)
    before = {path: bytes(node.data) for path, node in slave.files.nodes.items() if "/config/" in path}
    caller.ok(RequestCode.HEART_BEAT, heartbeat("new"))
    assert caller.json(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="new") == {"consumerIdList": ["c"]}
    reply = caller.ask(RequestCode.PULL_MESSAGE, **PULL)
    assert reply is not None and reply.code == ResponseCode.PULL_NOT_FOUND
    for parts_tick in (
        slave.parts.metadata.topics.tick,
        slave.parts.metadata.groups.tick,
        slave.parts.metadata.cursors.tick,
    ):
        parts_tick()
    after = {path: bytes(node.data) for path, node in slave.files.nodes.items() if "/config/" in path}
    assert after == before and slave.parts.metadata.groups.get("new") is None
    assert slave.parts.metadata.topics.get("%RETRY%new") is None


def test_a_group_the_master_has_not_met_may_commit() -> None:
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    pair.run(1000)
    caller = Caller(pair.slave)
    commit: dict[str, Any] = {"consumerGroup": "new", "topic": "T", "queueId": 0, "commitOffset": 7}
    caller.ok(RequestCode.UPDATE_CONSUMER_OFFSET, **commit)
    assert pair.slave.parts.metadata.cursors.query("new", "T", 0) == 7
    code, _ = Caller(pair.master).refused(RequestCode.UPDATE_CONSUMER_OFFSET, **commit)
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_without_auto_creation_a_slave_takes_no_other_groups() -> None:
    slave = World(brokerId="1", autoCreateSubscriptionGroup="false")
    slave.parts.metadata.topics.take_over(read_topics({"topicConfigTable": {"T": {"topicName": "T"}}}), DataVersion())
    code, _ = Caller(slave).refused(RequestCode.PULL_MESSAGE, **PULL)
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_refused_routes_need_no_header() -> None:
    routes = {route.code: route for route in routes_in_role(World(brokerId="1").parts)}
    assert all(routes[code].header is None for code in REFUSED)
    assert routes[RequestCode.PULL_MESSAGE].header is not None
