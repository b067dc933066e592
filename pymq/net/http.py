"""A small HTTP server for pages that are read by machines: GET alone, one request a connection, everything limited.

h11 speaks HTTP, this holds the sockets. Pages are written piece by piece as they are made, so a page of any length
takes little memory, and a client that does not read its page holds up nothing but itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus

import h11

log = logging.getLogger(__name__)

CONNECTION_COUNT_MAX = 32
HEAD_SIZE_MAX_BYTES = 8 * 1024  # request line and headers
REQUEST_TIME_MAX_S = 5.0
ANSWER_TIME_MAX_S = 60.0
UNREAD_MAX_BYTES = 64 * 1024  # of a page, before making it waits for its reader
BACKLOG = 64
_READ_BYTES = 4096
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """What a path answers. ``make`` is called for each request; the first piece decides whether it succeeds."""

    content_type: str
    make: Callable[[], AsyncGenerator[bytes]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What clients are allowed. Over the number of connections the one goes that has asked nothing for longest."""

    connection_count_max: int = CONNECTION_COUNT_MAX
    request_time_max_s: float = REQUEST_TIME_MAX_S
    answer_time_max_s: float = ANSWER_TIME_MAX_S


class HttpServer:
    """Serves ``pages`` by path. Use it from one running event loop."""

    def __init__(self, pages: Mapping[str, Page], limits: HttpLimits | None = None) -> None:
        self.refused_count = 0  # connections over the limit, and requests that were none
        self._pages = pages
        self._limits = limits or HttpLimits()
        self._listener: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._asking: dict[asyncio.Task[None], None] = {}  # those whose request has not come yet, the oldest first

    @property
    def open_count(self) -> int:
        """Connections that are served now."""
        return len(self._serving)

    async def start(self, host: str, port: int) -> int:
        """Listens on ``host:port`` (0: any free one) and returns the port. Raises OSError."""
        self._listener = await asyncio.start_server(
            self._accept, host, port, limit=HEAD_SIZE_MAX_BYTES, backlog=BACKLOG
        )
        bound: int = self._listener.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stops listening and ends every connection."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        tasks = list(self._serving)
        for task in tasks:
            self._end(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= self._limits.connection_count_max:
            self.refused_count += 1
            if not self._asking:
                writer.transport.abort()
                return
            self._end(next(iter(self._asking)))
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving[task] = writer
        self._asking[task] = None
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """Ends a connection, whether or not its task has begun, or is over."""
        self._asking.pop(task, None)
        writer = self._serving.pop(task, None)
        if writer is not None:
            task.cancel()
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_SIZE_MAX_BYTES)
        writer.transport.set_write_buffer_limits(high=UNREAD_MAX_BYTES)
        try:
            async with asyncio.timeout(self._limits.request_time_max_s):
                request = await _read_request(http, reader)
            self._asking.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
            async with asyncio.timeout(self._limits.answer_time_max_s):
                await self._answer(http, request, writer)
                await _close(writer)
        except h11.RemoteProtocolError as error:
            self.refused_count += 1
            with suppress(OSError, TimeoutError, h11.LocalProtocolError):
                async with asyncio.timeout(self._limits.request_time_max_s):
                    await _write_short(http, writer, error.error_status_hint, "this is no request that can be read")
                    await _close(writer)
        except (OSError, TimeoutError, EOFError):
            pass  # the client's own doing: it is slow, or has left
        except Exception:
            log.exception("a page could not be made")

    async def _answer(self, http: h11.Connection, request: h11.Request, writer: asyncio.StreamWriter) -> None:
        if request.method != b"GET":
            await _write_short(http, writer, 405, "only GET is served here", [("Allow", "GET")])
            return
        page = self._pages.get(request.target.partition(b"?")[0].decode("latin-1"))
        if page is None:
            await _write_short(http, writer, 404, f"there is {' and '.join(sorted(self._pages))}")
            return
        async with aclosing(page.make()) as pieces:
            try:
                first = await anext(pieces, b"")
            except Exception:
                log.exception("a page could not be made")
                await _write_short(http, writer, 500, "the page could not be made, the log says why")
                return
            _send(http, writer, _response(200, page.content_type))
            await _write_piece(http, writer, first)
            async for piece in pieces:
                await _write_piece(http, writer, piece)
            _send(http, writer, h11.EndOfMessage())


async def _read_request(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request:
    """Its head; a body is not waited for. Raises RemoteProtocolError, EOFError, OSError."""
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


async def _write_piece(http: h11.Connection, writer: asyncio.StreamWriter, piece: bytes) -> None:
    _send(http, writer, h11.Data(data=piece))
    await writer.drain()


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
    """Once what was written has been taken."""
    writer.close()
    await writer.wait_closed()
