"""Work: the task messages of one channel. Pops them within its prefetch count, keeps them invisible, settles them."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from pymq.client.popping import POP_COUNT_MAX
from pymq.client.received import Received
from pymq.errors import PymqError
from pymq_celery.envelope import eta_ms, now_ms, to_payload
from pymq_celery.link import Link, is_away, is_gone

log = logging.getLogger(__name__)

UNDELIVERED_COUNT_MAX = 64  # without a prefetch count
ONE_TOPIC_WAIT_MS = 15_000
RETRY_PAUSE_S = 1.0
RENEWALS_A_TIMEOUT = 3
RENEWED_AT_ONCE_MAX = 64
# A task that comes so long before its ETA goes back to the broker; the worker holds it for less.
EARLY_MS_MAX = 2000
CLOSE_WAIT_S = 5.0

Deliver = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class Held:
    """A message that this channel has, with the monotonic second until which no other consumer gets it."""

    received: Received
    until_s: float
    is_delivered: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that a consumer reads: its topics, the most urgent one first."""

    consumer_tag: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a queue, and which of its steps it has."""

    step: int
    queue: Queue
    topic: str


class Work:
    """All methods run on the link's loop. ``deliver(consumer_tag, payload)`` takes what comes, ``fail`` an error."""

    def __init__(self, link: Link, deliver: Deliver, fail: Callable[[BaseException], None]) -> None:
        self._link = link
        self._deliver = deliver
        self._fail = fail
        self._queues: dict[str, Queue] = {}  # by consumer tag
        self._held: dict[str, Held] = {}  # by delivery tag
        self._prefetch_count = 0
        self._polls: dict[str, asyncio.Task[None]] = {}  # by topic: pops that wait at a broker
        self._reserved_count = 0  # what they may bring
        self._last: Queue | None = None  # the queue that was popped last
        self._settling: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._fetching: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._is_closed = False

    # -- what the channel asks for -------------------------------------------------------------------------------

    def consume(self, queue: Queue) -> None:
        """Begin to read a queue."""
        self._queues[queue.consumer_tag] = queue
        if self._fetching is None:
            self._fetching = self._task(self._fetch())
        self._changed.set()

    def cancel(self, consumer_tag: str) -> None:
        """Read a queue no more. What a waiting pop still brings is given back."""
        self._queues.pop(consumer_tag, None)

    def set_prefetch(self, count: int) -> None:
        """Hold at most so many messages that are not settled; 0: no limit."""
        self._prefetch_count = count
        self._changed.set()

    def delivered(self, delivery_tag: str) -> None:
        """Note that the application has a message."""
        held = self._held.get(delivery_tag)
        if held is not None:
            held.is_delivered = True
            self._changed.set()

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message; an unknown tag is none of a task queue."""
        self._settle(delivery_tag, self._link.consumer.ack, "acknowledged")

    def give_back(self, delivery_tag: str) -> None:
        """Let a message come again at once."""
        self._settle(delivery_tag, self._link.consumer.give_back, "given back")

    def give_up(self, delivery_tag: str) -> None:
        """Move a message to the dead letters."""
        self._settle(delivery_tag, self._link.consumer.give_up, "a dead letter")

    def give_all_back(self) -> None:
        """Let all messages come again at once."""
        for delivery_tag in list(self._held):
            self.give_back(delivery_tag)

    async def get(self, topics: tuple[str, ...]) -> dict[str, Any] | None:
        """Return a message of a queue, None when it has none."""
        for topic in topics:
            for received in await self._link.consumer.receive(topic, 1, invisible_ms=self._invisible_ms, wait_ms=0):
                payload = await self._accept(topic, received, time.monotonic())
                if payload is not None:
                    self._held[payload["properties"]["delivery_tag"]].is_delivered = True
                    return payload
        return None

    async def purge(self, topic: str) -> int:
        """Acknowledge all messages of a topic that no consumer has; return their number."""
        count = 0
        while found := await self._link.consumer.receive(topic, POP_COUNT_MAX, wait_ms=0):
            await asyncio.gather(*(self._link.consumer.ack(received) for received in found))
            count += len(found)
        return count

    async def close(self) -> None:
        """Give back what is not settled, and wait a while until brokers know."""
        self._queues.clear()
        self._is_closed = True
        self._changed.set()
        if self._fetching is not None:  # not cancelled: what a pop brings would stay invisible
            await asyncio.wait([self._fetching], timeout=CLOSE_WAIT_S)
        self.give_all_back()
        if self._settling:
            await asyncio.wait(self._settling, timeout=CLOSE_WAIT_S)
        if self._renewing is not None:
            self._renewing.cancel()

    # -- pops ----------------------------------------------------------------------------------------------------

    @property
    def _invisible_ms(self) -> int:
        return int(self._link.options.visibility_timeout * 1000)

    def _room(self) -> int:
        if self._prefetch_count:
            return self._prefetch_count - len(self._held) - self._reserved_count
        return UNDELIVERED_COUNT_MAX - sum(not held.is_delivered for held in self._held.values()) - self._reserved_count

    async def _fetch(self) -> None:
        while not self._is_closed:
            self._changed.clear()
            room = self._room()
            readable = self._readable()
            idle = [each for each in readable if each.topic not in self._polls]
            if room > 0 and idle:
                if len(readable) == 1:
                    self._poll(idle[0], min(room, POP_COUNT_MAX), ONE_TOPIC_WAIT_MS)
                elif await self._sweep(idle, room):
                    continue
                else:
                    for each in idle[:room]:
                        self._poll(each, 1, self._link.options.poll_ms)
                        self._last = each.queue
            await self._changed.wait()

    def _readable(self) -> list[Topic]:
        """Return the topics to read: urgent ones first, and within a step from the queue behind the last one on."""
        queues = list(self._queues.values())
        if self._last in queues:
            first = queues.index(self._last) + 1
            queues = queues[first:] + queues[:first]
        depth = max((len(queue.topics) for queue in queues), default=0)
        return [Topic(step, queue, queue.topics[step]) for step in range(depth) for queue in queues]

    async def _sweep(self, idle: list[Topic], room: int) -> int:
        """Pop from topics without waiting, of one step only, until the room is full; return the number of messages."""
        count, step = 0, 0
        for each in idle:
            if count >= room or (count and each.step > step):
                break
            step = each.step
            count += await self._pop(each, min(room - count, POP_COUNT_MAX), 0)
            self._last = each.queue
        return count

    def _poll(self, topic: Topic, count: int, wait_ms: int) -> None:
        """Wait at a broker for messages of a topic, for which room is reserved."""

        async def poll() -> None:
            try:
                await self._pop(topic, count, wait_ms)
            finally:
                self._reserved_count -= count
                self._polls.pop(topic.topic, None)
                self._changed.set()

        self._reserved_count += count
        self._polls[topic.topic] = self._task(poll())

    async def _pop(self, from_: Topic, count: int, wait_ms: int) -> int:
        """Pop and deliver messages; return their number. Survives brokers that are away, and a topic that is gone."""
        queue, topic = from_.queue, from_.topic
        begun_s = time.monotonic()
        try:
            found = await self._link.consumer.receive(topic, count, invisible_ms=self._invisible_ms, wait_ms=wait_ms)
        except PymqError as error:
            if not self._is_closed:
                await self._recover(topic, error)
            return 0
        begun_s = max(begun_s, time.monotonic() - 1) if wait_ms else begun_s
        for received in found:
            if queue.consumer_tag not in self._queues:
                self._start(self._settled(Held(received, begun_s), self._link.consumer.give_back, "given back"))
                continue
            payload = await self._accept(topic, received, begun_s)
            if payload is not None:
                self._deliver(queue.consumer_tag, payload)
        return len(found)

    async def _recover(self, topic: str, error: PymqError) -> None:
        """Make a topic again that is gone; wait for brokers that are away; fail the consumer for anything else."""
        try:
            if is_gone(error):
                log.warning("topic %s is gone while it is consumed: it is made again", topic)
                self._link.forget_topic(topic)
                await self._link.ensure_topic(topic, self._link.options.queue_count)
                return
        except PymqError as other:
            error = other
        if is_away(error):
            self._link.faults.write(topic, f"no message of {topic} comes, it is tried again: {error}")
        else:
            self._fail(error)
        await asyncio.sleep(RETRY_PAUSE_S)

    async def _accept(self, topic: str, received: Received, begun_s: float) -> dict[str, Any] | None:
        """Hold a message and return its payload; None for one that is no task message, or not due yet."""
        delivery_tag = uuid.uuid4().hex
        held = Held(received, begun_s + self._link.options.visibility_timeout)
        try:
            payload = to_payload(received.message, delivery_tag)
        except ValueError as error:
            log.error("message %s of %s becomes a dead letter: %s", received.message.message_id, topic, error)
            self._start(self._settled(held, self._link.consumer.give_up, "a dead letter"))
            return None
        due_ms = eta_ms(payload)
        if due_ms is not None and due_ms > now_ms() + EARLY_MS_MAX:
            try:
                if await self._link.put_off(topic, payload, due_ms):
                    self._start(self._settled(held, self._link.consumer.ack, "acknowledged"))
                    return None
            except PymqError as error:
                log.warning("the worker holds message %s until its ETA: %s", received.message.message_id, error)
        self._held[delivery_tag] = held
        if self._renewing is None:
            self._renewing = self._task(self._renew())
        return payload

    # -- messages that are held ----------------------------------------------------------------------------------

    async def _renew(self) -> None:
        timeout_s = self._link.options.visibility_timeout
        while True:
            await asyncio.sleep(timeout_s / RENEWALS_A_TIMEOUT / 2)
            soon_s = time.monotonic() + timeout_s * (RENEWALS_A_TIMEOUT - 1) / RENEWALS_A_TIMEOUT
            due = [(tag, held) for tag, held in self._held.items() if held.until_s < soon_s]
            for start in range(0, len(due), RENEWED_AT_ONCE_MAX):
                await asyncio.gather(*(self._renew_one(*each) for each in due[start : start + RENEWED_AT_ONCE_MAX]))

    async def _renew_one(self, delivery_tag: str, held: Held) -> None:
        async with held.lock:
            if delivery_tag not in self._held:
                return
            begun_s = time.monotonic()
            message_id = held.received.message.message_id
            try:
                await self._link.consumer.extend(held.received, self._invisible_ms)
            except PymqError as error:
                if is_away(error):
                    self._link.faults.write(
                        held.received.topic, f"messages are not renewed, it is tried again: {error}"
                    )
                else:  # it still takes its place in the prefetch count until it is settled
                    log.warning("message %s is not this consumer's any more, and comes again: %s", message_id, error)
                    held.until_s = float("inf")
            else:
                held.until_s = begun_s + self._link.options.visibility_timeout

    def _settle(self, delivery_tag: str, settle: Callable[[Received], Awaitable[None]], what: str) -> None:
        held = self._held.pop(delivery_tag, None)
        if held is not None:
            self._start(self._settled(held, settle, what))
            self._changed.set()

    def _task(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a job; what it raises is raised where the connection is drained."""

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._fail(error)

        task = asyncio.create_task(job)
        task.add_done_callback(ended)
        return task

    def _start(self, settling: Coroutine[Any, Any, None]) -> None:
        task = self._task(settling)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settled(self, held: Held, settle: Callable[[Received], Awaitable[None]], what: str) -> None:
        """Settle a message. While brokers are away it is tried again, as long as the message is this channel's."""
        message_id = held.received.message.message_id
        async with held.lock:
            while True:
                try:
                    await settle(held.received)
                    return
                except PymqError as error:
                    if not is_away(error) or time.monotonic() > held.until_s:
                        log.warning("message %s is not %s: %s", message_id, what, error)
                        return
                    await asyncio.sleep(RETRY_PAUSE_S)
