"""Serves an ASGI application with uvicorn, within limits that uvicorn doesn't have.

The head of a request must come within a time, an answer must be read, a host may have so many connections, and an
answer that is made before the application sees the request has the same headers as all others.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pymq.console.web.asgi import TEXT, App
from pymq.console.web.headers import ALWAYS

HEAD_TIMEOUT_S: Final = 5.0
HEAD_BYTES_MAX: Final = 16 * 1024
KEEP_ALIVE_S: Final = 30
STOP_TIMEOUT_S: Final = 5
# How long a browser may take nothing of an answer, before its connection ends.
UNREAD_TIMEOUT_S: Final = 30.0
BACKLOG: Final = 128


@dataclass(frozen=True)
class ServingLimits:
    """How much all browsers together may hold open.

    ``head_timeout_s``: from the first byte that is expected; also for the rest of a body after its answer.
    ``unread_timeout_s``: how long a browser may take nothing of its answer.
    """

    head_timeout_s: float = HEAD_TIMEOUT_S
    unread_timeout_s: float = UNREAD_TIMEOUT_S
    connection_count_max: int = 1000
    connection_count_of_host_max: int = 100


class LimitedProtocol(H11Protocol):
    """One connection. It is closed when there are too many, when a head or a rest doesn't come in time, and when nobody
    reads.
    """

    limits = ServingLimits()
    hosts: dict[str, int]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._rest_timer: asyncio.TimerHandle | None = None
        self._counted: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1)  # what the system does not take counts as unread; TLS stops at 0
        host = self.client[0] if self.client else ""
        self.hosts[host] = self.hosts.get(host, 0) + 1
        self._counted = host
        if (
            len(self.connections) > self.limits.connection_count_max
            or self.hosts[host] > self.limits.connection_count_of_host_max
        ):
            self._refuse(503, "Too many connections are open: close some pages, and load this one again.")
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end_head()
        self._end_rest()
        self._end_unread()
        if self._counted is not None:
            self.hosts[self._counted] -= 1
            if not self.hosts[self._counted]:
                del self.hosts[self._counted]
            self._counted = None

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.our_state is not h11.DONE:
            self._end_rest()
        if self.conn.their_state is not h11.IDLE:
            self._end_head()
        elif self._head_timer is None:
            self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self._head_timer is None and self.conn.trailing_data[0]:
            self._expect_head()  # the begin of the next request came with this one
        if not self.transport.is_closing() and self.conn.their_state is h11.SEND_BODY:
            # Nothing else waits for the rest of a body that was answered before its end.
            self._rest_timer = self.loop.call_later(self.limits.head_timeout_s, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_unread()

    def _expect_reading(self) -> None:
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self.limits.unread_timeout_s, self._look_whether_read)

    def _look_whether_read(self) -> None:
        if self.transport.get_write_buffer_size() < self._unread_bytes:
            self._expect_reading()
        else:
            self.transport.abort()

    def _end_unread(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _end_rest(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.head_timeout_s, self._give_up)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._refuse(408, f"The head of the request did not come within {self.limits.head_timeout_s:g} s.")

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "This is no HTTP request that can be read.")

    def _refuse(self, status: int, text: str) -> None:
        """Answer without the application, and close."""
        body = text.encode() + b"\n"
        headers = [
            *ALWAYS.items(),
            (b"cache-control", b"no-store"),
            (b"content-type", TEXT),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        head = b"".join(b"%b: %b\r\n" % each for each in headers)
        self.transport.write(b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, _PHRASES[status], head, body))
        self.transport.close()


_PHRASES: Final = {400: b"Bad Request", 408: b"Request Timeout", 503: b"Service Unavailable"}


class _Server(uvicorn.Server):
    """uvicorn's server. The process's own handlers of signals stay."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(
    app: App, listener: socket.socket, *, tls: SSLContext | None = None, limits: ServingLimits | None = None
) -> AsyncIterator[None]:
    """Serve ``app`` on a listening socket during the ``with`` block.

    At its end, answers on their way have :data:`STOP_TIMEOUT_S` seconds; then they are cancelled.
    """
    # What strangers send is no news, and what pages do is in the audit.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    protocol = type(
        "Protocol", (LimitedProtocol,), {"limits": limits or ServingLimits(), "hosts": {}}
    )  # counts of one server
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=True,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
        backlog=BACKLOG,
    )
    config.load()
    if tls is not None:
        config.ssl = tls
    server = _Server(config)
    running = asyncio.get_running_loop().create_task(server.serve([listener]))
    try:
        while not server.started:
            if running.done():
                running.result()
            await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(running, return_exceptions=True)
