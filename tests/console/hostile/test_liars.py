"""Servers that lie: every page answers in time and says what it lacks, and the console stays within its memory."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from pymq.client import Message, Producer
from pymq.console.pages.page import PAGE_TIMEOUT_S
from pymq.testing.broker import TestBroker
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, encode_command
from tests.console.hostile.liar import Liar, Say, truth
from tests.console.hostile.lies import LIES
from tests.console.hostile.processes import MIB, ConsoleProcess
from tests.console.hostile.site import STREAMS, addresses, is_download, query_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

LIES_A_CONSOLE: Final = 3
FORGOTTEN_TIMEOUT_S: Final = 90.0  # within which the console asks again for what it keeps
LATE_S: Final = 20.0  # of a page on a busy machine, after its deadline
ABOVE_BYTES_MAX: Final = 64 * MIB
# The client that reads queues takes frames of the protocol's whole size: a message may have that.
ABOVE_OF_LARGE_FRAMES_MAX: Final = 128 * MIB
STATUSES: Final = {200, 404, 502, 503, 504}
# What brokers say about themselves is not on these pages, or it is an answer without a body.
HALF_OF_LINES: Final = ("half a JSON", "brokers/differences")  # half of the settings is an answer, too
WITHOUT_BROKERS: Final = {"messages", "about", "namesrv", "auth", "dlq", "dlq/readers"}
# Lies after which nothing of an answer can be used.
UNUSABLE: Final = {
    "half a JSON",
    "nothing",
    "another type",
    "deep",
    "no frame",
    "announces 100 MB",
    "a negative length",
}
UNUSABLE |= {
    "closes",
    "never",
    "wrong id",
    "as a request",
    "15 MB of nonsense",
    "7 MB of nonsense",
    "a refusal of 5 MB",
}
QUICK: Final = ("half a JSON", "announces 100 MB", "nulls", "huge numbers")


@dataclass
class World:
    """A console whose name server and broker are liars."""

    console: ConsoleProcess
    namesrv: Liar
    broker: Liar
    lie_count: int = 0  # of the broker

    def forget_lies(self) -> None:
        """Go on with a new console now and then: one that meets a broker's lies again asks it less and less often."""
        self.lie_count += 1
        if self.lie_count % LIES_A_CONSOLE == 0:
            self.console.start_again()

    async def is_well(self) -> bool:
        status, body = await self.console.get("topics/orders", "format=json")
        return status == 200 and not json.loads(body)["missing"]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with TestBroker() as real, Liar(real.namesrv) as namesrv, Liar(real.address) as broker:
        real.create_topic("orders")

        async def send() -> None:
            async with Producer("test", namesrv=real.namesrv) as producer:
                for _ in range(5):
                    await producer.send(Message("orders", b"hello"))

        asyncio.run(send())
        namesrv.others = {real.address: broker.address}
        with ConsoleProcess(namesrv.address, log_level="error") as console:
            yield World(console, namesrv, broker)


def until_well(world: World) -> None:
    """Wait until the console shows the truth, after lies that it may have kept."""
    deadline_s = time.monotonic() + FORGOTTEN_TIMEOUT_S
    while not asyncio.run(world.is_well()):
        assert time.monotonic() < deadline_s, "the console does not get over it"
        time.sleep(0.2)


async def ask(world: World, path: str) -> tuple[str, int, dict[str, object], float]:
    begun_s = time.monotonic()
    status, body = await world.console.get(path, f"format=json&{query_of(path)}")
    found = {"missing": "a download"} if is_download(path) and status == 200 else json.loads(body)
    return path, status, found, time.monotonic() - begun_s


async def ask_all(world: World) -> list[tuple[str, int, dict[str, object], float]]:
    return await asyncio.gather(*(ask(world, path) for route, path in addresses() if route not in STREAMS))


LIED = [
    pytest.param(who, name, marks=[] if name in QUICK else [pytest.mark.slow], id=f"{who} {name}")
    for name in LIES
    for who in ("broker", "namesrv")
]


@pytest.mark.parametrize(("who", "name"), LIED)
def test_a_lie_is_no_page_and_no_memory(world: World, who: str, name: str) -> None:
    if who == "broker":
        world.forget_lies()
    until_well(world)
    before_bytes = world.console.rss_bytes()
    world.console.reset_peak()
    liar = world.broker if who == "broker" else world.namesrv
    liar.lie = LIES[name]
    lied_ms = time.time() * 1000
    try:
        time.sleep(2.1)  # answers that are kept are the truth
        answers = asyncio.run(ask_all(world))
    finally:
        liar.lie = truth
    until_well(world)
    for path, status, found, took_s in answers:
        assert status in STATUSES, f"{path}: {status} {found}"
        assert took_s < PAGE_TIMEOUT_S + LATE_S, f"{path}: {took_s:.1f} s"
        if status != 200:
            assert found["error"], path
        elif who == "broker" and name in UNUSABLE and path not in WITHOUT_BROKERS and (name, path) != HALF_OF_LINES:
            # One that took long, on a busy machine, is kept for longer: the page says its age.
            assert found["missing"] or int(str(found["asOfMs"])) <= lied_ms, path
    above_bytes = world.console.peak_rss_bytes() - before_bytes
    limit_bytes = ABOVE_OF_LARGE_FRAMES_MAX if "nonsense" in name else ABOVE_BYTES_MAX
    assert above_bytes <= limit_bytes, f"{above_bytes / MIB:.0f} MiB"
    assert world.console.is_running and not world.console.log


def test_a_name_server_that_lists_the_console_itself(world: World) -> None:
    """The console asks itself once for each question, gets no frame, and names that broker."""
    until_well(world)
    has_lied = threading.Event()

    async def lists_the_console(request: Command, answer: Command, say: Say) -> None:
        if request.code in (RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.GET_ROUTEINFO_BY_TOPIC):
            answer.body = answer.body.replace(world.broker.address.encode(), world.console.host.encode())
        await say(encode_command(answer))
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            has_lied.set()

    world.namesrv.lie, lied_ms = lists_the_console, time.time() * 1000
    deadline_s = time.monotonic() + FORGOTTEN_TIMEOUT_S
    try:
        while not has_lied.is_set():  # it keeps the list of brokers, for long when that came late
            assert time.monotonic() < deadline_s, "the console does not ask the name server again"
            asyncio.run(ask(world, "brokers"))
            time.sleep(0.1)
        answers = asyncio.run(ask_all(world))
    finally:
        world.namesrv.lie = truth
    for path, status, found, _ in answers:
        assert status in STATUSES, f"{path}: {status}"
        if status == 200 and path not in WITHOUT_BROKERS:
            # One that took long, on a busy machine, is shown as an old one: the page says its age.
            assert found["missing"] or int(str(found["asOfMs"])) <= lied_ms, path
    assert world.console.is_running and not world.console.log
