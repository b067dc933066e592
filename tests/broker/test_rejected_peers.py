"""Hostile peers at a master's HA port, over real sockets: slaves, senders and the log stay undisturbed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from pathlib import Path

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.broker.replication.master.ha_service import CONNECTIONS_MAX
from pymq.client import Message, Producer
from pymq.rate_limited_log import LINES_MAX
from tests.broker.assembly.test_broker import DEADLINE_S, until
from tests.broker.test_slave_reads import Two, two
from tests.broker.world import master_side, slave_side

_RNG = random.Random(7)
KINDS = {
    "random bytes": _RNG.randbytes(3000),
    "half a report": b"\0\0\0",
    "a report beyond the end": struct.pack(">q", 1 << 40),
    "a report of what was never sent": struct.pack(">qq", 0, 1 << 39),
    "a token nobody gave": struct.pack(">qq", -5, 0),
    "a negative report": struct.pack(">qq", 0, -5),
    "the greatest number": struct.pack(">q", (1 << 63) - 1),
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + _RNG.randbytes(190),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "nothing": b"",
}


# A silent peer is disconnected after a second.
SOON = {"haHousekeepingInterval": "1000", "haSendHeartbeatInterval": "500"}


async def connect(broker: Broker, raw: bytes, host_number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect from one of many addresses of this machine, and send ``raw``."""
    source = (f"127.0.{host_number // 200}.{2 + host_number % 200}", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.config.ha_listen_port, local_addr=source)
    writer.write(raw)
    return reader, writer


async def until_sent_away(broker: Broker, raw: bytes) -> None:
    """Send ``raw``, and wait until the broker closes the connection, at the latest for silence."""
    reader, writer = await connect(broker, raw, 1)
    async with asyncio.timeout(DEADLINE_S):
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                pass
    writer.close()


async def storm(broker: Broker, count: int) -> None:
    """Open ``count`` connections of all kinds, and close each after a moment."""

    async def one(number: int) -> None:
        raw = list(KINDS.values())[number % len(KINDS)]
        with contextlib.suppress(OSError):
            reader, writer = await connect(broker, raw, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(100), 0.05)
            writer.close()

    for first in range(0, count, 100):
        await asyncio.gather(*(one(number) for number in range(first, min(count, first + 100))))


def logged(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.name.endswith("master.ha_service") for record in caplog.records)


async def check_serving(brokers: Two, producer: Producer) -> None:
    """Check that the slave confirms a send."""
    async with asyncio.timeout(DEADLINE_S):
        result = await producer.send(Message("T", b"on it goes"))
    assert result.status.name == "SEND_OK"
    ha_client = slave_side(brokers.slave.parts).ha_client if brokers.slave.parts is not None else None
    assert ha_client is not None
    await until(lambda: ha_client.is_following)


@pytest.mark.slow
def test_a_storm_of_rejected_peers_does_not_disturb_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as (brokers, namesrv), Producer("P", namesrv=namesrv.address) as producer:
            await brokers.start_slave()
            await check_serving(brokers, producer)
            parts = brokers.master.parts
            assert parts is not None
            caplog.clear()
            await asyncio.gather(storm(brokers.master, 2000), *(check_serving(brokers, producer) for _ in range(50)))
            await check_serving(brokers, producer)
            assert logged(caplog) <= LINES_MAX + 2, "two of the slave's own at most"
            ha_service = master_side(parts).ha_service
            await until(lambda: len(ha_service._connections) == 1)
            states = {state.state for state in ha_service.states()}
            assert states == {"following", "refused"}

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_rejected_peer_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    async def scenario() -> None:
        async with two(tmp_path, brokerRole="ASYNC_MASTER", **SOON) as (brokers, _):
            parts = brokers.master.parts
            assert parts is not None
            ha_service = master_side(parts).ha_service
            caplog.clear()
            await asyncio.gather(*(until_sent_away(brokers.master, KINDS[kind]) for _ in range(3)))
            await until(lambda: not ha_service._connections)
            assert 1 <= logged(caplog) <= 2, "what is wrong with it, and that it was sent away"
            assert [state.state for state in ha_service.states()] in (["refused"], ["gone"])

    asyncio.run(scenario())


def test_idle_connections_keep_no_slave_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as (brokers, namesrv), Producer("P", namesrv=namesrv.address) as producer:
            held = [await connect(brokers.master, b"", number) for number in range(2 * CONNECTIONS_MAX)]
            await brokers.start_slave()
            await check_serving(brokers, producer)
            for _, writer in held:
                writer.close()

    asyncio.run(scenario())
