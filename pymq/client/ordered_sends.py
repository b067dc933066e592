"""OrderedSends: keeps the order of messages in each queue by one request at a time there, with many queues at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from pymq.client.in_flight import BYTES_MAX, COUNT_MAX, WAIT, InFlight
from pymq.client.outgoing import is_batchable
from pymq.client.parcel import BATCH_BYTES_MAX
from pymq.client.producer import COMPRESS_ABOVE_BYTES, Producer
from pymq.client.sender import may_retry
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.model.message import Message, MessageQueue

BATCH_COUNT = 64
PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 5.0
ROOM_TIMEOUT_S = 86_400.0

OnDone = Callable[[PymqError | None], None]
_Item = tuple[Message, OnDone]


class OrderedSends:
    """Sends through ``producer``, which the caller starts and stops.

    A request that fails is repeated before the next one of its queue leaves: ``retry_count`` times, or without end for
    None. So a message may be stored twice, but never behind a later one alone. ``on_trouble(queue, error)`` hears of
    each failure that is repeated, and with None when a repetition succeeds. With ``stops_after_failure`` a queue takes
    nothing more behind a message that failed: all later ones get its error.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        retry_count: int | None,
        stops_after_failure: bool = False,
        batch_count: int = BATCH_COUNT,
        count_max: int = COUNT_MAX,
        bytes_max: int = BYTES_MAX,
        on_trouble: Callable[[MessageQueue, PymqError | None], None] = lambda _queue, _error: None,
    ) -> None:
        """At most ``count_max`` messages with ``bytes_max`` wait for their answers."""
        self._producer = producer
        self._retry_count = retry_count
        self._batch_count = batch_count
        self._room = InFlight(count_max, bytes_max, WAIT)
        self._on_trouble = on_trouble
        self._stops_after_failure = stops_after_failure
        self._stopped: dict[MessageQueue, PymqError] = {}
        self._waiting: dict[MessageQueue, deque[_Item]] = {}
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}

    async def put(self, message: Message, queue: MessageQueue, on_done: OnDone) -> None:
        """Accept a message, waiting for room. ``on_done`` gets None once it is stored, or why it never will be."""
        await self._room.take(len(message.body), ROOM_TIMEOUT_S)
        self._waiting.setdefault(queue, deque()).append((message, on_done))
        if queue not in self._tasks:
            self._tasks[queue] = asyncio.create_task(self._run(queue))

    async def flush(self) -> None:
        """Return when every message accepted so far has its result."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def cancel(self) -> None:
        """End without results what waits and what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, queue: MessageQueue) -> None:
        waiting = self._waiting[queue]
        try:
            while waiting:
                await asyncio.sleep(0)  # what is put in the same turn joins the batch
                items = self._next_batch(waiting)
                await self._deliver(items, queue)
        finally:
            del self._tasks[queue]

    def _next_batch(self, waiting: deque[_Item]) -> list[_Item]:
        items = [waiting.popleft()]
        if not _fits(items[0][0]):
            return items
        size = len(items[0][0].body)
        while waiting and len(items) < self._batch_count:
            message = waiting[0][0]
            size += len(message.body)
            if not _fits(message) or message.topic != items[0][0].topic or size > BATCH_BYTES_MAX:
                break
            items.append(waiting.popleft())
        return items

    async def _deliver(self, items: list[_Item], queue: MessageQueue) -> None:
        error = self._stopped.get(queue) or await self._try(items, queue)
        if error is not None and self._stops_after_failure and len(items) == 1:
            self._stopped.setdefault(queue, error)
        if error is not None and len(items) > 1:
            for item in items:  # only the bad one fails
                await self._deliver([item], queue)
            return
        for message, on_done in items:
            self._room.give(1, len(message.body))
            on_done(error)

    async def _try(self, items: list[_Item], queue: MessageQueue) -> PymqError | None:
        """Send until it succeeds. Returns the error that no further attempt would mend, or the last one allowed."""
        attempt = 0
        while True:
            try:
                if len(items) == 1:
                    await self._producer.send(items[0][0], queue=queue)
                else:
                    await self._producer.send_batch([message for message, _ in items], queue=queue)
                if attempt:
                    self._on_trouble(queue, None)
                return None
            except (RefusedError, UnreachableError, NotFoundError) as error:
                if not self._may_repeat(error, attempt):
                    return error
                self._on_trouble(queue, error)
                await asyncio.sleep(min(PAUSE_FIRST_S * 2**attempt, PAUSE_MAX_S))
                attempt = min(attempt + 1, 1000)
            except PymqError as error:
                return error

    def _may_repeat(self, error: RefusedError | UnreachableError | NotFoundError, attempt: int) -> bool:
        if self._retry_count is not None:
            return attempt < self._retry_count and not isinstance(error, NotFoundError) and may_retry(error)
        # A topic is unknown to name servers also while its only broker is away.
        return isinstance(error, NotFoundError) or may_retry(error)


def _fits(message: Message) -> bool:
    """Return whether the message may be one of a batch: large bodies leave alone, because they are compressed."""
    return len(message.body) <= COMPRESS_ABOVE_BYTES and is_batchable(message)
