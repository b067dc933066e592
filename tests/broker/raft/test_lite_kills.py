"""Three real processes, whose leader is killed while clients pop lite topics.

What was acknowledged to its sender is popped, each lite topic in order. What is handed out stays so, once the group has
it, and its receipt counts at the next leader; so does the rule that one client of an exclusive group has a lite topic.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Admin, LiteConsumer, Message, Producer, Received, SendStatus
from pymq.errors import PymqError
from pymq.model.lite_topics import light_queue_name
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from tests.broker.raft.processes import RaftProcesses

PARENT = "Sessions"
READERS, HOLDERS = "readers", "holders"
LITES = [f"session-{number}" for number in range(4)]
HELD, FREE, OTHER = "held", "free", "other"
READER_COUNT = 2
LOAD_COUNT = 20  # acknowledged sends before the kill, and after it
SEND_TIMEOUT_S = 1.0
PAUSE_S = 0.02
INVISIBLE_MS = 3000  # of what the readers get: what a kill keeps them from acknowledging comes again after it
HELD_MS = 600_000  # longer than the test
WAIT_S = 40.0


class Load:
    """A sender for each lite topic, which repeats each message until it is acknowledged, and the group that reads."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self.acknowledged: dict[str, list[int]] = {lite: [] for lite in LITES}
        self.popped: dict[str, list[int]] = defaultdict(list)  # in the order of their first hand-outs
        self.is_sending = True

    @property
    def sent_count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    @property
    def left(self) -> dict[str, set[int]]:
        """What was acknowledged to its sender, and came to no reader."""
        left = {lite: set(numbers) - set(self.popped[lite]) for lite, numbers in self.acknowledged.items()}
        return {lite: numbers for lite, numbers in left.items() if numbers}

    async def until_sent(self, count: int) -> None:
        """Wait until so many more messages are acknowledged to their senders."""
        goal = self.sent_count + count
        await until(lambda: self.sent_count >= goal, lambda: f"{self.sent_count} sends of {goal}")

    async def send(self, producer: Producer, lite: str) -> None:
        number = 0
        while self.is_sending:
            with contextlib.suppress(PymqError):
                message = Message(PARENT, b"%d" % number, lite_topic=lite)
                result = await producer.send(message, timeout_s=SEND_TIMEOUT_S)
                if result.status is SendStatus.SEND_OK:
                    self.acknowledged[lite].append(number)
                    number += 1
            await asyncio.sleep(PAUSE_S)

    async def read(self, consumer: LiteConsumer) -> None:
        """Receive and acknowledge, until it is cancelled."""
        while True:
            try:
                for received in await consumer.receive(8, invisible_ms=INVISIBLE_MS, wait_ms=500):
                    number, seen = int(received.message.body), self.popped[received.lite_topic or ""]
                    if number not in seen:
                        seen.append(number)
                    await consumer.ack(received)
            except PymqError:
                await asyncio.sleep(PAUSE_S)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send and read within this context; at its end wait until all is read."""
        async with contextlib.AsyncExitStack() as stack:
            producer = await stack.enter_async_context(Producer("p", namesrv=self._namesrv, retry_count=0))
            readers = []
            for number in range(READER_COUNT):
                consumer = LiteConsumer(READERS, PARENT, namesrv=self._namesrv, instance_name=f"reader-{number}")
                await stack.enter_async_context(consumer)
                await consumer.subscribe(*LITES)
                readers.append(asyncio.create_task(self.read(consumer)))
            senders = [asyncio.create_task(self.send(producer, lite)) for lite in LITES]
            try:
                yield
                self.is_sending = False
                await asyncio.gather(*senders)
                await until(lambda: not self.left, lambda: f"messages that came to no reader: {self.left}")
            finally:
                for task in (*senders, *readers):
                    task.cancel()
                await asyncio.gather(*senders, *readers, return_exceptions=True)


async def until(is_true: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait for a condition; ``what`` is missing without it."""
    end_s = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < end_s, what()
        await asyncio.sleep(PAUSE_S)


async def insisting(do: Callable[[], Awaitable[object]], what: str) -> None:
    """Call it again until no broker refuses, while leaders come and go."""
    end_s = time.monotonic() + WAIT_S
    while True:
        try:
            await do()
            return
        except PymqError as error:
            assert time.monotonic() < end_s, f"{what}: {error}"
            await asyncio.sleep(PAUSE_S)


