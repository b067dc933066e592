"""A master and its slave on real sockets, with PyMQ's own client: SYNC_MASTER's answers, reads without the master."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer, PullResult
from pymq.errors import PymqError, RefusedError, UnreachableError
from pymq.model.tables import TopicConfig
from pymq.namesrv.server import NameServer
from tests.broker.assembly.test_broker import DEADLINE_S, make_broker, name_server, until


class Two:
    """A master and a slave. Either may be stopped and started again where it was."""

    def __init__(self, directory: Path, namesrv: NameServer, **settings: str) -> None:
        self._directory = directory
        self._namesrv = namesrv
        self._settings = {"brokerRole": "SYNC_MASTER", "slaveTimeout": "2000", **settings}
        self.master = self._make(0, 0)
        self.slave = self._make(1, 0)

    def _make(self, broker_id: int, port: int) -> Broker:
        settings: dict[str, Any] = {**self._settings, "brokerId": str(broker_id), "listenPort": str(port)}
        if broker_id:
            settings["brokerRole"] = "SLAVE"
        return make_broker(self._directory / str(broker_id), self._namesrv.address, **settings)

    async def restart_master(self) -> None:
        self.master = self._make(0, self.master.config.listen_port)
        await self.master.start()

    async def start_slave(self) -> None:
        await self.slave.start()
        parts = self.master.parts
        assert parts is not None
        await until(lambda: parts.replication.sync_mode.slaves.in_sync_count == 1 and parts.store.is_writable)

    def slave_end(self, queue: MessageQueue) -> int:
        assert self.slave.parts is not None
        return self.slave.parts.store.max_offset(queue.topic, queue.queue_id)


@asynccontextmanager
async def two(directory: Path, **settings: str) -> AsyncIterator[tuple[Two, NameServer]]:
    async with name_server() as namesrv:
        brokers = Two(directory, namesrv, **settings)
        await brokers.master.start()
        try:
            yield brokers, namesrv
        finally:
            await brokers.slave.stop()
            await brokers.master.stop()


async def pulled(consumer: PullConsumer, queue: MessageQueue, offset: int) -> PullResult:
    """Returns the messages at ``offset`` from any broker, once one of them has them."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                result = await consumer.pull(queue, offset, suspend_ms=500)
            except UnreachableError:
                await asyncio.sleep(0.02)
            else:
                if result.messages():
                    return result


def test_a_send_is_answered_when_the_slave_has_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as (brokers, namesrv), Producer("P", namesrv=namesrv.address) as producer:
            with pytest.raises(PymqError, match="needs 1 slave in sync"):
                await producer.send(Message("T", b"too few"))
            await brokers.start_slave()
            async with asyncio.timeout(DEADLINE_S):
                results = await asyncio.gather(*(producer.send(Message("T", b"%d" % n)) for n in range(50)))
            slave = brokers.slave.parts
            assert slave is not None and brokers.master.parts is not None
            assert {result.status.name for result in results} == {"SEND_OK"}
            assert slave.store.physical_max_offset == brokers.master.parts.store.physical_max_offset
            await brokers.slave.stop()
            with pytest.raises(RefusedError, match="has 0"):
                await producer.send(Message("T", b"too few again"), queue=results[0].queue)

    asyncio.run(scenario())


def test_a_stop_lets_the_slave_have_what_senders_wait_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as (brokers, namesrv), Producer("P", namesrv=namesrv.address) as producer:
            await brokers.start_slave()
            first = await producer.send(Message("T", b"0"))
            sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % n), queue=first.queue)) for n in range(9)]
            await asyncio.sleep(0)
            stopping = asyncio.ensure_future(brokers.master.stop())
            results = await asyncio.gather(*sends, return_exceptions=True)
            await stopping
            answered = [result for result in results if not isinstance(result, BaseException)]
            assert {result.status.name for result in answered} <= {"SEND_OK"}, "none is left to an unsure fate"

    asyncio.run(scenario())


def test_reading_goes_on_without_the_master_and_returns_to_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            two(tmp_path) as (brokers, namesrv),
            Producer("P", namesrv=namesrv.address) as producer,
            PullConsumer("G", namesrv=namesrv.address) as consumer,
            Admin(namesrv.address) as admin,
        ):
            await brokers.start_slave()
            queue = (await producer.send(Message("T", b"0"))).queue
            for n in range(1, 10):
                await producer.send(Message("T", b"%d" % n), queue=queue)
            await until(lambda: brokers.slave_end(queue) == 10)
            first = await consumer.pull(queue, 0, count_max=5)
            assert [message.body for message in first.messages()] == [b"%d" % n for n in range(5)]
            await consumer.commit(queue, 5)
            await until(lambda: _cursor(brokers.slave, queue) == 5)
            await brokers.master.stop()

            rest = await pulled(consumer, queue, 5)
            assert [message.body for message in rest.messages()] == [b"%d" % n for n in range(5, 10)]
            assert rest.suggested_broker_id == 1, "its master is away: stay"
            with pytest.raises(RefusedError, match="is a slave"):
                await admin.topics.put(brokers.slave.address, TopicConfig(topic_name="T"))
            await consumer.commit(queue, 10)

            await brokers.restart_master()
            await until(lambda: _cursor(brokers.master, queue) == 10)
            parts = brokers.master.parts
            assert parts is not None
            await until(lambda: parts.store.is_writable)
            await producer.send(Message("T", b"10"), queue=queue)
            found = await pulled(consumer, queue, 10)
            assert [message.body for message in found.messages()] == [b"10"]
            found = await consumer.pull(queue, 11, suspend_ms=0)
            assert found.suggested_broker_id == 0

    asyncio.run(scenario())


def _cursor(broker: Broker, queue: MessageQueue) -> int:
    assert broker.parts is not None
    return broker.parts.metadata.cursors.query("G", queue.topic, queue.queue_id)
