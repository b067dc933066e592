"""Liar: stands before a real server, passes each request on, and changes what it answers as a test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final

from pymq.wire.command import Command, decode_command, encode_command
from pymq.wire.framing import FrameBuffer

START_TIMEOUT_S: Final = 10.0

# Gets the request, the true answer, and how to send bytes; sends what it wants.
Say = Callable[[bytes], Awaitable[None]]
Lie = Callable[[Command, Command, Say], Awaitable[None]]


async def truth(request: Command, answer: Command, say: Say) -> None:
    """Answer as the real server does."""
    await say(encode_command(answer))


class Liar:
    """A context manager. ``address`` is where it listens; ``lie`` may be set at any time.

    ``others``: addresses of real servers, each with that of the liar before it. The truth names the liars alone.
    """

    def __init__(self, real: str) -> None:
        self.real = real
        self.address = ""
        self.lie: Lie = truth
        self.others: dict[str, str] = {}
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Liar:
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = starting.result(START_TIMEOUT_S)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def end() -> None:
            if self._server is not None:
                self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0)  # transports close in the next turn

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(START_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_TIMEOUT_S)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameBuffer()
        answering: set[asyncio.Task[None]] = set()
        try:
            host, _, port = self.real.rpartition(":")
            real_reader, real_writer = await asyncio.open_connection(host, int(port))
            asked: dict[int, Command] = {}
            back = asyncio.ensure_future(self._pass_back(real_reader, writer, asked, answering))
            try:
                while data := await reader.read(65536):
                    for payload in frames.feed(data):
                        command = decode_command(payload)
                        asked[command.opaque] = command
                    real_writer.write(data)
            finally:
                back.cancel()
                for task in answering:
                    task.cancel()
                real_writer.close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _pass_back(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: dict[int, Command],
        answering: set[asyncio.Task[None]],
    ) -> None:
        frames = FrameBuffer()

        async def say(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        while data := await reader.read(65536):
            for payload in frames.feed(data):
                answer = decode_command(payload)
                request = asked.pop(answer.opaque, None)
                if request is None:
                    continue
                for real, liar in self.others.items():
                    answer.body = answer.body.replace(real.encode(), liar.encode())
                task = asyncio.ensure_future(_quietly(self.lie, request, answer, say))
                answering.add(task)
                task.add_done_callback(answering.discard)


async def _quietly(lie: Lie, request: Command, answer: Command, say: Say) -> None:
    """The lie begins in here, so that a task that is cancelled before its first step leaves nothing not awaited."""
    try:
        await lie(request, answer, say)
    except (ConnectionError, asyncio.CancelledError):
        pass
