"""Listeners: accepts connections, with TLS and without on the same port, as RocketMQ's servers do.

The first byte that a client sends decides, HELLO_BYTE stands for TLS. The listener looks at it and leaves it in the
socket, so a plain connection and the TLS of the event loop both begin as if nothing had happened. Every client of a
PyMQ port speaks first.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from pymq.model.hosts import format_address, host_of
from pymq.net.descriptors import descriptor_limit, is_reserved
from pymq.net.tls import HANDSHAKE_TIMEOUT_S, HELLO_BYTE, ServerTls, handshake_text

log = logging.getLogger(__name__)

# Connections that have sent nothing so far; a further one closes the oldest of the host that has most of them.
SILENT_COUNT_MAX = 1_000
SILENT_MAX_S = 30.0  # time for the first byte
# TLS handshakes of one host at a time: each takes up to 300 KiB, and HANDSHAKE_TIMEOUT_S if the client is silent.
# Further ones wait for their turn, and beyond HANDSHAKES_WAITING_MAX they are refused.
HANDSHAKES_OF_HOST = 64
HANDSHAKES_WAITING_MAX = 1_000
# Silent connections take a part of the descriptors at most, as the handshakes of one host that wait: a process has
# several ports.
DESCRIPTOR_SHARE = 16
SWEEP_PERIOD_S = 1.0
ACCEPTS_PER_ROUND = 128  # of the event loop
RETRY_S = 1.0  # after the process or the system had no descriptor left
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

MakeProtocol = Callable[[], asyncio.BaseProtocol]
# Takes why a connection was not accepted ("tls-handshake", "no-tls", …), its address and a text.
OnRefused = Callable[[str, str, str], None]


class Listeners:
    """The addresses that one server listens on."""

    def __init__(self, make_protocol: MakeProtocol, tls: ServerTls | None, on_refused: OnRefused | None = None) -> None:
        """``make_protocol`` makes the protocol of each accepted connection; ``tls`` None: the ports take no TLS."""
        self._make_protocol = make_protocol
        self._tls = tls
        self._on_refused = on_refused or _ignore
        self._open: list[_Gate | asyncio.Server] = []

    async def open(self, host: str, port: int, backlog: int, *, is_shared: bool = False) -> int:
        """Listen on ``host:port`` (0: any free port) and return the port. Raises OSError.

        ``is_shared``: other processes of this user listen there as well; each connection goes to one of them.
        """
        loop = asyncio.get_running_loop()
        if self._tls is None:
            shared = is_shared or None
            server = await loop.create_server(self._make_protocol, host, port, backlog=backlog, reuse_port=shared)
            self._open.append(server)
            bound: int = server.sockets[0].getsockname()[1]
            return bound
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        gates: list[_Gate] = []
        try:
            for family, _, _, _, address in dict.fromkeys(addresses):
                endpoint = socket.create_server(address[:2], family=family, backlog=backlog, reuse_port=is_shared)
                gates.append(_Gate(loop, endpoint, self._make_protocol, self._tls, self._on_refused))
        except OSError:
            for gate in gates:
                gate.close()
            raise
        self._open += gates
        return gates[0].port

    def close(self) -> None:
        """Stop listening. Accepted connections stay."""
        for each in self._open:
            each.close()
        self._open.clear()


class _Handshakes:
    """The open and the waiting TLS handshakes of one host."""

    def __init__(self) -> None:
        self.count = 0
        self.turn = asyncio.Semaphore(HANDSHAKES_OF_HOST)


class _Silent(NamedTuple):
    """A connection that has sent nothing so far."""

    host: str
    end_s: float  # when its time is over, by the loop's clock


class _Gate:
    """One listening socket, and the connections that have sent nothing so far."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: socket.socket,
        make_protocol: MakeProtocol,
        tls: ServerTls,
        on_refused: OnRefused,
    ) -> None:
        endpoint.setblocking(False)
        self.port: int = endpoint.getsockname()[1]
        self._loop = loop
        self._endpoint = endpoint
        self._make_protocol = make_protocol
        self._tls = tls
        self._on_refused = on_refused
        self._silent: dict[socket.socket, _Silent] = {}  # the oldest first
        self._silent_counts: Counter[str] = Counter()  # by host
        self._opening: set[asyncio.Task[None]] = set()
        self._handshakes: dict[str, _Handshakes] = {}  # by host
        self._is_closed = False
        self._resume()
        self._sweeper = loop.call_later(SWEEP_PERIOD_S, self._sweep)

    def close(self) -> None:
        """Stop listening; drop connections whose kind is not known yet. Handshakes go on."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._endpoint)
        self._endpoint.close()
        self._sweeper.cancel()
        for each in list(self._silent):
            self._drop(each)

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._endpoint, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_ROUND):
            try:
                accepted, address = self._endpoint.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR:
                    raise
                log.error("no connection is accepted for %g s: %s", RETRY_S, error.strerror)
                self._loop.remove_reader(self._endpoint)
                self._loop.call_later(RETRY_S, self._resume)
                return
            accepted.setblocking(False)
            if is_reserved(accepted.fileno()):
                self._refuse(accepted, "descriptors", "the process has no descriptor left for it")
                continue
            if len(self._silent) >= _within_share(SILENT_COUNT_MAX):
                self._make_room()
            host = address[0]
            self._silent[accepted] = _Silent(host, self._loop.time() + SILENT_MAX_S)
            self._silent_counts[host] += 1
            self._loop.add_reader(accepted, self._look, accepted)

    def _make_room(self) -> None:
        """Close a silent connection for a new one, unless it has spoken by now: the loop has not looked yet."""
        [(host, count)] = self._silent_counts.most_common(1)
        oldest = next(each for each, silent in self._silent.items() if silent.host == host)
        self._look(oldest)
        if oldest in self._silent:
            text = f"{len(self._silent)} connections have sent nothing, and of the {count} of {host} this is the oldest"
            self._drop(oldest, "silent", text)

    def _look(self, accepted: socket.socket) -> None:
        """Decide about a connection by its first byte, if there is one."""
        try:
            first = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        self._forget(accepted)
        if not first:
            accepted.close()
        elif first == HELLO_BYTE:
            self._begin_handshake(accepted)
        elif self._tls.is_required:
            self._refuse(accepted, "no-tls", "it does not use TLS, and tls.server.mode is enforcing")
        else:
            self._open(accepted, None)

    def _begin_handshake(self, accepted: socket.socket) -> None:
        host = host_of(_peer(accepted))
        shaking = self._handshakes.setdefault(host, _Handshakes())
        if shaking.count >= HANDSHAKES_OF_HOST + _within_share(HANDSHAKES_WAITING_MAX):
            self._refuse(accepted, "tls-handshakes", f"{shaking.count} TLS handshakes of {host} are open or waiting")
            return
        shaking.count += 1
        self._open(accepted, shaking).add_done_callback(lambda _: self._end_handshake(host))

    def _end_handshake(self, host: str) -> None:
        shaking = self._handshakes[host]
        shaking.count -= 1
        if not shaking.count:
            del self._handshakes[host]

    def _open(self, accepted: socket.socket, shaking: _Handshakes | None) -> asyncio.Task[None]:
        """``shaking``: None for a connection without TLS."""
        task = self._loop.create_task(
            self._connect(accepted, None, None) if shaking is None else self._shake_hands(accepted, shaking)
        )
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return task

    async def _shake_hands(self, accepted: socket.socket, shaking: _Handshakes) -> None:
        async with shaking.turn:
            try:
                context = await self._tls.context.fresh()
            except OSError as error:
                self._refuse(accepted, "tls-certificate", f"this server's own certificate can't be made: {error}")
            else:
                await self._connect(accepted, context, HANDSHAKE_TIMEOUT_S)

    async def _connect(self, accepted: socket.socket, context: ssl.SSLContext | None, timeout_s: float | None) -> None:
        address = _peer(accepted)
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                self._make_protocol, accepted, ssl=context, ssl_handshake_timeout=timeout_s
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self._on_refused("tls-handshake", address, f"the TLS handshake failed: {handshake_text(error)}")

    def _sweep(self) -> None:
        now_s = self._loop.time()
        for each, silent in list(self._silent.items()):
            if silent.end_s > now_s:
                break
            self._drop(each, "silent", f"it sent nothing for {SILENT_MAX_S:g} s")
        self._sweeper = self._loop.call_later(SWEEP_PERIOD_S, self._sweep)

    def _drop(self, silent: socket.socket, reason: str = "", text: str = "") -> None:
        self._forget(silent)
        if reason:
            self._refuse(silent, reason, text)
        else:
            silent.close()

    def _forget(self, accepted: socket.socket) -> None:
        """Count a connection as silent no more."""
        self._loop.remove_reader(accepted)
        host = self._silent.pop(accepted).host
        self._silent_counts[host] -= 1
        if not self._silent_counts[host]:
            del self._silent_counts[host]

    def _refuse(self, accepted: socket.socket, reason: str, text: str) -> None:
        self._on_refused(reason, _peer(accepted), text)
        accepted.close()


def _within_share(count_max: int) -> int:
    return min(count_max, max(1, descriptor_limit() // DESCRIPTOR_SHARE))


def _peer(accepted: socket.socket) -> str:
    try:
        host, port, *_ = accepted.getpeername()
    except (OSError, ValueError):
        return "a closed connection"
    return format_address(host, port)


def _ignore(reason: str, address: str, text: str) -> None:
    """For servers that don't count what they refuse."""
