"""Servers that fail while pages are open: killed, stopped, without a leader; and members that are not asked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Message, Producer
from pymq.console.pages.page import PAGE_TIMEOUT_S
from pymq.testing.broker import TestBroker
from pymq.testing.standalone import StandaloneProcess
from tests.console.hostile.processes import ConsoleProcess
from tests.console.hostile.site import STREAMS, addresses, is_download, query_of, site
from tests.console.hostile.test_liars import LATE_S, STATUSES, WITHOUT_BROKERS

DEADLINE_S = 60.0


async def json_of(console: ConsoleProcess, path: str) -> tuple[int, Any]:
    status, body = await console.get(path, f"format=json&{query_of(path)}")
    return status, {"missing": "a download"} if is_download(path) and status == 200 else json.loads(body)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():  # noqa: ASYNC110 the condition is asked of another process
            await asyncio.sleep(0.1)


async def send(namesrv: str) -> None:
    async with Producer("test", namesrv=namesrv) as producer:
        await producer.send(Message("orders", b"hello"))


async def check_all(console: ConsoleProcess) -> None:
    """Check that every page names the broker that does not answer, or says so as an error, in time."""

    async def ask(path: str) -> None:
        begun_s = time.monotonic()
        status, found = await json_of(console, path)
        took_s = time.monotonic() - begun_s
        assert took_s < PAGE_TIMEOUT_S + LATE_S, f"{path}: {took_s:.1f} s"
        assert status in STATUSES, f"{path}: {status}"
        if status == 200 and path not in WITHOUT_BROKERS:
            assert found["missing"] or found.get("worst") == "problem", path
        elif status not in (200, 404):
            assert found["error"], path

    await asyncio.gather(*(ask(path) for route, path in addresses() if route not in STREAMS))


@pytest.mark.slow
def test_a_broker_that_is_stopped_is_named_in_time_and_comes_back() -> None:
    """The servers have a process each: the name server answers while the broker hangs."""
    with StandaloneProcess() as servers, ConsoleProcess(servers.namesrv) as console:
        asyncio.run(send(servers.namesrv))
        stop_and_ask(servers, console)


def stop_and_ask(servers: StandaloneProcess, console: ConsoleProcess) -> None:
    async def is_well() -> bool:
        status, found = await json_of(console, "topics/orders")
        return status == 200 and not found["missing"]

    asyncio.run(until(is_well))
    os.kill(servers.pid, signal.SIGSTOP)
    try:
        time.sleep(2.1)  # kept answers are the truth
        asyncio.run(check_all(console))
    finally:
        os.kill(servers.pid, signal.SIGCONT)
    asyncio.run(until(is_well))
    assert console.is_running and "Traceback" not in console.log


@pytest.mark.slow
def test_a_master_is_killed_while_a_stream_of_its_topic_is_open() -> None:
    with StandaloneProcess() as servers, ConsoleProcess(servers.namesrv) as console:
        asyncio.run(send(servers.namesrv))

        async def work() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
            path = "/at/default/topics/orders/tail/events"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {console.host}\r\n\r\n".encode())
            async with asyncio.timeout(DEADLINE_S):
                await reader.readuntil(b"event: round")
                opened = asyncio.gather(*(json_of(console, path) for path in ("brokers", "topics", "groups")))
                servers.kill()
                for status, found in await opened:
                    assert status in STATUSES and (status == 200 or found["error"])
                await reader.readuntil(b"event: problem")
            writer.close()
            await check_all(console)

        asyncio.run(work())
        assert console.is_running and "Traceback" not in console.log


@pytest.mark.slow
def test_the_raft_page_before_during_and_after_an_election(tmp_path: Path) -> None:
    words = ["standalone", "--shards", "1", "--dir", str(tmp_path), "--namesrv-port", "0", "--port", "0", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "pymq", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            leader = next(broker for broker in ready["brokers"] if broker["role"] == "leader")
            with ConsoleProcess(ready["namesrv"]) as console:
                asyncio.run(elect(console, leader))
                assert console.is_running and "Traceback" not in console.log
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_S)


async def elect(console: ConsoleProcess, leader: dict[str, Any]) -> None:
    """Kill the leader, and look at pages until another one leads."""

    async def led_by() -> str | None:
        status, found = await json_of(console, "raft")
        assert status in STATUSES
        if status != 200:
            assert found["error"]
            return None
        (group,) = found["groups"]
        html = (await console.get("raft"))[1].decode()
        if group["leader"] is None:
            assert "no node leads now" in html and group["problems"]
        return str(group["leader"]) if group["leader"] else None

    async def is_led() -> bool:
        return await led_by() == leader["node"]

    async def has_another() -> bool:
        status, found = await json_of(console, "brokers")
        assert status in STATUSES and (found["brokers"] if status == 200 else found["error"])
        return await led_by() not in (None, leader["node"])

    await until(is_led)
    os.kill(leader["pid"], signal.SIGKILL)
    await until(has_another)
    _, found = await json_of(console, "raft")
    (group,) = found["groups"]
    (gone,) = [member for member in group["members"] if member["node"] == leader["node"]]
    assert gone["role"] is None and gone["problem"], "the one that was killed is shown, with the reason"


@pytest.mark.slow
def test_members_that_came_by_grpc_say_what_can_not_be_asked() -> None:
    pytest.importorskip("grpc")
    from pymq.proxy.protocol import messages as m
    from pymq.proxy.protocol.names import ClientType
    from tests.proxy.harness import RawClient, create_group, create_topic, proxy_of

    async def work(broker: TestBroker) -> None:
        async with proxy_of(broker) as (_, address), site(broker.namesrv) as found:
            client = RawClient(address, "grpc-client")
            settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
            settings.subscription.group.name = "readers"
            entry = settings.subscription.subscriptions.add()
            entry.topic.name = "orders"
            entry.expression.type, entry.expression.expression = 1, "*"

            async def is_listed() -> bool:
                clients = json.loads((await found.get("clients", "format=json")).body)["clients"]
                return [one["client_id"] for one in clients if one["group"] == "readers"] == ["grpc-client"]

            try:
                await client.settle(settings)
                await until(is_listed)
                assert "grpc-client" in (await found.get("groups/readers")).text
                page = await found.get("groups/readers/members/grpc-client")
                assert page.status == 200 and "grpc-client" in page.text
                data = json.loads((await found.get("groups/readers/members/grpc-client", "format=json&stack=1")).body)
                assert data["queues"] is None and "did not answer" in data["missing"]["what the member says"]
            finally:
                await client.close()

    with TestBroker() as broker:
        create_topic(broker, "orders")
        create_group(broker, "readers")
        asyncio.run(work(broker))
