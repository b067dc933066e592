"""The loop over a SimpleConsumer or LiteConsumer: receives ahead, acknowledges what the loop's body is done with."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from pymq.client.received import Received
from pymq.clock import Clock
from pymq.errors import ClosedError, RefusedError, UnreachableError

log = logging.getLogger(__name__)

RETRY_PAUSE_S = 1.0


class Receiver(Protocol):
    """What the loop asks of a consumer."""

    group: str

    async def ack(self, received: Received) -> None: ...
    async def extend(self, received: Received, invisible_ms: int) -> None: ...
    async def give_back(self, received: Received) -> None: ...


async def received_loop(
    consumer: Receiver, receive: Callable[[], Awaitable[list[Received]]], clock: Clock, invisible_ms: int
) -> AsyncGenerator[Received, None]:
    """Yield what ``receive`` returns, as SimpleConsumer.messages says. Ends when the consumer stops.

    Brokers that can't be reached are asked again. Raises NotFoundError, RefusedError.
    """
    ahead: deque[Received] = deque()
    current: Received | None = None
    try:
        while True:
            try:
                ahead += await receive()
            except ClosedError:
                return
            except UnreachableError as error:
                log.warning("group %s receives nothing for now: %s", consumer.group, error)
                await asyncio.sleep(RETRY_PAUSE_S)
            received_ms = clock.monotonic_ms()
            while ahead:
                current = ahead.popleft()
                if clock.monotonic_ms() - received_ms > invisible_ms / 2 and not await _extend(
                    consumer, current, invisible_ms
                ):
                    continue
                yield current
                if not current.done:
                    await _end(consumer, current)
                current = None
    finally:
        await asyncio.gather(*[_give_back(consumer, one) for one in ([current] if current else []) + list(ahead)])


async def _extend(consumer: Receiver, received: Received, invisible_ms: int) -> bool:
    """Renew the time for a message that waited long; return False when it is too late: it comes again elsewhere."""
    try:
        await consumer.extend(received, invisible_ms)
    except (RefusedError, UnreachableError) as error:
        log.info("group %s leaves %s to its next receiver: %s", consumer.group, received.message.message_id, error)
        return False
    return True


async def _end(consumer: Receiver, received: Received) -> None:
    try:
        await consumer.ack(received)
    except (RefusedError, UnreachableError) as error:
        log.warning(
            "group %s could not acknowledge %s, which comes again: %s",
            *(consumer.group, received.message.message_id, error),
        )


async def _give_back(consumer: Receiver, received: Received) -> None:
    if not received.done:
        try:
            await consumer.give_back(received)
        except (RefusedError, UnreachableError) as error:
            log.debug("%s comes again after its invisible time: %s", received.message.message_id, error)
