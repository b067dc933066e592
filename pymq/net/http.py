"""A small HTTP server for pages that machines read: only GET, one request per connection, a limit on everything.

h11 parses HTTP; this module holds the sockets. It writes a page piece by piece as the page is made. So a page of any
length takes little memory, and a client that does not read its page delays only itself.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus

import h11

from pymq.config.security import is_loopback
from pymq.model.hosts import host_in_header, is_same_host
from pymq.net.buffer_account import BufferAccount
from pymq.net.descriptors import takes_reserved
from pymq.net.listener import Listeners
from pymq.net.memory_budget import METRICS_PAGES, MemoryBudget
from pymq.net.tls import ServerTls

log = logging.getLogger(__name__)

CONNECTION_COUNT_MAX = 32
CONNECTION_COUNT_PER_HOST_MAX = 16
HEAD_SIZE_MAX_BYTES = 8 * 1024  # request line and headers
REQUEST_TIME_MAX_S = 5.0
ANSWER_TIME_MAX_S = 60.0
UNREAD_MAX_BYTES = 64 * 1024  # of a page; beyond it, making the page waits for its reader
BACKLOG = 64
_READ_BYTES = 4096
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """The answer for one path. ``make`` is called for each request; if its first piece fails, the request does.

    ``is_open``: a client needs no token for it.
    """

    content_type: str
    make: Callable[[], AsyncGenerator[bytes]]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits on clients.

    At the connection limit a new one replaces the longest open one that has not sent a request; at that of its host,
    one of that host.
    """

    connection_count_max: int = CONNECTION_COUNT_MAX
    connection_count_per_host_max: int = CONNECTION_COUNT_PER_HOST_MAX
    request_time_max_s: float = REQUEST_TIME_MAX_S
    answer_time_max_s: float = ANSWER_TIME_MAX_S


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """What a server asks of its clients. ``tls`` None: plain connections only. ``token``: "" for none.

    Without a token a request must name the server in its Host header: by the address that it came to, by one of
    loopback, or by a name in ``own_hosts``. A browser's page of another origin, whose name has been pointed to this
    address, names itself.
    """

    tls: ServerTls | None = None
    token: str = ""
    own_hosts: Collection[str] = ()


class _Answering:
    """What one client has not read of its page; a :class:`pymq.net.memory_budget.Holder`."""

    def __init__(self, server: HttpServer, writer: asyncio.StreamWriter, budget: MemoryBudget) -> None:
        peer = writer.get_extra_info("peername")
        self.host: str = peer[0] if peer else ""
        self.task: asyncio.Task[None] | None = None
        self._server = server
        self._transport = writer.transport
        self._buffers = BufferAccount(budget, METRICS_PAGES)

    def write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        unread = self._transport.get_write_buffer_size()
        writer.write(data)
        self._buffers.note_write(unread, len(data))  # over the budget, it may close this connection
        self.held_bytes()

    def held_bytes(self) -> int:
        self._buffers.measure_unread(self._transport)
        return self._buffers.unread

    def abort(self, reason: str) -> None:
        self._server.refused_count += 1
        if self.task is not None:
            self._server.end(self.task)

    def release(self) -> None:
        self._buffers.release()


