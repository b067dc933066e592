"""The small HTTP server: pages by GET. A client that is slow, over a limit or not HTTP harms only itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from pymq.net.http import HEAD_SIZE_MAX_BYTES, UNREAD_MAX_BYTES, HttpAccess, HttpLimits, HttpServer, Page
from pymq.net.memory_budget import METRICS_PAGES, MemoryBudget

PIECES = [b"one\n", b"two\n"]
BIG_PIECE = b"x" * 65_536
BIG_PIECES = 400  # more than the sockets' buffers take


class Pages:
    """The pages of the server under test."""

    def __init__(self) -> None:
        self.made_pieces = 0
        self.begun_count = 0

    async def short(self) -> AsyncGenerator[bytes]:
        for piece in PIECES:
            yield piece

    async def big(self) -> AsyncGenerator[bytes]:
        self.begun_count += 1
        for _ in range(BIG_PIECES):
            self.made_pieces += 1
            yield BIG_PIECE

    async def broken(self) -> AsyncGenerator[bytes]:
        raise RuntimeError("made to fail")
        yield b""

    async def torn(self) -> AsyncGenerator[bytes]:
        yield b"begun\n"
        raise RuntimeError("made to fail half way")

    def table(self) -> dict[str, Page]:
        makers = {"/short": self.short, "/big": self.big, "/broken": self.broken, "/torn": self.torn}
        return {path: Page("text/plain", maker) for path, maker in makers.items()}


Talk = Callable[[HttpServer, int, Pages], Awaitable[None]]


def serve(
    talk: Talk,
    limits: HttpLimits | None = None,
    budget: MemoryBudget | None = None,
    access: HttpAccess | None = None,
) -> None:
    """Run ``talk`` beside a server."""

    async def main() -> None:
        pages = Pages()
        server = HttpServer(pages.table(), access, limits=limits, budget=budget)
        port = await server.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(30):
                await talk(server, port, pages)
        finally:
            await server.stop()

    asyncio.run(main())


async def say(port: int, request: bytes) -> bytes:
    """Send a request and return the whole answer; empty when the connection ended without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await rest(reader)
    writer.close()
    return answer


async def until(condition: Callable[[], object]) -> None:
    """Let the server run until the condition holds; the test's time limit ends an endless wait."""
    while True:
        if condition():
            return
        await asyncio.sleep(0)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes until the connection ends in any way."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def get(port: int, path: str) -> bytes:
    return await say(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


def test_a_page_is_sent_in_chunks() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        head, _, body = (await get(port, "/short?with=query")).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK") and b"Transfer-Encoding: chunked" in head
        assert body == b"4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"

    serve(talk)


def test_an_http_1_0_client_gets_a_page_ended_by_the_connection() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        answer = await say(port, b"GET /short HTTP/1.0\r\n\r\n")
        assert answer.endswith(b"\r\n\r\none\ntwo\n")

    serve(talk)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /nothing", b"404 Not Found"),
        ("POST /short", b"405 Method Not Allowed"),
        ("HEAD /short", b"405 Method Not Allowed"),
        ("GET /broken", b"500 Internal Server Error"),
    ],
)
def test_unserved_requests_get_an_error_status(request_line: str, status: bytes) -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        answer = await say(port, f"{request_line} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 " + status)

    serve(talk)


def test_other_paths_are_named() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        assert b"/big and /broken and /short and /torn" in await get(port, "/")

    serve(talk)


def test_a_page_that_fails_half_way_stays_unterminated() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        answer = await get(port, "/torn")
        assert not answer.endswith(b"0\r\n\r\n"), "a client would take it for a complete page"

    serve(talk)


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 100, b"GET\r\n\r\n", b"GET /sh\x01rt HTTP/1.1\r\n\r\n"],
)
def test_garbage_is_refused(garbage: bytes) -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(garbage)
        writer.write_eof()
        answer = await rest(reader)
        assert answer.startswith(b"HTTP/1.1 400") or not answer
        writer.close()
        assert PIECES[0] in await get(port, "/short")

    serve(talk)


@pytest.mark.parametrize(("size", "is_served"), [(HEAD_SIZE_MAX_BYTES - 100, True), (HEAD_SIZE_MAX_BYTES + 100, False)])
def test_an_overlong_request_is_refused(size: int, is_served: bool) -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        answer = await say(port, b"GET /short HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * size + b"\r\n\r\n")
        assert (PIECES[0] in answer) is is_served
        assert server.refused_count == (not is_served)

    serve(talk)


def test_a_silent_client_is_disconnected() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /sh")
        assert await rest(reader) == b""
        writer.close()

    serve(talk, HttpLimits(request_time_max_s=0.05))


def test_over_the_limit_the_longest_idle_connection_is_closed() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await until(lambda: server.open_count == 2)
        assert PIECES[0] in await get(port, "/short")
        assert server.refused_count == 1
        assert await rest(idle[0][0]) == b""
        await until(lambda: server.open_count == 1)
        idle[1][1].write(b"GET /short HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert PIECES[0] in await rest(idle[1][0])
        for _, writer in idle:
            writer.close()

    serve(talk, HttpLimits(connection_count_max=2))


def test_over_the_limit_of_an_address_one_of_its_own_is_closed() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await until(lambda: server.open_count == 2)
        assert PIECES[0] in await get(port, "/short")
        assert await rest(idle[0][0]) == b"", "the longest idle one of the address made room"
        assert server.refused_count == 1
        for _, writer in idle:
            writer.close()

    serve(talk, HttpLimits(connection_count_max=9, connection_count_per_host_max=2))


def test_over_the_limit_new_connections_are_closed_while_all_others_read() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        reading = [await asyncio.open_connection("127.0.0.1", port, limit=1024) for _ in range(2)]
        for _, writer in reading:
            writer.write(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: pages.begun_count == 2)
        assert await get(port, "/short") == b""
        assert server.refused_count == 1
        for _, writer in reading:
            writer.transport.abort()
        await until(lambda: not server.open_count)
        assert PIECES[0] in await get(port, "/short")

    serve(talk, HttpLimits(connection_count_max=2))


def test_a_client_that_does_not_read_delays_only_itself() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        slow = socket.create_connection(("127.0.0.1", port))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: pages.made_pieces)
        for _ in range(20):
            assert PIECES[0] in await get(port, "/short")
        assert pages.made_pieces < BIG_PIECES, "the page waits for its reader"
        slow.close()

    serve(talk)


def test_slow_readers_are_disconnected() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: server.open_count)
        await until(lambda: not server.open_count)
        assert pages.made_pieces < BIG_PIECES
        writer.close()

    serve(talk, HttpLimits(answer_time_max_s=0.2))


