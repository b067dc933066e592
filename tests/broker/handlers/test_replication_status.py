"""Codes 9103, 907 and 1007: the status of replication."""

from __future__ import annotations

import msgspec
import pytest

from pymq.wire.bodies_replication import ReplicationStatus
from pymq.wire.codes import RequestCode
from tests.broker.world import Caller, NoNetwork, World


def status_of(world: World) -> ReplicationStatus:
    reply = Caller(world).ok(RequestCode.PYMQ_GET_REPLICATION_STATUS)
    return msgspec.json.decode(reply.body, type=ReplicationStatus)


def test_a_master_reports_its_log_and_its_role() -> None:
    world = World(brokerName="broker-x", brokerClusterName="east", listenPort=10911)
    world.put("orders", b"one")
    world.put("orders", b"two", queue_id=1)
    status = status_of(world)
    assert (status.cluster, status.broker_name, status.broker_id, status.role) == (
        "east",
        "broker-x",
        0,
        "ASYNC_MASTER",
    )
    assert status.address == "127.0.0.1:10911"
    assert (status.log_start, status.log_end) == (0, world.parts.store.physical_max_offset)
    assert status.message_count == 2
    assert status.segment_size_bytes == 4 * 1024 * 1024
    assert status.confirm_offset == status.log_end and status.problem == ""


def test_rocketmq_s_status_of_a_master_without_slaves() -> None:
    world = World()
    world.put("orders", b"one")
    found = Caller(world).json(RequestCode.GET_BROKER_HA_STATUS)
    assert found["master"] is True
    assert found["masterCommitLogMaxOffset"] == world.parts.store.physical_max_offset
    assert found["haConnectionInfo"] == [] and found["inSyncSlaveNums"] == 0


def test_rocketmq_s_epochs_are_those_of_the_history() -> None:
    world = World(brokerName="broker-x", brokerClusterName="east")
    world.put("orders", b"one")
    end = world.parts.store.physical_max_offset
    epochs = [{"epoch": entry.epoch, "startOffset": entry.start} for entry in status_of(world).epoch_history]
    assert Caller(world).json(RequestCode.GET_BROKER_EPOCH_CACHE) == {
        "clusterName": "east",
        "brokerName": "broker-x",
        "brokerId": 0,
        "epochList": [{**epoch, "endOffset": end} for epoch in epochs],
        "maxOffset": end,
    }


@pytest.mark.parametrize("is_known", [True, False])
def test_a_status_request_of_a_known_master_triggers_a_group_probe(is_known: bool) -> None:
    network = NoNetwork()
    world = World(namesrvAddr="10.0.9.1:9876", network=network)
    if is_known:
        world.parts.replication.known_peers.remember("10.0.0.9:10911")
    Caller(world).ok(RequestCode.PYMQ_GET_REPLICATION_STATUS, b'{"master":"10.0.0.9:10911"}')
    asked: list[str] = []
    network.ask = lambda address, *rest: asked.append(address)  # type: ignore[method-assign]
    world.parts.master_monitor.tick()
    assert asked == (["10.0.9.1:9876"] if is_known else [])
    assert world.parts.replication.known_peers.stranger_count == (not is_known)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"master":1}', b'{"master":"nowhere"}'])
def test_an_unreadable_status_request_is_refused(body: bytes) -> None:
    code, remark = Caller(World()).refused(RequestCode.PYMQ_GET_REPLICATION_STATUS, body)
    assert code == 29 and "the sender" in remark
