"""Reader: reads the queues of one cluster for one person. It commits nothing, and is no member of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from pymq.client import MessageQueue, PullConsumer
from pymq.client.subscription_options import SubscriptionOptions
from pymq.model.message import PullResult

# Of all persons together. A broker answers with one message at least, and that may have 4 MB: an answer is in memory up
# to three times while it is decoded.
READS_AT_ONCE: Final = 2
READ_BYTES_MAX: Final = 256 * 1024  # of an answer with more than one message

T = TypeVar("T")


class Reader:
    """Pulls of one person. ``gate`` is the one of all persons."""

    def __init__(self, consumer: PullConsumer, gate: asyncio.Semaphore) -> None:
        self._consumer = consumer
        self._gate = gate
        self._is_open = False

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int,
        options: SubscriptionOptions,
        take: Callable[[PullResult], T],
    ) -> T:
        """Return what ``take`` makes of the answer, before the next read begins. Raises PymqError."""
        async with self._gate:
            if not self._is_open:
                await self._consumer.start()
                self._is_open = True
            result = await self._consumer.pull_as(queue, offset, options, count_max=count_max, bytes_max=READ_BYTES_MAX)
            return take(result)

    async def close(self) -> None:
        """End the connections."""
        if self._is_open:
            await self._consumer.stop()
