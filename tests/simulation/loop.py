"""An event loop on the timeline: the product's own servers, clients and composition roots run on it unchanged.

Each process has one loop. Sockets are simulated streams; executors and worker threads do their work a little later.
There is no real time, no real thread and no real socket.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from pymq.broker.work.worker_threads import Result, WorkOutcome
from pymq.wire.streams import Stream
from tests.simulation.disk import SimDisk
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import SECOND, Process, Timeline, Timer

TASKS_LOOKED_AT = 200


class SimLoop(asyncio.AbstractEventLoop):
    """Implements what asyncio's classes and the product ask of a loop, and no more."""

    def __init__(
        self,
        timeline: Timeline,
        process: Process,
        network: SimNetwork,
        rng: random.Random,
        on_error: Callable[[str, BaseException | None], None],
        disk: SimDisk | None = None,
    ) -> None:
        self.process = process
        self.network = network
        self.rng = rng
        self.disk = disk
        self._timeline = timeline
        self._on_error = on_error
        self._is_inside = False  # a call of :meth:`enter` has not returned yet
        # Keeps the tasks of a dead process, which must not be deleted at a moment that no seed decides.
        self._tasks: list[asyncio.Task[Any]] = []
        self._task_count_max = TASKS_LOOKED_AT

    # -- time and calls -----------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._timeline.now_us / SECOND

    @property
    def now_us(self) -> int:
        return self._timeline.now_us

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self.process.is_alive

    def enter(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a call as if the loop did: with itself as the running loop, and errors reported.

        Setting the running loop costs more than most calls. So it stays set until another loop enters; only a call
        made inside another loop's call restores that loop.
        """
        before = _get_running_loop()
        if before is not self:
            _set_running_loop(self)
        was_inside, self._is_inside = self._is_inside, True
        try:
            callback(*args)
        except Exception as error:
            self._on_error(f"a call on the loop of {self.process.name} failed", error)
        finally:
            self._is_inside = was_inside
            if before is not self and isinstance(before, SimLoop) and before._is_inside:
                _set_running_loop(before)

    def _plan(self, delay_us: int, callback: Any, args: Any, context: Any) -> Timer:
        arguments = (callback, *args) if context is None else (context.run, callback, *args)
        return self._timeline.plan(delay_us, Timer(self.process, self.enter, arguments))

    # A Timer can serve as a handle: asyncio and the product only cancel it.

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Timer:  # type: ignore[override]
        arguments = (callback, *args) if context is None else (context.run, callback, *args)
        timer = Timer(self.process, self.enter, arguments)
        self._timeline.soon(timer)
        return timer

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Timer:  # type: ignore[override]
        return self._plan(round(delay * SECOND), callback, args, context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Timer:  # type: ignore[override]
        return self._plan(round(when * SECOND) - self._timeline.now_us, callback, args, context)

    # -- tasks --------------------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: Any = None, context: Any = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) > self._task_count_max:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._task_count_max = 2 * len(self._tasks) + TASKS_LOOKED_AT
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()

        def done(outcome: Result) -> None:
            if future.done():
                return
            try:
                future.set_result(outcome.result())
            except BaseException as error:
                future.set_exception(error)

        self.run_in_thread(lambda: func(*args), done)
        return future

    def run_in_thread(self, work: Callable[[], Any], done: Callable[[Result], None]) -> None:
        """Do ``work`` as a worker thread does: in one step some time later. Call ``done`` on the loop later still."""
        delay_us = self.disk.sync_delay_us if self.disk is not None else 100
        self.process.after(20 + int(self.rng.random() * 2 * delay_us), self._work, work, done)

    def _work(self, work: Callable[[], Any], done: Callable[[Result], None]) -> None:
        _set_running_loop(None)  # a thread has no loop
        outcome = WorkOutcome(work)
        self.process.after(10 + int(self.rng.random() * 200), self.enter, done, outcome)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.process.is_alive:
            self._on_error(f"{self.process.name}: {context.get('message')}", context.get("exception"))

    # -- connections --------------------------------------------------------------------------------------------

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """Return an IP address as it is: simulated machines have no names."""
        return [(0, 0, 0, "", (host, port or 0))]

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        address = f"{host}:{port}"
        if self.network.is_listening(address):
            raise OSError(98, f"{address} is taken")
        self.network.listen(self.process, address, lambda _: SimTransport(self, protocol_factory))
        return SimListener(self.network, address)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        connected = self.create_future()
        transport = SimTransport(self, protocol_factory, connected)
        self.network.connect(self.process, f"{host}:{port}", transport)
        try:
            await connected
        except asyncio.CancelledError:
            transport.abort()
            raise
        return transport, transport.protocol


class SimListener:
    """Implements the part of asyncio.Server that is used."""

    def __init__(self, network: SimNetwork, address: str) -> None:
        self._network = network
        self._address = address

    @property
    def sockets(self) -> list[SimListener]:
        return [self]

    def getsockname(self) -> tuple[str, int]:
        host, _, port = self._address.rpartition(":")
        return host, int(port)

    def close(self) -> None:
        self._network.stop_listening(self._address)


class SimTransport(asyncio.Transport):
    """A stream's handler on one side, a protocol's transport on the other."""

    def __init__(self, loop: SimLoop, factory: Callable[[], Any], connected: asyncio.Future[Any] | None = None) -> None:
        super().__init__()
        self._loop = loop
        self._factory = factory
        self._connected = connected
        self._stream: Stream | None = None
        self._is_reading = True
        self._unread: list[bytes] = []
        self._high_bytes = 65_536
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False
        self.protocol: Any = None

    # -- called by the stream -----------------------------------------------------------------------------------

    def opened(self, stream: Stream) -> None:
        if self._is_closing:
            stream.close()
            return
        self._stream = stream
        self._loop.enter(self._open)

    def _open(self) -> None:
        self.protocol = self._factory()
        self.protocol.connection_made(self)
        if self._connected is not None and not self._connected.done():
            self._connected.set_result(None)

    def received(self, data: bytes) -> None:
        if self._is_closing or self._is_lost:
            return
        if self._is_reading:
            self._loop.enter(self.protocol.data_received, data)
        else:
            self._unread.append(data)

    def writable(self) -> None:
        if self._is_paused and not self._is_lost:
            self._is_paused = False
            self._loop.enter(self.protocol.resume_writing)

    def closed(self, why: str) -> None:
        if self._stream is None:
            if self._connected is not None and not self._connected.done():
                self._loop.enter(self._connected.set_exception, ConnectionRefusedError(111, why))
            return
        self._lose(None if "closed" in why else ConnectionResetError(104, why))

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._loop.enter(self.protocol.connection_lost, error)

    # -- called by the protocol ---------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername" and self._stream is not None:
            host, _, port = self._stream.peer_address.rpartition(":")
            return host, int(port)
        if name == "sockname":
            return self._loop.process.host, 0
        return default

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = 65_536 if high is None else high

    def get_write_buffer_size(self) -> int:
        return self._stream.unsent_bytes if self._stream is not None else 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._stream is None:
            return
        self._stream.write(data)  # type: ignore[arg-type]
        if self._stream.unsent_bytes > self._high_bytes and not self._is_paused:
            self._is_paused = True
            self._stream.want_writable()
            self._loop.enter(self.protocol.pause_writing)

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        while self._unread and self._is_reading and not self._is_closing:
            self.protocol.data_received(self._unread.pop(0))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if self._stream is not None:
                self._stream.close()

    def abort(self) -> None:
        self.close()


class SimWorkerThreads:
    """Replaces :class:`pymq.broker.work.worker_threads.WorkerThreads`."""

    def __init__(self, call_soon: Any, count: int, name: str) -> None:
        self._loop: SimLoop = call_soon.__self__

    def __call__(self, work: Callable[[], int], done: Callable[[Result], None]) -> None:
        self._loop.run_in_thread(work, done)

    def stop(self) -> None:
        return None


@contextmanager
def own_running_loop() -> Iterator[None]:
    """Restore the running loop at the end of this context: see :meth:`SimLoop.enter`."""
    before = _get_running_loop()
    try:
        yield
    finally:
        _set_running_loop(before)


def start(loop: SimLoop, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a program on ``loop``, and return its main task."""
    tasks: list[asyncio.Task[Any]] = []
    context = contextvars.Context()
    loop.enter(lambda: tasks.append(loop.create_task(main, context=context)))
    return tasks[0]
