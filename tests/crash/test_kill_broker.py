"""``kill -9`` of a real broker under load, again and again: what it acknowledged is there, in its place, once."""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer, SendResult
from pymq.errors import PymqError
from pymq.model.record import StoredMessage
from pymq.model.tables import TopicConfig
from pymq.testing.standalone import StandaloneProcess
from tests.client.scenarios import until

KILL_COUNT = int(os.environ.get("PYMQ_KILL_COUNT", "5"))
SEED = int(os.environ.get("PYMQ_KILL_SEED", "1789"))
TOPIC = "Killed"
QUEUE_COUNT = 4
SENDER_COUNT = 24
# A round ends at a random moment after so many acknowledged messages.
ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX = 200, 1500
# Small segments and queue files, so that kills meet their ends; offsets are saved as often as the settings allow.
SETTINGS = {
    "mappedFileSizeCommitLog": "262144",
    "mappedFileSizeConsumeQueue": "8000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "flushConsumerOffsetInterval": "100",
}


@dataclass
class Load:
    """What was sent, what was acknowledged, and what is on its way."""

    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (queue, offset) -> body
    sent: set[bytes] = field(default_factory=set)
    in_flight: int = 0
    number: int = 0

    def messages(self, count: int, filler: bytes) -> list[Message]:
        made = []
        for _ in range(count):
            body = b"%d-" % self.number + filler
            made.append(Message(TOPIC, body, tags="AB"[self.number % 2], keys=f"k{self.number}"))
            self.sent.add(body)
            self.number += 1
        return made

    def note(self, result: SendResult, messages: list[Message]) -> None:
        for place, message in enumerate(messages):
            at = (result.queue.queue_id, result.queue_offset + place)
            assert at not in self.acknowledged, f"{at} was acknowledged twice"
            self.acknowledged[at] = message.body


async def send_until_killed(producer: Producer, load: Load, rng: random.Random, broker: MessageQueue) -> None:
    """One of many senders: single messages and batches, one after the other, until the broker is gone."""
    while True:
        count = rng.choice((1, 1, 1, 2, 7))
        messages = load.messages(count, b"x" * rng.randrange(300))
        queue = broker._replace(queue_id=rng.randrange(QUEUE_COUNT))
        load.in_flight += 1
        try:
            if count == 1:
                result = await producer.send(messages[0], queue=queue)
            else:
                result = await producer.send_batch(messages, queue=queue)
        except PymqError:
            return
        load.in_flight -= 1
        load.note(result, messages)


async def load_and_kill(servers: StandaloneProcess, load: Load, rng: random.Random) -> int:
    """Sends from many tasks until a random moment, then kills; how many requests had no answer at that moment."""
    goal = len(load.acknowledged) + rng.randrange(ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX)
    load.in_flight = 0
    async with Producer("P", namesrv=servers.namesrv, retry_count=0) as producer:
        queue = MessageQueue(TOPIC, (await producer.queues(TOPIC))[0].broker_name, 0)
        senders = [
            asyncio.ensure_future(send_until_killed(producer, load, random.Random(rng.random()), queue))
            for _ in range(SENDER_COUNT)
        ]
        await until(lambda: len(load.acknowledged) >= goal or all(task.done() for task in senders), "the load")
        assert not any(task.done() for task in senders), "a send failed before the kill"
        in_flight = load.in_flight
        # The senders go on while the signal is sent; those whose answer is on its way still count as acknowledged.
        await asyncio.to_thread(servers.kill)
        await asyncio.gather(*senders)
        return in_flight


async def read_queue(consumer: PullConsumer, queue: MessageQueue) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
    while offset < end:
        result = await consumer.pull(queue, offset)
        found += result.messages()
        assert result.next_offset > offset
        offset = result.next_offset
    return found


