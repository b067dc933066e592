"""NameServer over a real socket: registration, look-up, and the effect of a closed connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pymq.clock import ManualClock
from pymq.model.tables import DataVersion, TopicConfig
from pymq.namesrv.server import NameServer
from pymq.wire.bodies_registration import encode_registration
from pymq.wire.bodies_route import decode_route
from pymq.wire.command import SERIALIZE_ROCKETMQ, Command, decode_command, encode_command

WHO = {"brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "clusterName": "C", "brokerId": "0"}


class Wire:
    """One client connection that sends a request and waits for its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._opaque = 0

    @classmethod
    async def open(cls, port: int) -> Wire:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, code: int, ext: dict[str, str], body: bytes = b"", serialize: int = 0) -> Command:
        self._opaque += 1
        self._writer.write(encode_command(Command(code, opaque=self._opaque, ext=ext, body=body, serialize=serialize)))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        answer = decode_command(await self._reader.readexactly(size))
        assert answer.is_response
        assert answer.opaque == self._opaque
        return answer

    async def register(self, *topics: str) -> Command:
        return await self.ask(
            103, WHO, encode_registration([TopicConfig(topic_name=t) for t in topics], DataVersion(1))
        )

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.005)


def test_a_broker_registers_and_clients_find_it_until_it_hangs_up() -> None:
    async def scenario() -> None:
        server = NameServer(clock=ManualClock())
        port = await server.start(port=0)
        assert server.address == f"127.0.0.1:{port}"
        broker, client = await Wire.open(port), await Wire.open(port)
        assert (await broker.register("T", "U")).code == 0
        answer = await client.ask(105, {"topic": "T"}, serialize=SERIALIZE_ROCKETMQ)
        assert answer.serialize == SERIALIZE_ROCKETMQ
        assert decode_route(answer.body).broker_datas[0].broker_addrs == {0: "127.0.0.1:10911"}
        await broker.close()
        await eventually(lambda: len(server.table.brokers) == 0)
        assert (await client.ask(105, {"topic": "T"})).code == 17
        await client.close()
        await server.stop()

    asyncio.run(scenario())


def test_a_silent_broker_is_dropped_at_the_next_tick() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        server = NameServer(clock=clock)
        server.config.change_at_runtime({"scanNotActiveBrokerInterval": "100"})
        broker = await Wire.open(await server.start(port=0))
        await broker.register("T", "U")
        clock.advance(119_000)
        server.tick()
        assert len(server.table.brokers) == 1
        clock.advance(2_000)
        await eventually(lambda: len(server.table.brokers) == 0)
        await broker.close()
        await server.stop()

    asyncio.run(scenario())


def test_several_name_servers_have_the_same_routes() -> None:
    async def scenario() -> None:
        servers = [NameServer(clock=ManualClock()) for _ in range(2)]
        wires = [await Wire.open(await server.start(port=0)) for server in servers]
        for wire in wires:
            assert (await wire.register("T", "U")).code == 0
        assert [server.table.topics.names() for server in servers] == [["T", "U"], ["T", "U"]]
        for server, wire in zip(servers, wires, strict=True):
            await wire.close()
            await server.stop()

    asyncio.run(scenario())
