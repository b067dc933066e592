"""A scripted server for client tests: it answers by request code, records requests, and can send requests itself."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

import msgspec

from pymq.model.route import BrokerData, QueueData, TopicRoute
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, decode_command, encode_command
from pymq.wire.framing import FrameBuffer
from pymq.wire.reply import Reply

Script = Callable[[Command], "Reply | Awaitable[Reply | None] | None"]
NO_ANSWER = None


class FakeServer:
    """``on(code, script)`` sets the answer to a request code; codes without a script get code 0."""

    def __init__(self) -> None:
        self.address = ""
        self.requests: dict[int, list[Command]] = defaultdict(list)
        self.answers: list[Command] = []  # responses to this server's own requests
        self.arrived = asyncio.Condition()
        self._scripts: dict[int, Script] = {}
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def on(self, code: int, script: Script) -> None:
        self._scripts[code] = script

    def refuse(self, code: int, response_code: int, remark: str = "no") -> None:
        self.on(code, lambda _: Reply(response_code, remark))

    async def start(self, port: int = 0) -> FakeServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self.drop_connections()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    def push(self, command: Command) -> None:
        """Send a request of the server's own on every connection."""
        for writer in self._writers:
            writer.write(encode_command(command))

    def push_bytes(self, data: bytes) -> None:
        for writer in self._writers:
            writer.write(data)

    def count(self, code: int) -> int:
        return len(self.requests[code])

    async def wait_for(self, code: int, count: int = 1, timeout_s: float = 5) -> Command:
        """Wait for the ``count``-th request with ``code`` and return it."""
        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(lambda: len(self.requests[code]) >= count), timeout_s)
        return self.requests[code][count - 1]

    async def wait_for_answers(self, count: int = 1, timeout_s: float = 5) -> Command:
        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(lambda: len(self.answers) >= count), timeout_s)
        return self.answers[count - 1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        frames = FrameBuffer()
        try:
            while data := await reader.read(65536):
                for payload in frames.feed(data):
                    await self._received(decode_command(payload), writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _received(self, command: Command, writer: asyncio.StreamWriter) -> None:
        async with self.arrived:
            if command.is_response:
                self.answers.append(command)
            else:
                self.requests[command.code].append(command)
            self.arrived.notify_all()
        if command.is_response:
            return
        result = self._scripts.get(command.code, lambda _: Reply())(command)
        if isinstance(result, Reply) or result is None:
            self._answer(command, result, writer)
        else:
            task = asyncio.get_running_loop().create_task(self._answer_later(command, result, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer_later(
        self, command: Command, result: Awaitable[Reply | None], writer: asyncio.StreamWriter
    ) -> None:
        self._answer(command, await result, writer)

    def _answer(self, command: Command, reply: Reply | None, writer: asyncio.StreamWriter) -> None:
        if reply is not None and not command.is_oneway and not writer.is_closing():
            writer.write(encode_command(reply.to_command(command)))


def route_reply(brokers: dict[str, str], *, queues: int = 4, perm: int = 6, write_queues: int | None = None) -> Reply:
    """Return a route answer; ``brokers`` maps a name to the address of its master."""
    route = TopicRoute(
        queue_datas=[
            QueueData(
                broker_name=name,
                read_queue_nums=queues,
                write_queue_nums=queues if write_queues is None else write_queues,
                perm=perm,
            )
            for name in brokers
        ],
        broker_datas=[
            BrokerData(cluster="C", broker_name=name, broker_addrs={0: address}) for name, address in brokers.items()
        ],
    )
    return Reply(body=msgspec.json.encode(route))


def serve_routes(server: FakeServer, routes: dict[str, Reply]) -> None:
    """Make ``server`` a name server that knows ``routes`` (topic -> reply)."""
    server.on(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        lambda command: routes.get(command.ext["topic"], Reply(ResponseCode.TOPIC_NOT_EXIST, "No route info")),
    )