async def check(servers: StandaloneProcess, load: Load, rng: random.Random) -> int:
    """Every acknowledged message in its place, nothing twice, queue and log and index agree; messages found."""
    async with PullConsumer("G", namesrv=servers.namesrv) as consumer, Admin(servers.namesrv) as admin:
        queues = await consumer.queues(TOPIC)
        assert len(queues) == QUEUE_COUNT
        stored: dict[tuple[int, int], StoredMessage] = {}
        for queue in queues:
            messages = await read_queue(consumer, queue)
            assert [message.queue_offset for message in messages] == list(range(len(messages)))
            stored.update({(queue.queue_id, message.queue_offset): message for message in messages})
        lost = [at for at in load.acknowledged if at not in stored]
        assert not lost, f"{len(lost)} acknowledged messages are gone, the first at (queue, offset) {min(lost)}"
        for at, body in load.acknowledged.items():
            assert stored[at].body == body
        bodies = [message.body for message in stored.values()]
        assert len(set(bodies)) == len(bodies), "a message is there twice"
        assert set(bodies) <= load.sent
        places = [message.physical_offset for message in stored.values()]
        assert len(set(places)) == len(places)
        for at in rng.sample(sorted(stored), min(30, len(stored))):
            message = stored[at]
            by_place = await admin.messages.by_offset_id(message.offset_message_id)
            assert (by_place.queue_id, by_place.queue_offset, by_place.body) == (*at, message.body)
            (by_key,) = await admin.messages.by_key(TOPIC, message.keys)
            assert by_key.body == message.body
        return len(stored)


async def restart(servers: StandaloneProcess, directory: Path) -> StandaloneProcess:
    """A new process at the old addresses on the old directory."""
    ports = [int(address.rpartition(":")[2]) for address in (servers.namesrv, servers.broker)]
    again = StandaloneProcess(directory, settings=SETTINGS, namesrv_port=ports[0], port=ports[1])
    await asyncio.to_thread(again.start)
    assert again.broker == servers.broker
    return again


async def commit_everywhere(servers: StandaloneProcess, directory: Path) -> dict[int, int]:
    """Commits each queue's end for a group and waits until the broker has saved it; queue -> offset."""
    async with PullConsumer("Kept", namesrv=servers.namesrv) as consumer:
        ends = {}
        for queue in await consumer.queues(TOPIC):
            await consumer.pull(queue, 0)  # which makes the group
            ends[queue.queue_id] = await consumer.max_offset(queue)
            await consumer.commit(queue, ends[queue.queue_id])
        table = directory / "config" / "consumerOffset.json"
        wanted = [f'"{queue_id}": {end}' for queue_id, end in ends.items()]
        await until(lambda: table.exists() and all(text in table.read_text() for text in wanted), "the saved offsets")
        return ends


async def check_commits(servers: StandaloneProcess, ends: dict[int, int]) -> None:
    async with PullConsumer("Kept", namesrv=servers.namesrv) as consumer:
        for queue in await consumer.queues(TOPIC):
            assert await consumer.committed(queue) == ends[queue.queue_id]


async def kill_again_and_again(directory: Path) -> tuple[int, int, int, int]:
    rng = random.Random(SEED)
    load = Load()
    in_flight = stored = 0
    servers = StandaloneProcess(directory, settings=SETTINGS)
    await asyncio.to_thread(servers.start)
    try:
        async with Admin(servers.namesrv) as admin:
            config = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT)
            await admin.topics.put(servers.broker, config)
        for _ in range(KILL_COUNT):
            ends = await commit_everywhere(servers, directory)
            in_flight += await load_and_kill(servers, load, rng)
            servers = await restart(servers, directory)
            stored = await check(servers, load, rng)
            await check_commits(servers, ends)
        assert await asyncio.to_thread(servers.stop) == 0
        servers = await restart(servers, directory)
        assert await check(servers, load, rng) == stored
    finally:
        await asyncio.to_thread(servers.stop)
    return len(load.acknowledged), len(load.sent), stored, in_flight


def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    acknowledged, sent, stored, in_flight = asyncio.run(kill_again_and_again(tmp_path / "data"))
    print(
        f"{KILL_COUNT} kills, {sent} messages sent, {acknowledged} acknowledged and all there, {stored} stored, "
        f"{in_flight} requests in flight at the kills"
    )
    assert in_flight > 0, "every request was answered when the broker died: the kills tested nothing"
    assert acknowledged >= KILL_COUNT * ACKNOWLEDGED_MIN
