"""The server's own limits, over sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest

from pymq.console.web.asgi import Receive, Scope, Send, answer_text
from pymq.console.web.headers import ALWAYS, Headers
from pymq.console.web.serving import HEAD_BYTES_MAX, ServingLimits, serving
from tests.certificates import certificates

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
WAIT_S = 30

Client = Callable[[int], Awaitable[None]]


async def says_hello(scope: Scope, receive: Receive, send: Send) -> None:
    await answer_text(send, 200, "hello")


async def never_ends(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x", "more_body": True})
    await asyncio.Event().wait()


def run(client: Client, limits: ServingLimits | None = None, app: object = says_hello) -> None:
    async def serve() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serving(Headers(app), listener, limits=limits):  # type: ignore[arg-type]
            await asyncio.wait_for(client(listener.getsockname()[1]), WAIT_S)

    asyncio.run(serve())


async def ask(port: int, data: bytes) -> bytes:
    """Return all that comes until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    finally:
        writer.close()


def test_pages_are_served_and_connections_kept() -> None:
    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(GET)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert b"server:" not in head.lower()
            assert await reader.readexactly(6) == b"hello\n"
        writer.close()

    run(client)


@pytest.mark.parametrize("begin", [b"", b"GET / HT", GET + b"GET /again"])
def test_a_head_that_does_not_come_ends_the_connection(begin: bytes) -> None:
    async def client(port: int) -> None:
        answer = await ask(port, begin)
        assert b"HTTP/1.1 408" in answer
        assert b"within 0.05 s" in answer

    run(client, ServingLimits(head_timeout_s=0.05))


def test_a_head_that_comes_byte_by_byte_ends_too() -> None:
    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = asyncio.ensure_future(reader.read())
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        while not answer.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        # What was still on its way may have reset the connection before the answer was read.
        assert isinstance(answer.exception(), ConnectionResetError) or b"HTTP/1.1 408" in answer.result()
        writer.close()

    run(client, ServingLimits(head_timeout_s=0.1))


@pytest.mark.parametrize(
    "data",
    [
        b"HELLO\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked, x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nX : y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\nhello",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        bytes.fromhex("16030100c8010000c4"),
    ],
)
def test_what_is_no_request_is_answered_with_all_headers(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def client(port: int) -> None:
        answer = await ask(port, data)
        assert answer.startswith(b"HTTP/1.1 400")
        for name, value in ALWAYS.items():
            assert name + b": " + value in answer
        assert await ask(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    run(client)
    assert not caplog.records


def deaf(port: int) -> socket.socket:
    """Return a connection that takes next to nothing."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.connect(("127.0.0.1", port))
    return found


async def says_much(scope: Scope, receive: Receive, send: Send) -> None:
    await answer_text(send, 200, "x" * 20_000_000)


@pytest.mark.parametrize("data", [GET, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")])
def test_an_answer_that_nobody_reads_ends_the_connection(data: bytes) -> None:
    async def client(port: int) -> None:
        with deaf(port) as found:
            found.sendall(data)
            # The one place is taken until the server gives it up.
            while b"HTTP/1.1 503" in await ask(port, b""):
                pass

    run(client, ServingLimits(unread_timeout_s=0.2, connection_count_of_host_max=1, head_timeout_s=0.5), says_much)


def test_an_answer_that_is_read_slowly_comes_whole() -> None:
    async def client(port: int) -> None:
        with deaf(port) as found:
            found.sendall(GET)
            found.setblocking(False)
            size = 0
            while size < 1_000_000:
                size += len(await asyncio.get_running_loop().sock_recv(found, 64 * 1024))

    async def says_some(scope: Scope, receive: Receive, send: Send) -> None:
        await answer_text(send, 200, "x" * 1_000_000)

    run(client, ServingLimits(unread_timeout_s=0.2), says_some)


@pytest.mark.parametrize("more", [b"", b"x"])
def test_a_body_that_does_not_end_after_its_answer_ends_the_connection(more: bytes) -> None:
    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        await reader.readuntil(b"hello\n")
        writer.write(more)
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        writer.close()

    run(client, ServingLimits(head_timeout_s=0.2))


def test_a_body_that_ends_after_its_answer_keeps_the_connection() -> None:
    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
            await reader.readuntil(b"hello\n")
            writer.write(b"x" * 10)
        writer.write(GET)
        await reader.readuntil(b"hello\n")
        writer.close()

    run(client, ServingLimits(head_timeout_s=1))


def test_one_host_has_so_many_connections_and_gets_a_place_back() -> None:
    async def client(port: int) -> None:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in held:  # they are counted once they are answered
            writer.write(GET)
        for reader, _ in held:
            await reader.readuntil(b"hello\n")
        assert b"HTTP/1.1 503" in await ask(port, b"")
        held[0][1].close()
        await held[0][1].wait_closed()
        answer = b"HTTP/1.1 503"
        while b"HTTP/1.1 503" in answer:  # until the server has seen that the other one is closed
            answer = await ask(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert answer.endswith(b"hello\n")
        held[1][1].close()

    run(client, ServingLimits(connection_count_of_host_max=2))


def test_a_stop_ends_answers_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.console.web.serving.STOP_TIMEOUT_S", 0.1)

    async def serve() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serving(Headers(never_ends), listener):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
            writer.write(GET)
            await reader.readuntil(b"x")
        assert await asyncio.wait_for(reader.read(), WAIT_S) is not None
        writer.close()

    asyncio.run(serve())


def test_a_page_comes_by_tls() -> None:
    files = certificates()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.server.cert_path, files.server.key_path)
    trusts = ssl.create_default_context(cafile=files.ca_path)

    async def serve() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serving(Headers(says_hello), listener, tls=tls):
            port = listener.getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusts, server_hostname="localhost")
            writer.write(GET)
            assert (await reader.readuntil(b"hello\n")).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(serve())
