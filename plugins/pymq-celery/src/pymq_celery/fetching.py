"""Fetcher: which topics and brokers a channel pops next, so that it never has more messages than it has room for.

One topic on one broker has one pop that waits there for as many messages as there is room. Of several places each is
popped without waiting, the urgent ones first; when all are empty, pops for one message each wait at as many as there is
room for. A waiting pop can't be taken back, so its messages have room reserved.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from pymq.client.popping import POP_COUNT_MAX
from pymq.client.received import Received
from pymq.errors import PymqError
from pymq_celery.jobs import Fail, started
from pymq_celery.link import Link, is_away, is_gone

log = logging.getLogger(__name__)

LONG_POLL_MS = 15_000
RETRY_PAUSE_S = 1.0
BROKERS_KEPT_S = 30.0


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that a consumer reads: its topics, the most urgent one first."""

    consumer_tag: str
    topics: tuple[str, ...]


class Place(NamedTuple):
    """A topic of a queue on one broker, and which of the queue's steps it has."""

    step: int
    queue: Queue
    topic: str
    broker: str | None

    @property
    def key(self) -> tuple[str, str | None]:
        """What a pop asks for: two consumers of one topic share it."""
        return self.topic, self.broker


Accept = Callable[[Queue, str, list[Received], float], Awaitable[None]]


class Fetcher:
    """Runs on the link's loop. ``room`` says how many messages more the channel may hold, ``accept`` takes them."""

    def __init__(self, link: Link, room: Callable[[], int], accept: Accept, fail: Fail) -> None:
        self._link = link
        self._room = room
        self._accept = accept
        self._fail = fail
        self.queues: dict[str, Queue] = {}  # by consumer tag
        self._brokers: dict[str, tuple[float, list[str]]] = {}  # by topic: until when they are believed
        self._polls: dict[tuple[str, str | None], int] = {}  # by topic and broker: the room of a pop that waits
        self._resting: dict[tuple[str, str | None], float] = {}  # after a failure, until when
        self._last: Queue | None = None  # the queue that was popped last
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    def add(self, queue: Queue) -> None:
        """Begin to pop a queue."""
        self.queues[queue.consumer_tag] = queue
        if self._running is None:
            self._running = started(self._run(), self._fail)
        self._changed.set()

    def look(self) -> None:
        """Look again, because there may be more room."""
        self._changed.set()

    async def close(self, timeout_s: float) -> None:
        """Begin no pop any more, and wait for one that is under way: what it brings would stay invisible."""
        self.queues.clear()
        self._is_closed = True
        self._changed.set()
        if self._running is not None:
            await asyncio.wait([self._running], timeout=timeout_s)

    async def _run(self) -> None:
        while not self._is_closed:
            self._changed.clear()
            places = await self._places()
            now_s = time.monotonic()
            self._resting = {key: until_s for key, until_s in self._resting.items() if until_s > now_s}
            idle = [each for each in places if each.key not in self._polls and each.key not in self._resting]
            room = self._room() - sum(self._polls.values())
            if room > 0 and idle:
                if len(places) == 1:
                    self._poll(idle[0], min(room, POP_COUNT_MAX), LONG_POLL_MS)
                elif await self._sweep(idle, room):
                    continue
                else:
                    # Waiting long is no harm while others have as much room again.
                    wait_ms = LONG_POLL_MS if room >= 2 * len(idle) else self._link.options.poll_ms
                    for each in {each.key: each for each in idle[:room]}.values():
                        self._poll(each, 1, wait_ms)
                        self._last = each.queue
            await self._changed.wait()

    async def _places(self) -> list[Place]:
        """Return what to pop: urgent topics first, and within a step from the queue behind the last one on."""
        queues = list(self.queues.values())
        if self._last in queues:
            first = queues.index(self._last) + 1
            queues = queues[first:] + queues[:first]
        return [
            Place(step, queue, queue.topics[step], broker)
            for step in range(max((len(queue.topics) for queue in queues), default=0))
            for queue in queues
            for broker in await self._brokers_of(queue.topics[step])
        ]

    async def _brokers_of(self, topic: str) -> list[str] | list[None]:
        until_s, brokers = self._brokers.get(topic, (0.0, []))
        now_s = time.monotonic()
        if until_s < now_s:
            try:
                brokers = await self._link.brokers(topic)
            except PymqError:
                return brokers or [None]  # the pop says what is wrong
            self._brokers[topic] = now_s + BROKERS_KEPT_S, brokers
        return brokers

    async def _sweep(self, idle: list[Place], room: int) -> int:
        """Pop from places without waiting, of one step only, until the room is full; return the number of messages."""
        count, step = 0, 0
        for each in idle:
            if count >= room or (count and each.step > step):
                break
            step = each.step
            count += await self._pop(each, min(room - count, POP_COUNT_MAX), 0)
            self._last = each.queue
        return count

    def _poll(self, place: Place, count: int, wait_ms: int) -> None:
        """Wait at a broker for messages of a topic, for which room is reserved."""

        async def poll() -> None:
            try:
                await self._pop(place, count, wait_ms)
            finally:
                del self._polls[place.key]
                self._changed.set()

        self._polls[place.key] = count
        started(poll(), self._fail)

    async def _pop(self, place: Place, count: int, wait_ms: int) -> int:
        """Pop and hand on messages; return their number. Survives brokers that are away, and a topic that is gone."""
        invisible_ms = int(self._link.options.visibility_timeout * 1000)
        begun_s = time.monotonic()
        try:
            found = await self._link.consumer.receive(
                place.topic, count, invisible_ms=invisible_ms, wait_ms=wait_ms, broker_name=place.broker
            )
        except PymqError as error:
            if not self._is_closed:
                await self._recover(place, error)
            return 0
        await self._accept(place.queue, place.topic, found, max(begun_s, time.monotonic() - 1) if wait_ms else begun_s)
        return len(found)

    async def _recover(self, place: Place, error: PymqError) -> None:
        """Make a topic again that is gone; let a broker rest that is away; fail the consumer for anything else."""
        topic = place.topic
        self._brokers.pop(topic, None)
        try:
            if is_gone(error):
                log.warning("topic %s is gone while it is consumed: it is made again", topic)
                self._link.forget_topic(topic)
                await self._link.ensure_topic(topic, self._link.options.queue_count)
        except PymqError as other:
            error = other
        if is_away(error):
            self._link.faults.write(topic, f"no message of {topic} comes, it is tried again: {error}")
        elif not is_gone(error):
            self._fail(error)
        self._resting[place.key] = time.monotonic() + RETRY_PAUSE_S
        self._link.loop.call_later(RETRY_PAUSE_S * 1.01, self._changed.set)
