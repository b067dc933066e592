"""Broker on real sockets and a real directory: starts, registers, serves, stops cleanly, comes back."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer, StoredMessage
from pymq.clock import SystemClock
from pymq.config import load_broker_config
from pymq.errors import StoreError
from pymq.model.tables import TopicConfig
from pymq.namesrv.server import NameServer
from pymq.store.disk.fs import RealFiles

DEADLINE_S = 20


def make_broker(directory: Path, namesrv: str = "", files: RealFiles | None = None, **settings: str) -> Broker:
    # Small files: they are made whole.
    small = {"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}
    keys = {**small, "storePathRootDir": str(directory), "namesrvAddr": namesrv, "listenPort": "0", **settings}
    config = load_broker_config(None, keys, env={})
    return Broker(config, clock=SystemClock(), files=files or RealFiles(), rng=random.Random(directory.name))


@asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    server = NameServer(clock=SystemClock())
    await server.start(port=0)
    try:
        yield server
    finally:
        await server.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.005)


def test_it_registers_serves_and_stops_cleanly(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "data", namesrv.address)
            address = await broker.start()
            assert address == f"127.0.0.1:{broker.config.listen_port}" and broker.config.listen_port > 0
            assert broker.recovery is not None and broker.recovery.clean
            assert (tmp_path / "data/abort").exists()
            async with Admin(namesrv.address) as admin:
                assert [master.address for master in await admin.cluster.masters()] == [address]
            async with (
                Producer("P", namesrv=namesrv.address) as producer,
                PullConsumer("G", namesrv=namesrv.address) as consumer,
            ):
                # The topic is made by the send, and its route is known as soon as clients ask.
                result = await producer.send(Message("T", b"hello", keys="k"))
                await until(lambda: "T" in namesrv.table.topics.names())
                assert result.queue in await consumer.queues("T")
                found = await consumer.pull(result.queue, 0)
                assert [message.body for message in found.messages()] == [b"hello"]
                await consumer.commit(result.queue, 1)
                waiting = asyncio.ensure_future(consumer.pull(result.queue, 1, suspend_ms=15_000))
                await producer.send(Message("T", b"again"), queue=result.queue)
                assert [message.body for message in (await waiting).messages()] == [b"again"]
                parts = broker.parts
                assert parts is not None and parts.requests.fast_sends.count >= 1
            await broker.stop()
            await broker.stop()
            await until(lambda: len(namesrv.table.brokers) == 0)
            assert not (tmp_path / "data/abort").exists()
            with pytest.raises(OSError, match=r"[Cc]onnect"):
                await asyncio.open_connection("127.0.0.1", broker.config.listen_port)

    asyncio.run(scenario())


async def everything(consumer: PullConsumer, queue: MessageQueue) -> AsyncIterator[StoredMessage]:
    offset, end = 0, await consumer.max_offset(queue)
    while offset < end:
        result = await consumer.pull(queue, offset)
        for message in result.messages():
            yield message
        offset = result.next_offset


def test_a_restart_on_the_same_directory_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        queue = MessageQueue("T", "broker-a", 3)
        async with name_server() as namesrv:
            for round_number in range(3):
                broker = make_broker(tmp_path / "data", namesrv.address)
                await broker.start()
                assert broker.recovery is not None and broker.recovery.clean
                parts = broker.parts
                assert parts is not None
                async with (
                    Producer("P", namesrv=namesrv.address) as producer,
                    PullConsumer("G", namesrv=namesrv.address) as consumer,
                    Admin(namesrv.address) as admin,
                ):
                    await admin.topics.put(broker.address, TopicConfig(topic_name="T"))
                    result = await producer.send(Message("T", b"%d" % round_number, keys="k"), queue=queue)
                    assert result.queue_offset == round_number
                    await consumer.queues("T")
                    assert await consumer.committed(queue) == round_number
                    found = [message.body async for message in everything(consumer, queue)]
                    assert found == [b"%d" % number for number in range(round_number + 1)]
                    await consumer.commit(queue, round_number + 1)
                    parts.store.tick()
                    assert len(await admin.messages.by_key("T", "k")) == round_number + 1
                await broker.stop()

    asyncio.run(scenario())


def test_a_pull_that_waits_is_answered_by_the_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "data", namesrv.address)
            await broker.start()
            async with (
                Producer("P", namesrv=namesrv.address) as producer,
                PullConsumer("G", namesrv=namesrv.address) as consumer,
            ):
                queue = (await producer.send(Message("T", b"1"))).queue
                await consumer.queues("T")
                waiting = asyncio.ensure_future(consumer.pull(queue, 1, suspend_ms=15_000))
                parts = broker.parts
                assert parts is not None
                await until(lambda: parts.requests.long_polls.count == 1)
                await broker.stop()
                result = await waiting
                assert result.messages() == [] and result.next_offset == 1

    asyncio.run(scenario())


def test_a_taken_port_is_an_os_error_and_leaves_the_directory_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            broker = make_broker(tmp_path / "data", listenPort=str(taken.getsockname()[1]))
            with pytest.raises(OSError):
                await broker.start()
            await broker.stop()
            assert not (tmp_path / "data").exists()
        other = make_broker(tmp_path / "data")
        await other.start()
        await other.stop()

    asyncio.run(scenario())


def test_a_directory_in_use_is_refused_and_its_owner_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            owner = make_broker(tmp_path / "data", namesrv.address)
            await owner.start()
            second = make_broker(tmp_path / "data")
            with pytest.raises(StoreError, match="lock"):
                await second.start()
            await second.stop()
            async with Producer("P", namesrv=namesrv.address) as producer:
                assert (await producer.send(Message("T", b"1"))).queue_offset == 0
            await owner.stop()
            assert not (tmp_path / "data/abort").exists()

    asyncio.run(scenario())


def test_a_failed_start_frees_port_and_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "data/commitlog").mkdir(parents=True)
        odd = tmp_path / "data/commitlog/00000000000000000000"
        odd.write_bytes(b"x" * 12_345)
        broker = make_broker(tmp_path / "data")
        with pytest.raises(StoreError, match="mappedFileSizeCommitLog"):
            await broker.start()
        port = broker.config.listen_port
        await broker.stop()
        odd.unlink()
        again = make_broker(tmp_path / "data", listenPort=str(port))
        await again.start()
        await again.stop()

    asyncio.run(scenario())


def test_name_servers_that_are_away_do_not_keep_it_from_serving(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.socket() as unheard:
            unheard.bind(("127.0.0.1", 0))  # no process listens
            broker = make_broker(tmp_path / "data", f"127.0.0.1:{unheard.getsockname()[1]}")
            address = await broker.start()
            host, port = address.split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            await writer.wait_closed()
            await broker.stop()
        assert not (tmp_path / "data/abort").exists()

    asyncio.run(scenario())


class HeldTables(RealFiles):
    """Saves of JSON tables hang while :attr:`released` is cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.released = Event()
        self.released.set()
        self.held_count = 0

    def sync_dir(self, path: str) -> None:
        if path.endswith("/config") and not self.released.is_set():
            self.held_count += 1
            assert self.released.wait(DEADLINE_S)
        super().sync_dir(path)


