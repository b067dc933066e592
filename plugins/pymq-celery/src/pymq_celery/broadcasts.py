"""Broadcasts: queues that only their owner reads, such as those of remote control, events and replies.

Such a queue has no messages of its own. It is a place in the topics of the exchanges that it is bound to. The places
belong to the process, because Celery declares the queue of a result on one connection and reads it on another.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pymq.client import MessageQueue
from pymq.errors import PymqError
from pymq.model.message import PullStatus
from pymq_celery.envelope import to_payload
from pymq_celery.link import Link, is_gone

log = logging.getLogger(__name__)

EVERYTHING = "*"
EXCHANGE_QUEUE_COUNT = 1  # of an exchange's topic, on each broker
LONG_POLL_MS = 15_000
NEW_QUEUES_S = 30.0
RETRY_PAUSE_S = 1.0
PLACE_COUNT_MAX = 10_000
WAITING_COUNT_MAX = 1000  # deliveries that nobody has drained
DRAIN_PAUSE_S = 0.02

Accepts = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Source:
    """An exchange's topic as a queue sees it: the tags that the broker selects, and which routing keys fit."""

    topic: str
    tags: str
    accepts: Accepts


Places = dict[MessageQueue, int]
_places: dict[tuple[str, str, str], Places] = {}  # by name servers, queue and topic; used on the loop only


def tag_of(routing_key: str) -> str:
    """Return the tag of messages with this routing key: routing keys may have characters that no tag has."""
    return hashlib.blake2s(routing_key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


async def note_place(link: Link, queue: str, topic: str) -> None:
    """Let a queue begin at the end of an exchange's topic, unless this process knows its place."""
    key = (link.cluster.namesrv, queue, topic)
    if key in _places:
        _places[key] = _places.pop(key)
        return
    await link.ensure_topic(topic, EXCHANGE_QUEUE_COUNT)
    places = {each: await link.puller.max_offset(each) for each in await link.puller.queues(topic)}
    while len(_places) >= PLACE_COUNT_MAX:
        del _places[next(iter(_places))]
    _places.setdefault(key, places)


def has_place(link: Link, queue: str, topic: str) -> bool:
    """Return True for a queue that this process declared. Any thread may call this."""
    return (link.cluster.namesrv, queue, topic) in _places


async def forget_places(link: Link, queue: str) -> None:
    """Forget a queue that is deleted."""
    for key in [key for key in _places if key[:2] == (link.cluster.namesrv, queue)]:
        del _places[key]


async def get(link: Link, queue: str, sources: list[Source]) -> dict[str, Any] | None:
    """Return the next message of a queue without waiting, None when there is none."""
    for source in sources:
        await note_place(link, queue, source.topic)
        places = _places[link.cluster.namesrv, queue, source.topic]
        for each in list(places):
            while True:
                payloads, is_end = await _pull(link, source, places, each, 0, count_max=1)
                if payloads:
                    return payloads[0]
                if is_end:
                    break
    return None


class Reader:
    """Reads a queue for one consumer until it is stopped. Runs on the link's loop."""

    def __init__(
        self,
        link: Link,
        queue: str,
        sources: list[Source],
        deliver: Callable[[dict[str, Any]], None],
        waiting_count: Callable[[], int],
    ) -> None:
        self._link = link
        self._queue = queue
        self._deliver = deliver
        self._waiting_count = waiting_count
        self._tasks = [asyncio.create_task(self._follow(source)) for source in sources]

    def stop(self) -> None:
        """Read no more; a later reader of this process goes on here."""
        for task in self._tasks:
            task.cancel()

    async def _follow(self, source: Source) -> None:
        """Read all queues of a topic, also those of brokers that come later."""
        loops: dict[MessageQueue, asyncio.Task[None]] = {}
        try:
            while True:
                try:
                    await note_place(self._link, self._queue, source.topic)
                    places = _places[self._link.cluster.namesrv, self._queue, source.topic]
                    for each in await self._link.puller.queues(source.topic):
                        places.setdefault(each, 0)
                    for each in places.keys() - loops.keys():
                        loops[each] = asyncio.create_task(self._read(source, places, each))
                    await asyncio.sleep(NEW_QUEUES_S)
                except PymqError as error:
                    await self._recover(source, error)
        finally:
            for task in loops.values():
                task.cancel()

    async def _read(self, source: Source, places: Places, each: MessageQueue) -> None:
        while True:
            if self._waiting_count() > WAITING_COUNT_MAX:
                await asyncio.sleep(DRAIN_PAUSE_S)
                continue
            try:
                payloads, _ = await _pull(self._link, source, places, each, LONG_POLL_MS)
            except PymqError as error:
                await self._recover(source, error)
                continue
            for payload in payloads:
                self._deliver(payload)

    async def _recover(self, source: Source, error: PymqError) -> None:
        """Make a topic again that is gone; wait a while in any case."""
        self._link.faults.write(source.topic, f"broadcasts of {source.topic} are not read, it is tried again: {error}")
        if is_gone(error):
            self._link.forget_topic(source.topic)
            with contextlib.suppress(PymqError):
                await self._link.ensure_topic(source.topic, EXCHANGE_QUEUE_COUNT)
        await asyncio.sleep(RETRY_PAUSE_S)


async def _pull(
    link: Link, source: Source, places: Places, each: MessageQueue, wait_ms: int, count_max: int = 32
) -> tuple[list[dict[str, Any]], bool]:
    """Return what fits of the next messages, and True at the end. Of two readers of a place one gets a message."""
    offset = places[each]
    result = await link.puller.pull(each, offset, count_max, expression=source.tags, suspend_ms=wait_ms)
    if places[each] != offset:
        return [], False
    places[each] = result.next_offset
    payloads = []
    for message in result.messages() if result.status is PullStatus.FOUND else ():
        try:
            payload = to_payload(message, uuid.uuid4().hex)
        except ValueError as error:
            log.error("broadcast message %s of %s is skipped: %s", message.message_id, source.topic, error)
            continue
        routing_key = payload["properties"]["delivery_info"].get("routing_key")
        if source.accepts(routing_key if isinstance(routing_key, str) else ""):
            payloads.append(payload)
    return payloads, result.status is PullStatus.NO_NEW_MESSAGE
