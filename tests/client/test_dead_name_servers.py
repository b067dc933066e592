"""Clients and brokers while all name servers are dead: they go on, and pick up changes when these return."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.client import Message, Producer, PushConsumer
from pymq.client.admin import Admin
from pymq.clock import SystemClock
from pymq.config import load_broker_config
from pymq.errors import UnreachableError
from pymq.model.tables import TopicConfig
from pymq.namesrv.server import NameServer
from pymq.store.disk.memory_fs import MemoryFiles
from tests.client.scenarios import Inbox, until
from tests.ports import free_port_block

SETTINGS = {
    "mappedFileSizeCommitLog": "1048576",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "storePathRootDir": "/store",
    "listenPort": "0",
    "autoCreateTopicEnable": "false",
}
POLL_S = 0.1  # between two looks for routes, 30 s by default


class NameServers:
    """Two name servers, which a test stops and starts on their ports."""

    def __init__(self) -> None:
        self._ports = [free_port_block(0, 0) for _ in range(2)]
        self._servers: list[NameServer] = []
        self.addresses = ";".join(f"127.0.0.1:{port}" for port in self._ports)

    async def start(self) -> None:
        self._servers = [NameServer(clock=SystemClock()) for _ in self._ports]
        for server, port in zip(self._servers, self._ports, strict=True):
            await server.start("127.0.0.1", port)

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop()

    def know(self, topic: str) -> bool:
        return all(topic in server.table.topics for server in self._servers)


def test_clients_go_on_without_name_servers_and_learn_of_new_topics_when_they_return() -> None:
    async def scenario() -> None:
        name_servers = NameServers()
        await name_servers.start()
        config = load_broker_config(None, {**SETTINGS, "namesrvAddr": name_servers.addresses}, env={})
        broker = Broker(config, clock=SystemClock(), files=MemoryFiles(), rng=random.Random(1))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(name_servers.stop)
            address = await broker.start()
            stack.push_async_callback(broker.stop)
            admin = await stack.enter_async_context(Admin(name_servers.addresses))
            await admin.topics.put(address, TopicConfig(topic_name="before", read_queue_nums=2, write_queue_nums=2))
            inbox = Inbox()
            consumer = PushConsumer(
                "reader",
                namesrv=name_servers.addresses,
                on_message=inbox,
                poll_interval_s=POLL_S,
                rebalance_interval_s=POLL_S,
                consume_from="first",
            )
            consumer.subscribe("before")
            consumer.subscribe("after")
            await stack.enter_async_context(consumer)
            producer = await stack.enter_async_context(
                Producer("writer", namesrv=name_servers.addresses, poll_interval_s=POLL_S)
            )
            await producer.send(Message("before", b"0"))

            await name_servers.stop()
            for number in range(1, 5):
                await producer.send(Message("before", b"%d" % number))
            await until(lambda: len(inbox.bodies) == 5, "messages without a name server")
            with pytest.raises(UnreachableError):
                await producer.send(Message("unknown", b"x"))
            await admin.topics.put(address, TopicConfig(topic_name="after", read_queue_nums=1, write_queue_nums=1))

            await name_servers.start()
            await until(lambda: name_servers.know("before") and name_servers.know("after"), "the broker's registration")
            await producer.send(Message("after", b"5"))
            await producer.send(Message("before", b"6"))
            await until(lambda: len(inbox.bodies) == 7, "messages with name servers that returned")
            assert sorted(inbox.bodies) == [b"%d" % number for number in range(7)]

    asyncio.run(scenario())
