"""Load for a broker that is about to be killed, from PyMQ's own client, and the record of what it acknowledged."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Protocol

from pymq.client import Message, MessageQueue, Producer, SendResult
from pymq.errors import PymqError
from pymq.testing.standalone import StandaloneProcess
from tests.client.scenarios import until

TOPIC = "Killed"
QUEUE_COUNT = 4
SENDER_COUNT = 24
# A round ends at a random moment after this many acknowledged messages.
ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX = 200, 1500
SIGKILLED = -9


@dataclass
class Load:
    """The messages sent and acknowledged in all rounds. ``kill_count`` counts brokers that really died of SIGKILL."""

    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (queue, offset) -> body
    sent: set[bytes] = field(default_factory=set)
    in_flight: int = 0  # requests without an answer when the broker was killed
    kill_count: int = 0

    def note(self, queue_id: int, queue_offset: int, body: bytes) -> None:
        """Note an acknowledged message. Raises AssertionError when its place was acknowledged before."""
        assert (queue_id, queue_offset) not in self.acknowledged, f"{(queue_id, queue_offset)} was acknowledged twice"
        self.acknowledged[queue_id, queue_offset] = body

    async def kill(self, servers: StandaloneProcess) -> None:
        """Send SIGKILL while the senders go on. Answers that arrive at that moment still count."""
        code = await asyncio.to_thread(servers.kill)
        assert code == SIGKILLED, f"the broker had ended by itself with {code}:\n{servers.stderr}"
        self.kill_count += 1


class Sending(Protocol):
    """A client that sends in one round."""

    async def until_killed(self, servers: StandaloneProcess, load: Load, rng: random.Random) -> None:
        """Send from many senders, kill the broker at a random moment, and return when all senders have noticed."""
        ...

    async def close(self) -> None:
        """End the client."""
        ...


class PymqSending:
    """PyMQ's producer: single messages and batches from many tasks."""

    def __init__(self) -> None:
        self._number = 0
        self._in_flight = 0

    async def until_killed(self, servers: StandaloneProcess, load: Load, rng: random.Random) -> None:
        goal = len(load.acknowledged) + rng.randrange(ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX)
        self._in_flight = 0
        async with Producer("P", namesrv=servers.namesrv, retry_count=0) as producer:
            queue = MessageQueue(TOPIC, (await producer.queues(TOPIC))[0].broker_name, 0)
            senders = [
                asyncio.ensure_future(self._send(producer, load, random.Random(rng.random()), queue))
                for _ in range(SENDER_COUNT)
            ]
            await until(lambda: len(load.acknowledged) >= goal or any(task.done() for task in senders), "the load")
            assert not any(task.done() for task in senders), "a send failed before the kill"
            load.in_flight += self._in_flight
            await load.kill(servers)
            await asyncio.gather(*senders)

    async def close(self) -> None:
        """Do nothing: each round has its own producer."""

    async def _send(self, producer: Producer, load: Load, rng: random.Random, broker: MessageQueue) -> None:
        """Run one of many senders: one request after the other until the broker is gone."""
        while True:
            count = rng.choice((1, 1, 1, 2, 7))
            messages = self._messages(load, count, b"x" * rng.randrange(300))
            queue = broker._replace(queue_id=rng.randrange(QUEUE_COUNT))
            self._in_flight += 1
            try:
                result = await self._attempt(producer, messages, queue)
            except PymqError:
                return
            self._in_flight -= 1
            for place, message in enumerate(messages):
                load.note(result.queue.queue_id, result.queue_offset + place, message.body)

    async def _attempt(self, producer: Producer, messages: list[Message], queue: MessageQueue) -> SendResult:
        if len(messages) == 1:
            return await producer.send(messages[0], queue=queue, timeout_s=30)
        return await producer.send_batch(messages, queue=queue, timeout_s=30)

    def _messages(self, load: Load, count: int, blank: bytes) -> list[Message]:
        made = []
        for _ in range(count):
            body = b"%d-" % self._number + blank
            made.append(Message(TOPIC, body, tags="AB"[self._number % 2], keys=f"k{self._number}"))
            load.sent.add(body)
            self._number += 1
        return made
