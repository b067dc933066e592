"""Work: the task messages that one channel holds. Keeps them invisible to others, and settles them."""

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
from pymq_celery.fetching import RETRY_PAUSE_S, Fetcher, Queue
from pymq_celery.jobs import Fail, started
from pymq_celery.link import Link, is_away

log = logging.getLogger(__name__)

UNDELIVERED_COUNT_MAX = 64  # without a prefetch count
RENEWALS_A_TIMEOUT = 3
RENEWED_AT_ONCE_MAX = 64
# A task that comes so long before its ETA goes back to the broker; the worker holds it for less.
EARLY_MS_MAX = 2000
CLOSE_WAIT_S = 5.0

Deliver = Callable[[str, dict[str, Any]], None]
Settle = Callable[[Received], Awaitable[None]]


@dataclass(slots=True)
class Held:
    """A message that this channel has, with the monotonic second until which no other consumer gets it."""

    received: Received
    until_s: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Work:
    """All methods run on the link's loop. ``deliver(consumer_tag, payload)`` takes what comes, ``fail`` an error."""

    def __init__(self, link: Link, deliver: Deliver, fail: Fail) -> None:
        self._link = link
        self._deliver = deliver
        self._fail = fail
        self._fetcher = Fetcher(link, self._room, self._accept_all, fail)
        self._held: dict[str, Held] = {}  # by delivery tag
        self._undelivered: set[str] = set()  # delivery tags of those that the application does not have yet
        self._prefetch_count = 0
        self._settling: set[asyncio.Task[None]] = set()
        self._renewing: asyncio.Task[None] | None = None

    # -- what the channel asks for -------------------------------------------------------------------------------

    def consume(self, queue: Queue) -> None:
        """Begin to read a queue."""
        self._fetcher.add(queue)

    def cancel(self, consumer_tag: str) -> None:
        """Read a queue no more. What a waiting pop still brings is given back."""
        self._fetcher.queues.pop(consumer_tag, None)

    def set_prefetch(self, count: int) -> None:
        """Hold at most so many messages that are not settled; 0: no limit."""
        self._prefetch_count = count
        self._fetcher.look()

    def delivered(self, delivery_tag: str) -> None:
        """Note that the application has a message."""
        self._undelivered.discard(delivery_tag)
        self._fetcher.look()

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
            begun_s = time.monotonic()
            for received in await self._link.consumer.receive(topic, 1, invisible_ms=self._invisible_ms, wait_ms=0):
                payload = await self._accept(topic, received, begun_s)
                if payload is not None:
                    self._undelivered.discard(payload["properties"]["delivery_tag"])
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
        await self._fetcher.close(CLOSE_WAIT_S)
        self.give_all_back()
        if self._settling:
            await asyncio.wait(self._settling, timeout=CLOSE_WAIT_S)
        if self._renewing is not None:
            self._renewing.cancel()

    # -- messages that come --------------------------------------------------------------------------------------

    @property
    def _invisible_ms(self) -> int:
        return int(self._link.options.visibility_timeout * 1000)

    def _room(self) -> int:
        if self._prefetch_count:
            return self._prefetch_count - len(self._held)
        return UNDELIVERED_COUNT_MAX - len(self._undelivered)

    async def _accept_all(self, queue: Queue, topic: str, found: list[Received], begun_s: float) -> None:
        for received in found:
            if queue.consumer_tag not in self._fetcher.queues:
                self._start(Held(received, begun_s), self._link.consumer.give_back, "given back")
                continue
            payload = await self._accept(topic, received, begun_s)
            if payload is not None:
                self._deliver(queue.consumer_tag, payload)

    async def _accept(self, topic: str, received: Received, begun_s: float) -> dict[str, Any] | None:
        """Hold a message and return its payload; None for one that is no task message, or not due yet."""
        delivery_tag = uuid.uuid4().hex
        held = Held(received, begun_s + self._link.options.visibility_timeout)
        try:
            payload = to_payload(received.message, delivery_tag)
        except ValueError as error:
            log.error("message %s of %s becomes a dead letter: %s", received.message.message_id, topic, error)
            self._start(held, self._link.consumer.give_up, "a dead letter")
            return None
        due_ms = eta_ms(payload)
        if due_ms is not None and due_ms > now_ms() + EARLY_MS_MAX:
            try:
                if await self._link.put_off(topic, payload, due_ms):
                    self._start(held, self._link.consumer.ack, "acknowledged")
                    return None
            except PymqError as error:
                log.warning("the worker holds message %s until its ETA: %s", received.message.message_id, error)
        self._held[delivery_tag] = held
        self._undelivered.add(delivery_tag)
        if self._renewing is None:
            self._renewing = started(self._renew(), self._fail)
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
                    self._link.faults.write(held.received.topic, f"messages are not renewed yet: {error}")
                else:  # it still takes its place in the prefetch count until it is settled
                    log.warning("message %s is not this consumer's any more, and comes again: %s", message_id, error)
                    held.until_s = float("inf")
            else:
                held.until_s = begun_s + self._link.options.visibility_timeout

    def _settle(self, delivery_tag: str, settle: Settle, what: str) -> None:
        held = self._held.pop(delivery_tag, None)
        self._undelivered.discard(delivery_tag)
        if held is not None:
            self._start(held, settle, what)
            self._fetcher.look()

    def _start(self, held: Held, settle: Settle, what: str) -> None:
        settling: Coroutine[Any, Any, None] = self._settled(held, settle, what)
        task = started(settling, self._fail)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settled(self, held: Held, settle: Settle, what: str) -> None:
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
