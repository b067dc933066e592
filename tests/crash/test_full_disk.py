"""A real broker whose files may not grow: it refuses sends with the reason and does everything else."""

from __future__ import annotations

import asyncio
import re
import resource
from pathlib import Path

import pytest

from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer
from pymq.errors import RefusedError
from pymq.model.tables import TopicConfig
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.codes import ResponseCode

SEGMENT_SIZE_BYTES = 262_144
SETTINGS = {
    "mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES),
    "mappedFileSizeConsumeQueue": "8000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "flushIntervalConsumeQueue": "10",
}
QUEUE = MessageQueue("T", "broker-a", 0)
BODY_SIZE_BYTES = 1000
REMARK = re.compile(r"the store can't write \S+/commitlog\S*: File too large \(errno 27\), .+ free there; make room")

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit (Linux)")


def limit_files(pid: int, size_bytes: int) -> None:
    """Limit the process's files to ``size_bytes``. Sets only the soft limit, so that it can be lifted."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))


class Sender:
    """Sends numbered messages to one queue, and keeps the acknowledged bodies by offset."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._number = 0
        self.acknowledged: dict[int, bytes] = {}

    async def send(self) -> None:
        body = (b"%d-" % self._number).ljust(BODY_SIZE_BYTES, b"x")
        self._number += 1
        result = await self._producer.send(Message("T", body, keys="k"), queue=QUEUE)
        assert result.queue_offset not in self.acknowledged
        self.acknowledged[result.queue_offset] = body

    async def refused(self) -> RefusedError:
        with pytest.raises(RefusedError) as error:
            await self.send()
        return error.value


async def stored(namesrv: str) -> dict[int, bytes]:
    async with PullConsumer("G", namesrv=namesrv) as consumer:
        await consumer.queues("T")
        found: dict[int, bytes] = {}
        offset, end = 0, await consumer.max_offset(QUEUE)
        while offset < end:
            result = await consumer.pull(QUEUE, offset)
            found.update({message.queue_offset: message.body for message in result.messages()})
            assert result.next_offset > offset
            offset = result.next_offset
        await consumer.commit(QUEUE, end)
        assert await consumer.committed(QUEUE) == end
    return found


async def check_refusals_and_reads(sender: Sender, servers: StandaloneProcess) -> None:
    """Check that single and concurrent sends are refused, and that pulls, offsets and administration work."""
    error = await sender.refused()
    assert error.code == ResponseCode.SERVICE_NOT_AVAILABLE and REMARK.search(error.remark), error.remark
    before = len(sender.acknowledged)
    outcomes = await asyncio.gather(*[sender.send() for _ in range(20)], return_exceptions=True)
    assert all(isinstance(one, RefusedError) and one.code == error.code for one in outcomes), outcomes
    assert len(sender.acknowledged) == before
    assert await stored(servers.namesrv) == sender.acknowledged
    async with Admin(servers.namesrv) as admin:
        assert [master.address for master in await admin.cluster.masters()] == [servers.broker]
        assert "T" in await admin.topics.names()


async def fill_up_and_make_room(directory: Path, limit_bytes: int) -> None:
    servers = StandaloneProcess(directory, settings=SETTINGS)
    await asyncio.to_thread(servers.start)
    try:
        async with Admin(servers.namesrv) as admin:
            await admin.topics.put(servers.broker, TopicConfig(topic_name="T"))
        async with Producer("P", namesrv=servers.namesrv, retry_count=0) as producer:
            sender = Sender(producer)
            for _ in range(100):
                await sender.send()
            assert await stored(servers.namesrv) == sender.acknowledged  # this creates the group
            limit_files(servers.pid, limit_bytes)
            for _ in range(limit_bytes // BODY_SIZE_BYTES):
                try:
                    await sender.send()
                except RefusedError:
                    break
            await check_refusals_and_reads(sender, servers)
            # With room again no restart is needed, and refused messages have used up no offset.
            limit_files(servers.pid, resource.RLIM_INFINITY)
            for _ in range(400):
                await sender.send()
            assert sorted(sender.acknowledged) == list(range(len(sender.acknowledged)))
            assert await stored(servers.namesrv) == sender.acknowledged
        await asyncio.to_thread(servers.kill)
        servers = StandaloneProcess(directory, settings=SETTINGS)
        await asyncio.to_thread(servers.start)
        assert await stored(servers.namesrv) == sender.acknowledged
        assert await asyncio.to_thread(servers.stop) == 0
    finally:
        await asyncio.to_thread(servers.stop)


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit_bytes",
    [
        0,  # nothing can be written
        200_500,  # in the middle of a segment: a write succeeds in part
        SEGMENT_SIZE_BYTES - 1,  # the next segment can't be created
    ],
)
def test_sends_are_refused_until_there_is_room(tmp_path: Path, limit_bytes: int) -> None:
    asyncio.run(fill_up_and_make_room(tmp_path / "data", limit_bytes))


@pytest.mark.slow
def test_a_broker_killed_while_the_disk_is_full_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        servers = StandaloneProcess(tmp_path / "data", settings=SETTINGS)
        await asyncio.to_thread(servers.start)
        try:
            async with Admin(servers.namesrv) as admin:
                await admin.topics.put(servers.broker, TopicConfig(topic_name="T"))
            async with Producer("P", namesrv=servers.namesrv, retry_count=0) as producer:
                sender = Sender(producer)
                for _ in range(50):
                    await sender.send()
                limit_files(servers.pid, 80_500)
                while True:
                    try:
                        await sender.send()
                    except RefusedError:
                        break
                await sender.refused()
            await asyncio.to_thread(servers.kill)
            servers = StandaloneProcess(tmp_path / "data", settings=SETTINGS)
            await asyncio.to_thread(servers.start)
            assert await stored(servers.namesrv) == sender.acknowledged
        finally:
            await asyncio.to_thread(servers.stop)

    asyncio.run(scenario())
