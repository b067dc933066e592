"""Browsers that mean harm, over sockets, beside others that must be served."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from pymq.console.web.serving import ServingLimits
from pymq.console.web.streams import STREAM_COUNT_MAX, STREAMS_OF_OWNER_MAX
from pymq.testing.broker import TestBroker
from tests.console.hostile.processes import CONTEXT, MIB, ConsoleProcess

WAIT_S: Final = 60.0
ABOVE_BYTES_MAX: Final = 64 * MIB
OF_HOST: Final = ServingLimits().connection_count_of_host_max
CONNECTIONS: Final = 2_000
STREAMS: Final = 500
EVENTS: Final = f"/at/{CONTEXT}/topics/orders/tail/events"


@pytest.fixture(scope="module")
def console() -> Iterator[ConsoleProcess]:
    with TestBroker() as broker:
        broker.create_topic("orders")
        with ConsoleProcess(broker.namesrv, log_level="info") as found:
            yield found


@pytest.fixture(autouse=True)
def log_says_nothing(console: ConsoleProcess) -> Iterator[None]:
    """Check that strangers make no news."""
    before = console.log
    yield
    assert console.is_running
    assert console.log == before


def source_of(number: int) -> str:
    """Return the loopback address of the browser with that number."""
    return f"127.0.{1 + number // 200}.{1 + number % 200}"


@asynccontextmanager
async def many(
    console: ConsoleProcess, count: int, of_host: int
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Open connections, ``of_host`` from each address; close them at the end."""
    opened = []
    try:
        for number in range(count):
            source = (source_of(number // of_host), 0)
            opened.append(await asyncio.open_connection("127.0.0.1", console.port, local_addr=source))
        yield opened
    finally:
        for _, writer in opened:
            writer.close()


def get(console: ConsoleProcess, path: str = f"/at/{CONTEXT}/about", *more: str) -> bytes:
    head = [f"GET {path} HTTP/1.1", f"Host: {console.host}", *more]
    return ("\r\n".join(head) + "\r\n\r\n").encode()


async def is_served(console: ConsoleProcess, source: str = "127.0.99.1") -> bool:
    status, body = await asyncio.wait_for(console.get("about", source=source), WAIT_S)
    return status == 200 and b"About" in body


@pytest.mark.slow
def test_2000_connections_leave_room_for_others(console: ConsoleProcess) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before = console.rss_bytes()

    async def one_host() -> None:
        async with many(console, OF_HOST, OF_HOST) as held:
            for _, writer in held:
                writer.write(get(console, "/static/none"))
            await asyncio.gather(*(reader.readuntil(b"\r\n\r\n") for reader, _ in held))
            refused = await console.send(b"", source_of(0))
            assert refused.startswith(b"HTTP/1.1 503") and b"Too many connections" in refused
            assert await is_served(console), "another address"

    async def all_hosts() -> None:
        async with many(console, CONNECTIONS, OF_HOST - 1) as held:
            first = [reader.read(12) for reader, _ in held]
            answers = await asyncio.wait_for(asyncio.gather(*first, return_exceptions=True), WAIT_S)
            statuses = {answer for answer in answers if isinstance(answer, bytes)}
            assert statuses <= {b"HTTP/1.1 503", b"HTTP/1.1 408", b""}, statuses
            assert await is_served(console), "once heads did not come in time"

    asyncio.run(one_host())
    asyncio.run(all_hosts())
    assert console.rss_bytes() - before < ABOVE_BYTES_MAX


@pytest.mark.slow
def test_500_streams_some_of_which_never_read(console: ConsoleProcess) -> None:
    before = console.rss_bytes()

    async def work() -> None:
        async with many(console, STREAMS, STREAMS_OF_OWNER_MAX) as held:
            for _, writer in held:
                writer.write(get(console, EVENTS))
            heads = await asyncio.wait_for(
                asyncio.gather(*(reader.readuntil(b"\r\n") for reader, _ in held[::2])), WAIT_S
            )
            assert set(heads) <= {b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 Service Unavailable\r\n"}
            assert sum(head.startswith(b"HTTP/1.1 200") for head in heads) <= STREAM_COUNT_MAX
            assert await is_served(console)
            assert console.rss_bytes() - before < ABOVE_BYTES_MAX

    asyncio.run(work())

    async def comes_back() -> None:
        async with asyncio.timeout(WAIT_S):
            while True:
                answer = b""
                reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
                writer.write(get(console, EVENTS))
                answer = await reader.readuntil(b"\r\n")
                writer.close()
                if b"200" in answer:
                    return

    asyncio.run(comes_back())


# A length that is in doubt: the connection ends, whatever follows.
IN_DOUBT: Final = [
    b"Content-Length: 5\r\nContent-Length: 6\r\n",
    b"Content-Length: 0\r\nContent-Length: 60\r\n",
    b"Content-Length: 0, 60\r\n",
    b"Content-Length: +0\r\n",
    b"Content-Length: 0x0\r\n",
    b"Transfer-Encoding: xchunked\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
    b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n",
    b"X\0: y\r\n",
]
# Two lengths, on continued lines or after bare line feeds, too.
TWO: Final = [
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    b"Content-Length: 4\r\nTransfer-Encoding:\r\n chunked\r\n",
    b"Content-Length: 4\nTransfer-Encoding: chunked\n",
    b"Content-Length:\r\n\t0\r\nTransfer-Encoding: Chunked\r\n",
]


def with_body(console: ConsoleProcess, head: bytes) -> bytes:
    """Return a form with that head and an empty chunk, and another request after it."""
    host = console.host.encode()
    begin = b"POST /at/default/logout HTTP/1.1\r\nHost: " + host + b"\r\nOrigin: http://" + host + b"\r\n"
    form = b"Content-Type: application/x-www-form-urlencoded\r\n"
    return begin + form + head + b"\r\n0\r\n\r\n" + get(console, f"/at/{CONTEXT}/about", "Connection: close")


@pytest.mark.parametrize("head", IN_DOUBT)
def test_a_length_in_doubt_ends_the_connection(console: ConsoleProcess, head: bytes) -> None:
    answer = asyncio.run(asyncio.wait_for(console.send(with_body(console, head)), WAIT_S))
    assert answer.count(b"HTTP/1.1 ") == 1 and answer.startswith(b"HTTP/1.1 400")
    assert b"no HTTP request" in answer


@pytest.mark.parametrize("head", TWO)
def test_two_lengths_end_the_connection(console: ConsoleProcess, head: bytes) -> None:
    answer = asyncio.run(asyncio.wait_for(console.send(with_body(console, head)), WAIT_S))
    assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1 ") == 1
    assert b"and not both" in answer


def test_slow_heads_and_bodies_leave_room_for_others(console: ConsoleProcess) -> None:
    async def work() -> None:
        async with many(console, 2 * OF_HOST, OF_HOST) as held:
            head = get(console, f"/at/{CONTEXT}/login", f"Origin: {console.url}", "Content-Length: 1000000")
            for number, (_, writer) in enumerate(held):
                writer.write(head[:20] if number % 2 else b"POST" + head[3:] + b"x")
            assert await is_served(console)

    asyncio.run(work())


def test_a_change_without_its_token_its_origin_or_its_host_is_none(console: ConsoleProcess) -> None:
    """A frame of another site, a page of another site, and a name that a stranger registered for this machine."""
    form = "Content-Type: application/x-www-form-urlencoded"

    async def post(path: str, *heads: str, host: str = console.host) -> bytes:
        lines = [f"POST /at/{CONTEXT}/{path} HTTP/1.1", f"Host: {host}", "Connection: close", "Content-Length: 9", form]
        return await console.send(("\r\n".join([*lines, *heads]) + "\r\n\r\ntoken=abc").encode())

    async def work() -> None:
        own = f"Origin: {console.url}"
        assert (await post("logout", own)).startswith(b"HTTP/1.1 400")
        assert (await post("logout", own, "Cookie: pymq=x; pymq_default=x")).startswith(b"HTTP/1.1 400")
        for head in ("Origin: null", "Origin: https://evil.example", f"Origin: {console.url}.evil.example", "X: y"):
            assert (await post("logout", head)).startswith(b"HTTP/1.1 403"), head
        assert (await post("login", own, "Sec-Fetch-Site: cross-site")).startswith(b"HTTP/1.1 403")
        assert (await post("login", own, own)).startswith(b"HTTP/1.1 403")
        for host in ("evil.example", f"evil.example:{console.port}", "127.0.0.1", f"{console.host}.", ""):
            assert (await post("login", own, host=host)).startswith(b"HTTP/1.1 421"), host
        page = await console.send(get(console, f"/at/{CONTEXT}/about", "Connection: close"))
        assert b"frame-ancestors 'none'" in page and b"x-frame-options: DENY" in page

    asyncio.run(work())


def test_browsers_that_go_away_at_any_byte(console: ConsoleProcess) -> None:
    data = get(console, f"/at/{CONTEXT}/topics")
    for size in range(0, len(data) + 1, 3):
        with socket.create_connection(("127.0.0.1", console.port)) as found, contextlib.suppress(OSError):
            found.sendall(data[:size])
            if size % 2:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # closes with a reset
    assert asyncio.run(is_served(console))