def test_a_disk_that_hangs_holds_up_the_operator_s_change_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = HeldTables()
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "data", namesrv.address, files=files)
            address = await broker.start()
            async with (
                Admin(namesrv.address) as admin,
                Producer("P", namesrv=namesrv.address) as producer,
                PullConsumer("G", namesrv=namesrv.address) as consumer,
            ):
                await admin.topics.put(address, TopicConfig(topic_name="T"))
                files.released.clear()
                waiting = asyncio.ensure_future(admin.topics.put(address, TopicConfig(topic_name="U")))
                await until(lambda: files.held_count == 1)
                # The group is made on the way, by the pull.
                result = await producer.send(Message("T", b"hello"))
                assert result.queue in await consumer.queues("T")
                found = await consumer.pull(result.queue, 0)
                assert [message.body for message in found.messages()] == [b"hello"]
                assert broker.parts is not None and broker.parts.metadata.topics.get("U") is None
                assert not waiting.done()
                files.released.set()
                await waiting
                assert broker.parts.metadata.topics.get("U") is not None
            await broker.stop()
            again = make_broker(tmp_path / "data", namesrv.address)
            await again.start()
            assert again.parts is not None
            assert {"T", "U"} <= again.parts.metadata.topics.all().keys() and "G" in again.parts.metadata.groups.all()
            await again.stop()

    asyncio.run(scenario())


