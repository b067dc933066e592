"""Reader: reads the queues of one cluster for one person. It commits nothing, and is no member of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from pymq.client import MessageQueue, PullConsumer
from pymq.client.subscription_options import SubscriptionOptions
from pymq.clock import Clock
from pymq.errors import UnreachableError
from pymq.model.message import PullResult

# Of all persons together. A broker answers with one message at least, and that may have 4 MB: an answer is in memory up
# to three times while it is decoded.
READS_AT_ONCE: Final = 2
READ_BYTES_MAX: Final = 256 * 1024  # of an answer with more than one message
# A broker that hangs must not hold the gate for long, nor its next queues again.
READ_TIMEOUT_S: Final = 3.0
SILENT_MS: Final = 5_000

T = TypeVar("T")


class Reader:
    """Pulls of one person. ``gate`` is the one of all persons.

    A broker that does not answer in time is not asked again for :data:`SILENT_MS`.
    """

    def __init__(
        self, consumer: PullConsumer, gate: asyncio.Semaphore, clock: Clock, timeout_s: float = READ_TIMEOUT_S
    ) -> None:
        self._consumer = consumer
        self._gate = gate
        self._clock = clock
        self._timeout_s = timeout_s
        self._silent_until_ms: dict[str, int] = {}
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
            if self._clock.monotonic_ms() < self._silent_until_ms.get(queue.broker_name, 0):
                raise self._silent(queue)
            try:
                async with asyncio.timeout(self._timeout_s):
                    result = await self._consumer.pull_as(
                        queue, offset, options, count_max=count_max, bytes_max=READ_BYTES_MAX
                    )
            except TimeoutError:
                self._silent_until_ms[queue.broker_name] = self._clock.monotonic_ms() + SILENT_MS
                raise self._silent(queue) from None
            return take(result)

    def _silent(self, queue: MessageQueue) -> UnreachableError:
        return UnreachableError(f"{queue.broker_name} did not answer within {self._timeout_s:g} s")

    async def close(self) -> None:
        """End the connections."""
        if self._is_open:
            await self._consumer.stop()