class HttpServer:
    """Serves ``pages`` by path. Use it from one running event loop."""

    def __init__(
        self,
        pages: Mapping[str, Page],
        access: HttpAccess | None = None,
        *,
        limits: HttpLimits | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        """``access`` None: any client on plain connections. ``budget`` counts what clients have not read."""
        access = access or HttpAccess()
        self._token = access.token.encode()
        self._own_hosts = frozenset(host_in_header(host) for host in access.own_hosts)
        self.refused_count = 0  # connections over the limit, invalid requests, and what the budget closed
        self._budget = budget or MemoryBudget()
        self._pages = pages
        self._limits = limits or HttpLimits()
        self._listeners = Listeners(self._make_protocol, access.tls, self._count_refused)
        self._serving: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, _Answering]] = {}
        self._asking: dict[asyncio.Task[None], None] = {}  # those without a request so far, the oldest first

    def _holders(self) -> list[_Answering]:
        return [answering for _, answering in self._serving.values()]

    @property
    def open_count(self) -> int:
        """The number of open connections."""
        return len(self._serving)

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (0: any free port) and return the port. Raises OSError."""
        bound = await self._listeners.open(host, port, BACKLOG)
        self._budget.add_holders(self._holders)
        return bound

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        self._listeners.close()
        self._budget.remove_holders(self._holders)
        tasks = list(self._serving)
        for task in tasks:
            self.end(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _make_protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=HEAD_SIZE_MAX_BYTES), self._accept)

    def _has_room(self, host: str) -> bool:
        """Return whether a host may open one more connection, perhaps in place of one that has not sent a request."""
        limits, is_full = self._limits, len(self._serving) >= self._limits.connection_count_max
        of_host = [task for task, (_, answering) in self._serving.items() if answering.host == host]
        if len(of_host) >= limits.connection_count_per_host_max or not self._budget.hosts.has_room(host):
            replaced = next((task for task in self._asking if task in of_host), None)
        elif is_full:
            replaced = next(iter(self._asking), None)
        else:
            return True
        if replaced is None:
            return False
        self.refused_count += 1
        self.end(replaced)
        return True

    def _count_refused(self, reason: str, address: str, text: str) -> None:
        self.refused_count += 1

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering = _Answering(self, writer, self._budget)
        if takes_reserved(writer.transport) or not self._has_room(answering.host):
            self.refused_count += 1
            writer.transport.abort()
            return
        self._budget.hosts.opened(answering.host)
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer, answering))
        answering.task = task
        self._serving[task] = writer, answering
        self._asking[task] = None
        task.add_done_callback(self.end)

    def end(self, task: asyncio.Task[None]) -> None:
        """Close a connection, at any stage of its task."""
        self._asking.pop(task, None)
        serving = self._serving.pop(task, None)
        if serving is not None:
            writer, answering = serving
            answering.release()
            self._budget.hosts.closed(answering.host)
            task.cancel()
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answering: _Answering) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_SIZE_MAX_BYTES)
        writer.transport.set_write_buffer_limits(high=UNREAD_MAX_BYTES)
        try:
            async with asyncio.timeout(self._limits.request_time_max_s):
                request = await _read_request(http, reader)
            self._asking.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
            async with asyncio.timeout(self._limits.answer_time_max_s):
                await self._answer(http, request, writer, answering)
                await _close(writer)
        except h11.RemoteProtocolError as error:
            self.refused_count += 1
            with suppress(OSError, TimeoutError, h11.LocalProtocolError):
                async with asyncio.timeout(self._limits.request_time_max_s):
                    await _write_short(http, writer, error.error_status_hint, "this request can't be read")
                    await _close(writer)
        except (OSError, TimeoutError, EOFError):
            pass  # the client is slow or has left
        except Exception:
            log.exception("a page could not be made")

    async def _answer(
        self, http: h11.Connection, request: h11.Request, writer: asyncio.StreamWriter, answering: _Answering
    ) -> None:
        if request.method != b"GET":
            await _write_short(http, writer, 405, "only GET is served here", [("Allow", "GET")])
            return
        page = self._pages.get(request.target.partition(b"?")[0].decode("latin-1"))
        if page is None:
            await _write_short(http, writer, 404, f"there is {' and '.join(sorted(self._pages))}")
            return
        if self._token and not page.is_open and not _has_token(request, self._token):
            self.refused_count += 1
            await _write_short(http, writer, 401, "a bearer token is needed", [("WWW-Authenticate", "Bearer")])
            return
        if not self._token and not page.is_open and not self._is_named(request, writer):
            self.refused_count += 1
            text = "the Host header names another server: ask for this address, or list the name (metricsAllowedHosts)"
            await _write_short(http, writer, HTTPStatus.MISDIRECTED_REQUEST, text)
            return
        await self._write_page(http, page, writer, answering)

    def _is_named(self, request: h11.Request, writer: asyncio.StreamWriter) -> bool:
        """Return whether the Host header is this server's; a request of HTTP 1.0 may have none, a browser's has one."""
        hosts = [host_in_header(value.decode("latin-1")) for name, value in request.headers if name == b"host"]
        came_to = writer.get_extra_info("sockname")[0].partition("%")[0].lower()
        return all(host in self._own_hosts or is_loopback(host) or is_same_host(host, came_to) for host in hosts)

    async def _write_page(
        self, http: h11.Connection, page: Page, writer: asyncio.StreamWriter, answering: _Answering
    ) -> None:
        async with aclosing(page.make()) as pieces:
            try:
                first = await anext(pieces, b"")
            except Exception:
                log.exception("a page could not be made")
                await _write_short(http, writer, 500, "the page could not be made, the log says why")
                return
            _send(http, writer, _response(200, page.content_type))
            await _write_piece(http, writer, first, answering)
            async for piece in pieces:
                await _write_piece(http, writer, piece, answering)
            _send(http, writer, h11.EndOfMessage())


def _has_token(request: h11.Request, token: bytes) -> bool:
    """Return whether a request shows this token. The time that it takes tells nothing of the token."""
    values = [value for name, value in request.headers if name == b"authorization"]
    scheme, _, shown = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
    return scheme.lower() == b"bearer" and hmac.compare_digest(shown.strip(), token)


async def _read_request(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request:
    """Read the head of a request; don't wait for a body. Raises RemoteProtocolError, EOFError, OSError."""
    received_bytes = 0
    while True:
        event = http.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            raise EOFError
        data = await reader.read(_READ_BYTES)
        received_bytes += len(data)
        if not data:
            raise EOFError
        if received_bytes > HEAD_SIZE_MAX_BYTES:
            raise h11.RemoteProtocolError("the request's head is too long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        http.receive_data(data)


async def _write_piece(http: h11.Connection, writer: asyncio.StreamWriter, piece: bytes, answering: _Answering) -> None:
    data = http.send(h11.Data(data=piece))
    if data:
        answering.write(writer, data)
    await writer.drain()
    answering.held_bytes()


async def _write_short(
    http: h11.Connection,
    writer: asyncio.StreamWriter,
    status: int,
    text: str,
    headers: list[tuple[str, str]] | None = None,
) -> None:
    body = text.encode() + b"\n"
    _send(http, writer, _response(status, _PLAIN, ("Content-Length", str(len(body))), *(headers or [])))
    _send(http, writer, h11.Data(data=body))
    _send(http, writer, h11.EndOfMessage())
    await writer.drain()


def _response(status: int, content_type: str, *more: tuple[str, str]) -> h11.Response:
    headers = [("Content-Type", content_type), ("Connection", "close"), *more]
    return h11.Response(status_code=status, reason=HTTPStatus(status).phrase.encode(), headers=headers)


def _send(http: h11.Connection, writer: asyncio.StreamWriter, event: h11.Event) -> None:
    data = http.send(event)
    if data:
        writer.write(data)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close once the peer has taken what was written."""
    writer.close()
    await writer.wait_closed()
