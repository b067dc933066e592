"""Checks a store whose broker was killed: every acknowledged message is there, in its place, once."""

from __future__ import annotations

import random
from pathlib import Path

from pymq.client import Admin, MessageQueue, PullConsumer
from pymq.model.record import StoredMessage
from pymq.testing.standalone import StandaloneProcess
from tests.client.scenarios import until
from tests.crash.kill_load import QUEUE_COUNT, TOPIC, Load

LOOKUP_COUNT = 30
GROUP = "Kept"


async def check(servers: StandaloneProcess, load: Load, rng: random.Random) -> int:
    """Check that queues, log and index agree with each other and with ``load``. Returns the number of messages.

    Raises AssertionError naming the first thing that is wrong.
    """
    async with PullConsumer("G", namesrv=servers.namesrv) as consumer, Admin(servers.namesrv) as admin:
        queues = await consumer.queues(TOPIC)
        assert len(queues) == QUEUE_COUNT
        stored: dict[tuple[int, int], StoredMessage] = {}
        for queue in queues:
            messages = await _read_queue(consumer, queue)
            assert [message.queue_offset for message in messages] == list(range(len(messages)))
            stored.update({(queue.queue_id, message.queue_offset): message for message in messages})
        compare(stored, load)
        for at in rng.sample(sorted(stored), min(LOOKUP_COUNT, len(stored))):
            message = stored[at]
            by_place = await admin.messages.by_offset_id(message.offset_message_id)
            assert (by_place.queue_id, by_place.queue_offset, by_place.body) == (*at, message.body)
            (by_key,) = await admin.messages.by_key(TOPIC, message.keys)
            assert by_key.body == message.body
        return len(stored)


def compare(stored: dict[tuple[int, int], StoredMessage], load: Load) -> None:
    """Compare the stored messages, by (queue, offset), with ``load``. Raises AssertionError."""
    lost = [at for at in load.acknowledged if at not in stored]
    assert not lost, f"{len(lost)} acknowledged messages are lost, the first at (queue, offset) {min(lost)}"
    changed = [at for at, body in load.acknowledged.items() if stored[at].body != body]
    assert not changed, f"{len(changed)} acknowledged messages are others now, the first at {min(changed)}"
    bodies = [message.body for message in stored.values()]
    assert len(set(bodies)) == len(bodies), "a message is there twice"
    made_up = set(bodies) - load.sent
    assert not made_up, f"{len(made_up)} messages were never sent, one is {min(made_up)!r}"
    places = [message.physical_offset for message in stored.values()]
    assert len(set(places)) == len(places), "two queue units lead to one record"


async def _read_queue(consumer: PullConsumer, queue: MessageQueue) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
    while offset < end:
        result = await consumer.pull(queue, offset)
        found += result.messages()
        assert result.next_offset > offset
        offset = result.next_offset
    return found


async def commit_everywhere(servers: StandaloneProcess, directory: Path) -> dict[int, int]:
    """Commit each queue's end for a group and wait until the broker has saved it. Returns queue -> offset."""
    async with PullConsumer(GROUP, namesrv=servers.namesrv) as consumer:
        ends = {}
        for queue in await consumer.queues(TOPIC):
            await consumer.pull(queue, 0)  # creates the group
            ends[queue.queue_id] = await consumer.max_offset(queue)
            await consumer.commit(queue, ends[queue.queue_id])
        table = directory / "config" / "consumerOffset.json"
        wanted = [f'"{queue_id}": {end}' for queue_id, end in ends.items()]
        await until(lambda: table.exists() and all(text in table.read_text() for text in wanted), "the saved offsets")
        return ends


async def check_commits(servers: StandaloneProcess, ends: dict[int, int]) -> None:
    """Check that the offsets saved before the kill are still committed."""
    async with PullConsumer(GROUP, namesrv=servers.namesrv) as consumer:
        for queue in await consumer.queues(TOPIC):
            assert await consumer.committed(queue) == ends[queue.queue_id], queue