def test_answers_under_sync_flush_come_after_the_disk_has_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "data", namesrv.address, flushDiskType="SYNC_FLUSH")
            await broker.start()
            parts = broker.parts
            assert parts is not None
            async with Producer("P", namesrv=namesrv.address) as producer:
                for _ in range(20):
                    results = await asyncio.gather(*[producer.send(Message("T", b"x")) for _ in range(8)])
                    assert all(result.status.value == "SEND_OK" for result in results)
                    assert parts.store.synced_offset == parts.store.physical_max_offset
            assert 1 <= parts.messages.flusher.sync_count < 20 * 8
            await broker.stop()

    asyncio.run(scenario())


@pytest.mark.slow
def test_pulls_are_moved_on_after_an_operator_deletes_old_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings: dict[str, Any] = {
            "mappedFileSizeCommitLog": "65536",
            "mappedFileSizeConsumeQueue": "400",
            "fileReservedTime": "1",
        }
        queue = MessageQueue("T", "broker-a", 0)
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "data", namesrv.address, **settings)
            address = await broker.start()
            assert broker.parts is not None
            log = broker.parts.store._log
            async with (
                Admin(namesrv.address) as admin,
                Producer("P", namesrv=namesrv.address) as producer,
                PullConsumer("G", namesrv=namesrv.address) as consumer,
            ):
                await admin.topics.put(address, TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1))
                for number in range(300):
                    await producer.send(Message("T", b"%d" % number + b"x" * 1000, keys=f"k{number}"), queue=queue)
                assert len(list((tmp_path / "data/commitlog").iterdir())) == len(log.segments) > 4
                for path in (tmp_path / "data/commitlog").iterdir():
                    old_s = path.stat().st_mtime - 3600
                    os.utime(path, (old_s, old_s))
                await admin.brokers.delete_expired_commit_log(address)
                await until(lambda: len(log.segments) == 1)
                await until(lambda: len(list((tmp_path / "data/consumequeue/T/0").iterdir())) <= 5)
                assert len(list((tmp_path / "data/commitlog").iterdir())) == 1
                low = await consumer.min_offset(queue)
                assert 200 < low < 300
                moved = await consumer.pull(queue, 0)
                assert not moved.messages() and moved.next_offset == low
                found = await consumer.pull(queue, low)
                assert found.messages()[0].body.startswith(b"%dx" % low)
                # Nothing of what is still there was harmed, and the queue goes on where it was.
                assert (await producer.send(Message("T", b"next"), queue=queue)).queue_offset == 300
            await broker.stop()
            again = make_broker(tmp_path / "data", namesrv.address, **settings)
            await again.start()
            assert again.parts is not None and again.recovery is not None and again.recovery.clean
            assert (again.parts.store.min_offset("T", 0), again.parts.store.max_offset("T", 0)) == (low, 301)
            await again.stop()

    asyncio.run(scenario())


def test_a_kept_setting_is_there_after_a_restart_and_others_are_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "data", namesrv.address, maxTopics="30")
            address = await broker.start()
            async with Admin(namesrv.address) as admin:
                await admin.settings.change(address, {"maxTopics": "40", "brokerRole": "SYNC_MASTER"}, is_kept=True)
                await admin.settings.change(address, {"maxGroups": "50", "connectionCountMax": "2"})
                assert broker.server.limits.connection_count_max == 2
            await broker.stop()
            again = make_broker(tmp_path / "data", namesrv.address, maxTopics="30")
            address = await again.start()
            async with Admin(namesrv.address) as admin:
                read = await admin.settings.read(address)
                assert (read.values["maxTopics"], read.origin("maxTopics")) == ("40", "kept")
                assert (read.values["brokerRole"], read.values["maxGroups"]) == ("SYNC_MASTER", "10000")
                await admin.settings.change(address, {}, forget=["maxTopics"])
                assert again.config.get("maxTopics") == 30
            await again.stop()

    asyncio.run(scenario())