async def received_by(consumer: LiteConsumer) -> Received:
    """Return the next message, which comes soon."""
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        with contextlib.suppress(PymqError):
            found = await consumer.receive(1, invisible_ms=HELD_MS, wait_ms=500)
            if found:
                return found[0]
        await asyncio.sleep(PAUSE_S)
    raise AssertionError("no message came")


def knows_hand_out(group: RaftProcesses, node: str, offset: int) -> bool:
    """Return whether a node has the last hand-out of the held lite topic on its disk, and the offset of the group."""
    infos = queue_in(group, node, "consumerOrderInfo.json", "table")
    return (
        bool(infos) and infos["o"] == [offset] and queue_in(group, node, "consumerOffset.json", "offsetTable") == offset
    )


def queue_in(group: RaftProcesses, node: str, file: str, member: str) -> Any:
    """Return what a table on a node's disk has of the held lite topic; None for nothing."""
    path = group.root(node) / "config" / file
    table = json.loads(path.read_text())[member] if path.exists() else {}
    return table.get(f"{light_queue_name(PARENT, HELD)}@{HOLDERS}", {}).get("0")


async def set_up(admin: Admin, address: str) -> None:
    config = TopicConfig(topic_name=PARENT, read_queue_nums=1, write_queue_nums=1, attributes={"message.type": "LITE"})
    await admin.topics.put(address, config)
    for name, model in ((READERS, "Shared"), (HOLDERS, "Exclusive")):
        attributes = {"+lite.bind.topic": PARENT, "+lite.sub.model": model}
        await admin.groups.put(address, SubscriptionGroupConfig(group_name=name, attributes=attributes))


async def run(group: RaftProcesses) -> Load:
    load, lost = Load(group.namesrv), list[str]()
    async with (
        Admin(group.namesrv) as admin,
        Producer("q", namesrv=group.namesrv) as producer,
        LiteConsumer(HOLDERS, PARENT, namesrv=group.namesrv, instance_name="one", on_lost=lost.append) as one,
        LiteConsumer(HOLDERS, PARENT, namesrv=group.namesrv, instance_name="two") as two,
    ):
        leader = await group.until_registered(admin)
        await set_up(admin, group.address(leader))
        async with load.running():
            for number in range(3):
                await producer.send(Message(PARENT, b"%d" % number, lite_topic=HELD))
            await one.subscribe(HELD, FREE)
            await one.ack(await received_by(one))
            held = await received_by(one)
            assert (held.lite_topic, held.message.body) == (HELD, b"1")
            followers = [node for node in group.ports if node != leader]
            await until(
                lambda: all(knows_hand_out(group, node, 1) for node in followers), lambda: "the group has no hand-out"
            )
            await load.until_sent(LOAD_COUNT)
            await asyncio.to_thread(group.kill, leader)
            await group.leader(admin, besides=leader)
            await load.until_sent(LOAD_COUNT)
            await insisting(lambda: producer.send(Message(PARENT, b"f", lite_topic=FREE)), "a send")
            found = await received_by(one)
            assert found.lite_topic == FREE, "the other one is out"
            await insisting(lambda: one.ack(found), "an acknowledgement")
            await insisting(lambda: two.subscribe(HELD, OTHER), "a subscription")
            await until(lambda: lost == [HELD], lambda: f"the exclusive client lost {lost}")
            await insisting(lambda: producer.send(Message(PARENT, b"x", lite_topic=OTHER)), "a send")
            assert (await received_by(two)).lite_topic == OTHER, "what the first client has is out for this one, too"
            await insisting(lambda: one.ack(held), "an acknowledgement")
            assert (await received_by(two)).message.body == b"2"
    return load


@pytest.mark.slow
def test_clients_that_pop_lite_topics_go_on_when_the_leader_is_killed(tmp_path: Path) -> None:
    with RaftProcesses(tmp_path, settings={"flushConsumerOffsetInterval": "500"}) as group:
        load = asyncio.run(run(group))
    assert all(load.acknowledged.values())
    for lite, numbers in load.popped.items():
        assert numbers == list(range(len(numbers))), lite
