"""RpcServer: a port that serves gRPC, with TLS and without, in the event loop of the process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from pymq.net.listener import Listeners
from pymq.net.ticker import Ticker
from pymq.net.tls import ServerTls
from pymq.proxy.rpc.call import RpcMethod
from pymq.proxy.rpc.connection import RpcConnection

ALPN = ("h2",)
BACKLOG = 1024
REQUEST_BYTES_MAX = 130 * 1024 * 1024
HELD_BYTES_MAX = 2 * REQUEST_BYTES_MAX  # of a connection's requests that are not whole, or not taken
CONNECTIONS_PER_TURN = 8  # of those whose frames wait
TICK_MS = 1_000


class RpcServer:
    """Serves ``methods``, which are named by their path: ``b"/package.Service/Method"``."""

    def __init__(
        self,
        methods: Mapping[bytes, RpcMethod],
        tls: ServerTls | None = None,
        *,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        held_bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        """``tls`` None: the port takes plain connections only."""
        self.methods = methods
        self.request_bytes_max = request_bytes_max
        self.held_bytes_max = held_bytes_max
        self.connections: set[RpcConnection] = set()
        self._listeners = Listeners(lambda: RpcConnection(self), tls)
        self._ticker = Ticker(lambda: TICK_MS, self._tick)
        self._waiting: deque[RpcConnection] = deque()
        self._is_turn_due = False
        self._emptied: asyncio.Event | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (0: any free port) and return the port. Raises OSError."""
        bound = await self._listeners.open(host, port, BACKLOG)
        self._ticker.start()
        return bound

    def stop_accepting(self) -> None:
        """Take no new connection, and no new call."""
        self._listeners.close()
        for connection in list(self.connections):
            connection.leave()

    async def stop(self, drain_s: float) -> None:
        """End after the calls under way, or after ``drain_s``."""
        self._ticker.stop()
        self.stop_accepting()
        self._emptied = asyncio.Event()
        if self.connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    await self._emptied.wait()
        tasks = [call.task for each in self.connections for call in each.calls.values() if call.task is not None]
        for connection in list(self.connections):
            connection.close(at_once=True)
        await asyncio.gather(*tasks, return_exceptions=True)

    def opened(self, connection: RpcConnection) -> None:
        """Hear of a new connection."""
        self.connections.add(connection)

    def closed(self, connection: RpcConnection) -> None:
        """Hear that a connection has ended."""
        self.connections.discard(connection)
        if not self.connections and self._emptied is not None:
            self._emptied.set()

    def later(self, connection: RpcConnection) -> None:
        """Let a connection work in a later turn: CONNECTIONS_PER_TURN do so in one turn of the event loop."""
        if not connection.is_queued:
            connection.is_queued = True
            self._waiting.append(connection)
            self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_turn_due:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        for _ in range(min(CONNECTIONS_PER_TURN, len(self._waiting))):
            connection = self._waiting.popleft()
            connection.is_queued = False
            connection.work()
        self._schedule()

    def _tick(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for connection in list(self.connections):
            connection.tick(now_s)
