"""Replication calls of the admin client: against a running standalone, and with a RocketMQ broker's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pymq.client import Admin, Message, Producer
from pymq.client.admin.replication import rocketmq_status
from pymq.errors import RefusedError
from pymq.model.fastjson import JsonError
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.bodies_admin import HaClientRuntimeInfo, HaConnectionInfo, HaStatus
from pymq.wire.bodies_replication import LogDigestsRequest
from pymq.wire.codes import RequestCode
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer

RUNTIME = {"commitLogMinOffset": "1073741824", "commitLogMaxOffset": "1073743000"}


def test_the_picture_digests_and_bytes_of_a_running_broker(server: StandaloneProcess) -> None:
    async def session() -> None:
        async with Producer("replication_test", namesrv=server.namesrv) as producer:
            await producer.send(Message("replicated", b"body"))
        async with Admin(server.namesrv) as admin:
            replication, address = admin.replication, server.broker
            status = await replication.status(address)
            assert (status.broker_name, status.role, status.address) == ("broker-a", "ASYNC_MASTER", address)
            assert status.log_end > status.log_start == 0 and status.message_count > 0
            found = await replication.digests(address, LogDigestsRequest(end=1000, chunk_bytes=512))
            assert len(found.digests) == min(2, -(-status.log_end // 512)) and found.broker_name == "broker-a"
            assert len(await replication.read_log(address, 0, 100)) == 100
            with pytest.raises(RefusedError, match="outside"):
                await replication.read_log(address, 1 << 50, 1)
            tables = await replication.tables(address)
            assert b"replicated" in tables["topics.json"] and len(tables) == 4
            confirm_offset = await replication.replicated_tables(address)
            assert "replicated" in confirm_offset["topics"].entries and confirm_offset["topics"].version.counter > 0

    asyncio.run(session())


@pytest.mark.parametrize("body", [b"", b"[]", b'{"brokerName":"\xff"}', b'{"other":' + b"[" * 100_000], ids=range(4))
def test_an_unreadable_answer_is_reported_with_its_address(body: bytes) -> None:
    async def ask(call: Callable[[Admin, str], Awaitable[object]]) -> None:
        server = await FakeServer().start()
        for code in (RequestCode.PYMQ_GET_REPLICATION_STATUS, RequestCode.PYMQ_LIST_LOG_DIGESTS):
            server.on(code, lambda command: Reply(body=body))
        async with Admin(server.address) as admin:
            with pytest.raises(JsonError, match=f"the answer of {server.address} can't be read"):
                await call(admin, server.address)
        await server.stop()

    asyncio.run(ask(lambda admin, address: admin.replication.status(address)))
    asyncio.run(ask(lambda admin, address: admin.replication.digests(address, LogDigestsRequest())))


def test_unreadable_rocketmq_figures_are_reported_with_their_address() -> None:
    async def ask() -> None:
        server = await FakeServer().start()
        server.on(RequestCode.PYMQ_GET_REPLICATION_STATUS, lambda command: Reply(3, "not supported"))
        server.on(RequestCode.GET_BROKER_CONFIG, lambda command: Reply(body=b"brokerId=first\n"))
        server.on(RequestCode.GET_BROKER_RUNTIME_INFO, lambda command: Reply(body=b'{"table":{}}'))
        server.on(RequestCode.GET_BROKER_HA_STATUS, lambda command: Reply(body=b"{}"))
        async with Admin(server.address) as admin:
            with pytest.raises(JsonError, match=rf"the status of {server.address} .log, role. can't be read"):
                await admin.replication.status(server.address)
        await server.stop()

    asyncio.run(ask())


def test_a_rocketmq_master_in_pymq_s_shape() -> None:
    config = {
        "brokerName": "broker-x",
        "brokerClusterName": "east",
        "brokerId": "0",
        "brokerRole": "SYNC_MASTER",
        "inSyncReplicas": "3",
        "brokerIP2": "10.0.0.1",
        "haListenPort": "10912",
        "mappedFileSizeCommitLog": "1048576",
    }
    slave = HaConnectionInfo(addr="10.0.0.2:5", slave_ack_offset=7, diff=3, in_sync=True, transfer_from_where=9)
    ha = HaStatus(master=True, in_sync_slave_nums=1, ha_connection_info=[slave])
    status = rocketmq_status("10.0.0.1:10911", config, RUNTIME, ha)
    assert (status.protocol_version, status.role, status.ha_address) == (0, "SYNC_MASTER", "10.0.0.1:10912")
    assert (status.log_start, status.log_end, status.segment_size_bytes) == (1073741824, 1073743000, 1048576)
    assert (status.required_slaves, status.in_sync_slaves, status.degraded) == (2, 1, True)
    assert (status.slaves[0].address, status.slaves[0].ack_offset, status.slaves[0].lag_messages) == (
        "10.0.0.2:5",
        7,
        -1,
    )
    assert status.ha_client is None and status.message_count == -1


@pytest.mark.parametrize(("master", "heard_ms", "state"), [("m:10912", 5, "connected"), (None, 0, "waiting")])
def test_a_rocketmq_slave_in_pymq_s_shape(master: str | None, heard_ms: int, state: str) -> None:
    info = HaClientRuntimeInfo(master_addr=master, last_read_timestamp=heard_ms)
    ha = HaStatus(master=False, ha_client_runtime_info=info)
    status = rocketmq_status("s:10911", {"brokerId": "1", "brokerRole": "SLAVE"}, RUNTIME, ha)
    assert (status.role, status.broker_id, status.required_slaves) == ("SLAVE", 1, 0)
    assert status.ha_client is not None and (status.ha_client.state, status.ha_client.ha_address) == (
        state,
        master or "",
    )


@pytest.mark.parametrize(("role", "required"), [("SYNC_MASTER", 0), ("ASYNC_MASTER", 0), ("SLAVE", 0)])
def test_a_rocketmq_4_broker_does_not_say_which_slaves_it_has(role: str, required: int) -> None:
    status = rocketmq_status("s:10911", {"brokerRole": role, "inSyncReplicas": "2"}, RUNTIME, None)
    assert (status.role, status.required_slaves, status.degraded) == (role, required, False)
    assert not status.knows_slaves and status.slaves == [] and status.ha_client is None