def test_a_stop_closes_open_connections() -> None:
    async def main() -> None:
        server = HttpServer(Pages().table())
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: server.open_count)
        await server.stop()
        assert await rest(reader) == b""
        writer.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(main())


@pytest.mark.parametrize(("limit_bytes", "is_closed"), [(64 << 20, False), (UNREAD_MAX_BYTES, True)])
def test_what_a_client_has_not_read_counts_in_the_memory_budget(limit_bytes: int, is_closed: bool) -> None:
    budget = MemoryBudget(limit_bytes)

    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        slow = socket.create_connection(("127.0.0.1", port))
        slow.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if is_closed:
            await until(lambda: budget.closed_count == 1 and server.open_count == 0)
            assert server.refused_count == 1
        else:
            await until(lambda: budget.held[METRICS_PAGES] > UNREAD_MAX_BYTES)
            assert budget.total_bytes <= 2 * UNREAD_MAX_BYTES + 2 * len(BIG_PIECE)
        slow.close()
        await until(lambda: server.open_count == 0)
        assert budget.total_bytes == 0

    serve(talk, budget=budget)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Authorization: Bearer secret-token\r\n", 200),
        ("authorization: bearer secret-token\r\n", 200),
        ("", 401),
        ("Authorization: Bearer secret-toke\r\n", 401),
        ("Authorization: Bearer secret-token2\r\n", 401),
        ("Authorization: Basic secret-token\r\n", 401),
        ("Authorization: secret-token\r\n", 401),
        ("Authorization: Bearer\r\n", 401),
        ("Authorization: Bearer wrong\r\nAuthorization: Bearer secret-token\r\n", 401),
    ],
)
def test_a_server_with_a_token_answers_only_those_that_show_it(headers: str, status: int) -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        answer = await say(port, f"GET /short HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert (b"WWW-Authenticate: Bearer" in answer) == (status == 401)
        assert server.refused_count == (status == 401)
        assert b"secret" not in answer

    serve(talk, access=HttpAccess(token="secret-token"))


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        ("Host: localhost", 200),
        ("host: LocalHost.:5557", 200),
        ("Host: 127.0.0.1:5557", 200),
        ("Host: 127.9.9.9", 200),
        ("Host: [::1]:5557", 200),
        ("Host: broker-1.example:5557", 200),
        ("Host: BROKER-1.example.", 200),
        ("Host: evil.example", 421),
        ("Host: broker-1.example.evil.example", 421),
        ("Host: 127.0.0.1.evil.example", 421),
        ("Host: localhost.evil.example:5557", 421),
        ("Host: 192.0.2.1", 421),
        ("Host: [2001:db8::1]:5557", 421),
        ("Host: ", 421),
        ("Host: localhost\r\nHost: evil.example", 400),
    ],
)
def test_a_request_without_a_token_names_this_server(hosts: str, status: int) -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        answer = await say(port, f"GET /short HTTP/1.1\r\n{hosts}\r\n\r\n".encode())
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert server.refused_count == (status != 200)
        assert (b"list the name (metricsAllowedHosts)" in answer) == (status == 421)

    serve(talk, access=HttpAccess(own_hosts=("broker-1.example",)))


def test_who_shows_the_token_may_call_the_server_what_it_likes() -> None:
    async def talk(server: HttpServer, port: int, pages: Pages) -> None:
        shown = "Host: any.example\r\nAuthorization: Bearer secret-token"
        assert (await say(port, f"GET /short HTTP/1.1\r\n{shown}\r\n\r\n".encode())).startswith(b"HTTP/1.1 200 ")

    serve(talk, access=HttpAccess(token="secret-token"))


def test_an_open_page_needs_no_token() -> None:
    async def made() -> AsyncGenerator[bytes]:
        yield b"here"

    async def scenario() -> None:
        server = HttpServer({"/health": Page("text/plain", made, is_open=True)}, HttpAccess(token="secret-token"))
        port = await server.start("127.0.0.1", 0)
        try:
            assert (await say(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")).endswith(b"here\r\n0\r\n\r\n")
        finally:
            await server.stop()

    asyncio.run(scenario())
