"""The loop over a PullConsumer: reads all queues of its topics at once, and commits what its body is done with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

from pymq.client.consumer_settings import FIRST, LAST
from pymq.client.subscription_options import SubscriptionOptions
from pymq.clock import Clock
from pymq.errors import ClosedError, FilterStopError, PymqError
from pymq.model.message import MessageQueue, PullResult, PullStatus
from pymq.model.record import StoredMessage

log = logging.getLogger(__name__)

LONG_POLL_MS = 15_000
READ_AHEAD_PULLS = 8
COMMIT_INTERVAL_MS = 5_000
LOOK_INTERVAL_S = 30.0  # for new queues
RETRY_PAUSE_S = 1.0

_Pulled = tuple[MessageQueue, list[StoredMessage], int]  # with the offset behind them


class Puller(Protocol):
    """What the loop asks of a PullConsumer."""

    group: str

    async def queues(self, topic: str) -> list[MessageQueue]: ...
    async def pull_as(
        self, queue: MessageQueue, offset: int, options: SubscriptionOptions, *, suspend_ms: int
    ) -> PullResult: ...
    async def min_offset(self, queue: MessageQueue) -> int: ...
    async def max_offset(self, queue: MessageQueue) -> int: ...
    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int: ...
    async def committed(self, queue: MessageQueue) -> int | None: ...
    async def commit(self, queue: MessageQueue, offset: int) -> None: ...


class PulledLoop:
    """One loop. ``reached`` holds, by queue, the offset that the group goes on at; it is committed as it grows."""

    def __init__(
        self,
        puller: Puller,
        subscribed: Mapping[str, SubscriptionOptions],
        clock: Clock,
        consume_from: str | int,
        reached: dict[MessageQueue, int],
    ) -> None:
        self._puller = puller
        self._subscribed = subscribed
        self._clock = clock
        self._consume_from = consume_from
        self._reached = reached
        self._committed: dict[MessageQueue, int] = {}
        self._readers: dict[MessageQueue, asyncio.Task[None]] = {}
        self._pulled: asyncio.Queue[_Pulled | PymqError] = asyncio.Queue(READ_AHEAD_PULLS)

    async def messages(self) -> AsyncGenerator[StoredMessage, None]:
        """Yield messages until the consumer stops; messages of one queue come in order.

        Raises NotFoundError, UnreachableError, RefusedError, FilterStopError.
        """
        await self._look()
        looking = asyncio.ensure_future(self._keep_looking())
        committed_ms = self._clock.monotonic_ms()
        try:
            while True:
                pulled = await self._pulled.get()
                if isinstance(pulled, ClosedError):
                    return
                if isinstance(pulled, PymqError):
                    raise pulled
                queue, messages, next_offset = pulled
                for message in messages:
                    yield message
                    self._reached[queue] = message.queue_offset + 1
                self._reached[queue] = next_offset
                if self._clock.monotonic_ms() - committed_ms >= COMMIT_INTERVAL_MS:
                    await self._commit()
                    committed_ms = self._clock.monotonic_ms()
        finally:
            tasks = [looking, *self._readers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._commit()

    async def _look(self) -> None:
        for topic, options in self._subscribed.items():
            for queue in await self._puller.queues(topic):
                if queue not in self._readers:
                    self._readers[queue] = asyncio.ensure_future(self._read(queue, options))

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            try:
                await self._look()
            except PymqError as error:
                log.debug("group %s knows no new queues: %s", self._puller.group, error)

    async def _read(self, queue: MessageQueue, options: SubscriptionOptions) -> None:
        """Pull one queue without end; what ends the whole loop is put into it."""
        offset: int | None = None
        while True:
            try:
                if offset is None:
                    offset = self._committed[queue] = await self._start(queue)
                result = await self._puller.pull_as(queue, offset, options, suspend_ms=LONG_POLL_MS)
            except (ClosedError, FilterStopError) as error:
                await self._pulled.put(error)
                return
            except PymqError as error:
                log.warning("group %s pulls nothing from %s for now: %s", self._puller.group, queue, error)
                await asyncio.sleep(RETRY_PAUSE_S)
                continue
            if result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset != offset:
                log.warning(
                    "group %s: offset %d of %s is not stored, continuing at %d",
                    *(self._puller.group, offset, queue, result.next_offset),
                )
            offset = result.next_offset
            messages = result.messages() if result.status is PullStatus.FOUND else []
            if messages or self._reached.get(queue) != offset:
                await self._pulled.put((queue, messages, offset))

    async def _start(self, queue: MessageQueue) -> int:
        stored = self._reached.get(queue)
        if stored is None:
            stored = await self._puller.committed(queue)
        if stored is not None and stored >= 0:
            return stored
        if self._consume_from == FIRST:
            return await self._puller.min_offset(queue)
        if self._consume_from == LAST:
            return await self._puller.max_offset(queue)
        return await self._puller.offset_by_time(queue, int(self._consume_from))

    async def _commit(self) -> None:
        for queue, offset in list(self._reached.items()):
            if self._committed.get(queue) != offset:
                try:
                    await self._puller.commit(queue, offset)
                    self._committed[queue] = offset
                except PymqError as error:
                    log.warning("offset %d of %s is not committed yet: %s", offset, queue, error)
