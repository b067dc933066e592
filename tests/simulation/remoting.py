"""Remoting for simulated clients, without an event loop: requests with callbacks, and simple coroutines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from pymq.errors import RefusedError, UnreachableError
from pymq.wire.command import FLAG_ONEWAY, Command, decode_command, encode_command
from pymq.wire.framing import FrameBuffer
from pymq.wire.reply import Reply
from pymq.wire.streams import Stream, StreamHandler
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import MS, Process, Timer

OnAnswer = Callable[[Command | str], None]


class _Asking:
    """The client side of one connection, shared by all requests of a process to one address."""

    def __init__(self, client: SimClient, address: str) -> None:
        self._client = client
        self.address = address
        self._stream: Stream | None = None
        self._frames = FrameBuffer()
        self._waiting: list[bytes] = []
        self._asks: dict[int, tuple[OnAnswer, Timer]] = {}
        self.is_over = False

    def send(self, command: Command, on_answer: OnAnswer, timeout_us: int) -> None:
        opaque = self._client.next_opaque()
        command.opaque = opaque
        timer = self._client.process.after(timeout_us, self._late, opaque, timeout_us)
        self._asks[opaque] = (on_answer, timer)
        frame = encode_command(command)
        if self._stream is not None:
            self._stream.write(frame)
        else:
            self._waiting.append(frame)

    def oneway(self, command: Command) -> None:
        command.flag |= FLAG_ONEWAY
        command.opaque = self._client.next_opaque()
        if self._stream is not None:
            self._stream.write(encode_command(command))
        else:
            self._waiting.append(encode_command(command))

    def _late(self, opaque: int, timeout_us: int) -> None:
        ask = self._asks.pop(opaque, None)
        if ask is not None:
            ask[0](f"{self.address} did not answer within {timeout_us // MS} ms")
            self._client.timed_out(self.address, self)

    def opened(self, stream: Stream) -> None:
        self._stream = stream
        for frame in self._waiting:
            stream.write(frame)
        self._waiting.clear()

    def received(self, data: bytes) -> None:
        for payload in self._frames.feed(data):
            command = decode_command(payload)
            if not command.is_response:
                self._client.asked(self, command)
                continue
            ask = self._asks.pop(command.opaque, None)
            if ask is not None:
                ask[1].cancel()
                ask[0](command)

    def reply(self, command: Command) -> None:
        if self._stream is not None:
            self._stream.write(encode_command(command))

    def writable(self) -> None:
        return None

    def closed(self, why: str) -> None:
        self.is_over = True
        self._client.forget(self.address, self)
        asks, self._asks = self._asks, {}
        for on_answer, timer in asks.values():
            timer.cancel()
            on_answer(why)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


class SimClient:
    """A process's :class:`pymq.net.client.RemotingClient`, with callbacks and simulated streams. Also a ``Network``."""

    def __init__(self, network: SimNetwork, process: Process) -> None:
        self.process = process
        self.on_push: Callable[[str, Command], Reply | None] = lambda address, command: None
        self._network = network
        self._connections: dict[str, _Asking] = {}
        self._opaque = 0

    def connect(self, address: str, handler: StreamHandler) -> None:
        """See :class:`pymq.wire.streams.Network`."""
        self._network.connect(self.process, address, handler)

    def ask(self, address: str, command: Command, on_answer: OnAnswer, timeout_ms: int) -> None:
        """See :class:`pymq.wire.streams.Network`."""
        self._to(address).send(command, on_answer, timeout_ms * MS)

    def oneway(self, address: str, command: Command) -> None:
        self._to(address).oneway(command)

    def _to(self, address: str) -> _Asking:
        connection = self._connections.get(address)
        if connection is None or connection.is_over:
            connection = self._connections[address] = _Asking(self, address)
            self._network.connect(self.process, address, connection)
        return connection

    def next_opaque(self) -> int:
        self._opaque += 1
        return self._opaque

    def asked(self, connection: _Asking, command: Command) -> None:
        reply = self.on_push(connection.address, command)
        if reply is not None and not command.is_oneway:
            connection.reply(reply.to_command(command))

    def timed_out(self, address: str, connection: _Asking) -> None:
        """Close a connection without answers, since it may be half open: the next request opens another."""
        if self._connections.get(address) is connection:
            del self._connections[address]
            connection.close()

    def forget(self, address: str, connection: _Asking) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.close()

    # -- for coroutines -----------------------------------------------------------------------------------------

    def invoke_ok(self, address: str, command: Command, timeout_s: float = 3.0) -> Awaitable[Command]:
        """Ask, and return the answer, as RemotingClient does. Raises RefusedError or UnreachableError."""
        promise: Promise = Promise()

        def answered(answer: Command | str) -> None:
            if isinstance(answer, str):
                promise.fail(UnreachableError(answer))
            elif answer.code != 0:
                promise.fail(RefusedError(answer.code, answer.remark, address))
            else:
                promise.keep(answer)

        self.ask(address, command, answered, int(timeout_s * 1000))
        return promise


class Promise:
    """A future without a loop, for coroutines to wait for."""

    def __init__(self) -> None:
        self._is_over = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiters: list[Callable[[], None]] = []

    def keep(self, value: Any = None) -> None:
        self._end(value, None)

    def fail(self, error: BaseException) -> None:
        self._end(None, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        assert not self._is_over
        self._is_over, self._value, self._error = True, value, error
        waiters, self._waiters = self._waiters, []
        for wake in waiters:
            wake()

    def is_over(self) -> bool:
        """Return whether it is kept. Raises the error it failed with."""
        if self._error is not None:
            raise self._error
        return self._is_over

    def when_over(self, wake: Callable[[], None]) -> None:
        if self._is_over:
            wake()
        else:
            self._waiters.append(wake)

    def __await__(self) -> Generator[Promise, None, Any]:
        if not self._is_over:
            yield self
        if self._error is not None:
            raise self._error
        return self._value


def run(work: Awaitable[Any]) -> Promise:
    """Run a coroutine until it waits, and continue it whenever what it waits for is over."""
    result = Promise()
    steps = work.__await__()

    def step() -> None:
        try:
            awaited = next(steps)
        except StopIteration as end:
            result.keep(end.value)
        except BaseException as error:
            result.fail(error)
        else:
            awaited.when_over(step)

    step()
    return result


def gather(*works: Awaitable[Any]) -> Awaitable[list[Any]]:
    """Run all at once, and wait for all results, as asyncio's gather does."""
    running = [run(work) for work in works]

    async def collect() -> list[Any]:
        return [await each for each in running]

    return collect()
