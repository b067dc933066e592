"""RpcServer: a port that serves gRPC, with TLS and without, in the event loop of the process."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from pymq.clock import Clock, SystemClock
from pymq.net.connection_table import ConnectionTable
from pymq.net.limits import ServerLimits
from pymq.net.listener import Listeners
from pymq.net.memory_budget import MemoryBudget
from pymq.net.ticker import Ticker
from pymq.net.tls import ServerTls
from pymq.proxy.rpc.call import REQUEST_BYTES_MAX, RpcMethod
from pymq.proxy.rpc.connection import RpcConnection
from pymq.proxy.rpc.connection_owner import RequestSizes
from pymq.proxy.rpc.request_room import RequestRoom

ALPN = ("h2",)
ROOM_BYTES = REQUEST_BYTES_MAX  # of all large requests that are decoded and served at the same time
CONNECTIONS_PER_TURN = 8  # of connections whose frames wait
ROUND_S = 0.01  # that connections work in one round of the event loop; the others in the next
TICK_MS = 1_000


class RpcServer(ConnectionTable[RpcConnection]):
    """Serves ``methods``, which are named by their path: ``b"/package.Service/Method"``."""

    def __init__(
        self,
        methods: Mapping[bytes, RpcMethod],
        tls: ServerTls | None = None,
        *,
        clock: Clock | None = None,
        limits: ServerLimits | None = None,
        budget: MemoryBudget | None = None,
        sizes: RequestSizes | None = None,
        work_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``tls`` None: the port takes plain connections only. ``budget``: the process's, by default one of its own.

        ``work_s`` measures how long work takes.
        """
        super().__init__(limits, clock or SystemClock(), None, budget)
        self.methods = methods
        self.sizes = sizes or RequestSizes()
        self.room = RequestRoom(ROOM_BYTES)
        self.work_s = work_s
        self._listeners = Listeners(lambda: RpcConnection(self), tls, self.report_refused)
        self._ticker = Ticker(lambda: TICK_MS, self._tick)
        self._waiting: deque[RpcConnection] = deque()
        self._is_turn_due = False
        self._uncalled: dict[str, dict[RpcConnection, None]] = {}  # by host, those without a call; the oldest first
        self._worked_s = 0.0  # in this round of the event loop
        self._emptied: asyncio.Event | None = None

    async def start(self, host: str, port: int, *, is_shared: bool = False) -> int:
        """Listen on ``host:port`` (0: any free port) and return the port. Raises OSError."""
        bound = await self._listeners.open(host, port, self.limits.backlog, is_shared=is_shared)
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
        tasks = {call.task for each in self.connections for call in each.calls.values() if call.task is not None}
        for connection in list(self.connections):
            connection.close(at_once=True)
        if tasks:
            await asyncio.wait(tasks, timeout=drain_s)

    def admit(self, connection: RpcConnection, transport: asyncio.BaseTransport) -> str | None:
        """Register a new connection. Return None, or the reason to close it at once."""
        reason = super().admit(connection, transport)
        if reason is None:
            self._uncalled.setdefault(connection.host, {})[connection] = None
        return reason

    def make_room(self, host: str | None) -> bool:
        """Close the oldest connection of a host that has made no call: idle ones lock nobody out."""
        if host is None:
            host = max(self._uncalled, key=lambda each: len(self._uncalled[each]), default="")
        oldest = next(iter(self._uncalled.get(host, ())), None)
        if oldest is None:
            return False
        oldest.abort("replaced")
        self.forget(oldest)
        return True

    def called(self, connection: RpcConnection) -> None:
        """Hear of a connection's first call."""
        of_host = self._uncalled.get(connection.host)
        if of_host is not None:
            of_host.pop(connection, None)
            if not of_host:
                del self._uncalled[connection.host]

    def closed(self, connection: RpcConnection) -> None:
        """Hear that a connection has ended."""
        self.forget(connection)
        if not self.connections and self._emptied is not None:
            self._emptied.set()

    def forget(self, connection: RpcConnection) -> None:
        """Remove a closed connection."""
        self.called(connection)
        super().forget(connection)

    # -- turns -----------------------------------------------------------------------------------------------------

    @property
    def has_time(self) -> bool:
        """Whether a connection may work in this round of the event loop."""
        return self._worked_s < ROUND_S

    def note_work(self, took_s: float) -> None:
        """Hear how long a connection has worked."""
        if not self._worked_s:
            asyncio.get_running_loop().call_soon(self._new_round)
        self._worked_s += took_s

    def _new_round(self) -> None:
        self._worked_s = 0.0

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
            if not self.has_time:
                break
            connection = self._waiting.popleft()
            connection.is_queued = False
            connection.work()
        self._schedule()

    def _tick(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._violation_log.tick()
        has_room = self.budget.has_room()
        for connection in list(self.connections):
            connection.held_bytes()  # of small changes the budget has not heard
            connection.tick(now_s, has_room=has_room)
