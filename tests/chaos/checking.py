"""Checks that acknowledged and seen messages are where they were, on every broker, and that committed offsets stay."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pymq.client import PullConsumer, PullStatus
from pymq.errors import PymqError
from tests.chaos.group import Broker, Group
from tests.chaos.load import QUEUE_COUNT, TOPIC, Ledger, Place
from tests.client.scenarios import until
from tests.interop.support import contents
from tests.interop.support.probe import Record

COMMIT_TIMEOUT_S = 30.0
READ_PAUSE_S = 0.05
GROUP = "chaos-settled"
READER = "chaos-reader"


class Watcher:
    """A consumer that always reads from the current master: what it saw must never be taken back."""

    def __init__(self, namesrv: str) -> None:
        self.seen: dict[Place, bytes] = {}
        self.problems: list[str] = []
        self._namesrv = namesrv
        self._next = dict.fromkeys(range(QUEUE_COUNT), 0)
        self._task = asyncio.ensure_future(self._watch())

    async def end(self) -> None:
        """Stop reading. Raises the error that ended it before."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if not self._task.cancelled():
            self._task.result()

    async def _watch(self) -> None:
        while True:
            try:
                async with PullConsumer(READER, namesrv=self._namesrv, poll_interval_s=0.5) as consumer:
                    while True:
                        await self._read(consumer)
            except PymqError:
                await asyncio.sleep(READ_PAUSE_S)

    async def _read(self, consumer: PullConsumer) -> None:
        for queue in await consumer.queues(TOPIC):
            offset = self._next[queue.queue_id]
            result = await consumer.pull(queue, offset)
            for message in result.messages():
                self.seen[queue.queue_id, message.queue_offset] = message.body
            if result.status is PullStatus.OFFSET_ILLEGAL:
                self.problems.append(f"queue {queue.queue_id} ended at {result.max_offset} when {offset} was seen")
            self._next[queue.queue_id] = max(offset, result.next_offset)
        await asyncio.sleep(READ_PAUSE_S)


class Commits:
    """Offsets of a group that every broker has saved; none of them may go back on any of them."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._settled: dict[int, int] = {}

    async def settle(self) -> None:
        """Check what was settled before, then commit the queues' ends and wait until all brokers have saved them."""
        for broker in self._group.brokers:
            self._check(broker)
        ends = await self._commit()
        brokers = self._group.brokers
        await until(lambda: all(_has(broker, ends) for broker in brokers), f"{ends} to be saved", COMMIT_TIMEOUT_S)
        self._settled = ends

    def _check(self, broker: Broker) -> None:
        for queue, offset in self._settled.items():
            now = contents.committed(broker.broker, GROUP, TOPIC, queue)
            assert now is not None and now >= offset, (
                f"{broker.public_address}, queue {queue}: {offset} went back to {now}"
            )

    async def _commit(self) -> dict[int, int]:
        ends: dict[int, int] = {}
        async with PullConsumer(GROUP, namesrv=self._group.namesrv.address) as consumer:
            for queue in await consumer.queues(TOPIC):
                ends[queue.queue_id] = await consumer.max_offset(queue)
                await consumer.pull(queue, ends[queue.queue_id])  # this creates the group
                await consumer.commit(queue, ends[queue.queue_id])
        return ends


def _has(broker: Broker, ends: dict[int, int]) -> bool:
    saved = broker.committed(TOPIC, GROUP)
    return all(saved.get(queue, -1) >= offset for queue, offset in ends.items())


async def check_all(group: Group, ledger: Ledger, seen: dict[Place, bytes]) -> int:
    """Compare every broker's messages with what is known, and the logs with each other. Return the number stored.

    The load has ended. Raises AssertionError naming the first thing that is wrong.
    """
    assert not ledger.problems, f"{len(ledger.problems)} answers are wrong, the first: {ledger.problems[0]}"
    end = await group.same_end()
    stored_count = 0
    for broker in group.brokers:
        records = await asyncio.to_thread(_read_all, broker)
        try:
            compare(records, ledger, seen)
        except AssertionError as wrong:
            raise AssertionError(f"{broker.public_address} (id {broker.broker_id} at first): {wrong}") from None
        stored_count = len(records)
    await asyncio.to_thread(_compare_logs, group, end)
    return stored_count


def _read_all(broker: Broker) -> dict[Place, Record]:
    return {
        (queue, record.queue_offset): record
        for queue in range(QUEUE_COUNT)
        for record in contents.read_queue(broker.broker, TOPIC, queue)
    }


def compare(stored: dict[Place, Record], ledger: Ledger, seen: dict[Place, bytes]) -> None:
    lost = [place for place in ledger.acknowledged if place not in stored]
    assert not lost, f"{len(lost)} acknowledged messages are lost, the first at (queue, offset) {min(lost)}"
    for place, known in ledger.acknowledged.items():
        record = stored[place]
        assert record.body == known.body, f"{place} was acknowledged with {known.body!r} and has {record.body!r}"
        found = record.physical_offset
        assert found == known.log_offset, f"{place} is at {found} in the log, acknowledged was {known.log_offset}"
    taken_back = [place for place, body in seen.items() if place not in stored or stored[place].body != body]
    assert not taken_back, f"{len(taken_back)} messages that were seen are gone, the first at {min(taken_back)}"
    bodies = [record.body for record in stored.values()]
    assert len(set(bodies)) == len(bodies), "a message is there twice"
    assert set(bodies) <= ledger.sent, f"never sent: {min(set(bodies) - ledger.sent)!r}"
    refused = ledger.not_stored.intersection(bodies)
    assert not refused, f"{len(refused)} messages are there that were refused with 14, one is {min(refused)!r}"


def _compare_logs(group: Group, end: int) -> None:
    """Compare the logs byte for byte, from the first segment that all have up to ``end``."""
    paths = [_segments(broker) for broker in group.brokers]
    shared = sorted(set(paths[0]).intersection(*paths[1:]))
    assert shared and shared[0] == 0, f"the logs begin at {[min(found, default=None) for found in paths]}"
    for start in shared:
        size = end - start
        first, *others = [found[start].read_bytes()[: max(size, 0)] for found in paths]
        assert all(other == first for other in others), f"the segments at {start} differ before {end}"


def _segments(broker: Broker) -> dict[int, Path]:
    return {int(path.name): path for path in sorted((broker.store / "commitlog").iterdir()) if path.name.isdigit()}
