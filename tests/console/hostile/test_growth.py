"""Rounds of pages, tails, log-ins and a lost broker: descriptors, tasks and memory of the console do not grow.

``PYMQ_CONSOLE_ROUNDS`` sets how many rounds there are.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from pymq.client import Message, Producer
from pymq.testing.broker import TestBroker
from tests.console.hostile.liar import Liar, truth
from tests.console.hostile.lies import closes
from tests.console.hostile.processes import CONTEXT, MIB, ConsoleProcess
from tests.console.hostile.site import STREAMS, addresses, query_of, site

ROUNDS: Final = int(os.environ.get("PYMQ_CONSOLE_ROUNDS", "12"))
# What grows in the first rounds is caches, and rings of the last hour.
FIRST_ROUNDS: Final = max(3, ROUNDS // 3)
WAIT_S: Final = 60.0
GROWTH_BYTES_MAX: Final = 8 * MIB
DESCRIPTORS_MORE_MAX: Final = 2  # a connection may be open or not at the moment of the count
TAILS: Final = 5


async def pages(console: ConsoleProcess) -> None:
    for route, path in addresses():
        if route not in STREAMS:
            await console.get(path, query_of(path))
            await console.get(path, f"format=json&{query_of(path)}")


async def tails(console: ConsoleProcess) -> None:
    opened = [await asyncio.open_connection("127.0.0.1", console.port) for _ in range(TAILS)]
    for _, writer in opened:
        path = f"/at/{CONTEXT}/topics/orders/tail/events"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {console.host}\r\n\r\n".encode())
    async with asyncio.timeout(WAIT_S):
        for reader, writer in opened:
            await reader.readuntil(b"event: ")
            writer.close()


async def log_ins(console: ConsoleProcess, number: int) -> None:
    """Try to log in with names and secrets that no cluster knows; from many addresses, so that none has to wait."""
    body = urlencode({"name": f"user{number}", "secret": "wrong"}).encode()
    head = [
        f"POST /at/{CONTEXT}/login HTTP/1.1",
        f"Host: {console.host}",
        f"Origin: {console.url}",
        "Connection: close",
    ]
    head += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}"]
    source = f"127.2.{number // 200 % 200}.{1 + number % 200}"
    await console.send("\r\n".join(head).encode() + b"\r\n\r\n" + body, source)


async def lost_broker(console: ConsoleProcess, broker: Liar) -> None:
    broker.lie = closes
    try:
        await asyncio.gather(*(console.get(path) for path in ("", "brokers", "topics", "groups/readers")))
    finally:
        broker.lie = truth


def until_settled(console: ConsoleProcess, wanted: int | None) -> int:
    """Return the number of descriptors, once it is no more than ``wanted`` or no longer falls."""
    deadline_s = time.monotonic() + WAIT_S
    count = console.descriptor_count()
    while wanted is not None and count > wanted and time.monotonic() < deadline_s:
        time.sleep(0.5)
        count = console.descriptor_count()
    return count


@pytest.mark.slow
@pytest.mark.timeout(600 + 30 * ROUNDS)
def test_nothing_grows() -> None:
    with TestBroker() as real, Liar(real.namesrv) as namesrv, Liar(real.address) as broker:
        real.create_topic("orders")
        namesrv.others = {real.address: broker.address}

        async def one_round(number: int, console: ConsoleProcess) -> None:
            async with Producer("test", namesrv=real.namesrv) as producer:
                for _ in range(20):
                    await producer.send(Message("orders", b"x" * 1000))
            await pages(console)
            await tails(console)
            for each in range(5):
                await log_ins(console, 5 * number + each)
            await lost_broker(console, broker)

        with ConsoleProcess(namesrv.address, log_level="error") as console:
            for number in range(FIRST_ROUNDS):
                asyncio.run(one_round(number, console))
            begin: dict[str, Any] = {"descriptors": until_settled(console, None), "bytes": console.rss_bytes()}
            for number in range(FIRST_ROUNDS, ROUNDS):
                asyncio.run(one_round(number, console))
            end = {
                "descriptors": until_settled(console, begin["descriptors"] + DESCRIPTORS_MORE_MAX),
                "bytes": console.rss_bytes(),
            }
            print(f"{ROUNDS} rounds: {begin} {end}")
            assert end["descriptors"] <= begin["descriptors"] + DESCRIPTORS_MORE_MAX
            assert end["bytes"] - begin["bytes"] <= GROWTH_BYTES_MAX
            assert console.is_running and not console.log


@pytest.mark.slow
def test_no_task_is_left_behind() -> None:
    """Pages and streams that browsers leave early end all that they began."""

    async def work(broker: TestBroker) -> None:
        async with site(broker.namesrv) as found:
            for _, path in addresses():
                await found.get(path, query_of(path))
            await asyncio.sleep(0)
            before = len(asyncio.all_tasks())
            for _ in range(5):
                for _, path in addresses():
                    await found.get(path, query_of(path))
                    leaving = asyncio.ensure_future(found.get(path, query_of(path)))
                    await asyncio.sleep(0)
                    leaving.cancel()
                    await asyncio.gather(leaving, return_exceptions=True)
            async with asyncio.timeout(WAIT_S):
                while len(asyncio.all_tasks()) > before + 3:  # noqa: ASYNC110 - tasks end without an event
                    await asyncio.sleep(0.1)

    with TestBroker() as broker:
        broker.create_topic("orders")
        asyncio.run(work(broker))
