"""Consumes the tour's topics in a group until all sent messages have arrived."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from pymq.client import PushConsumer
from pymq.demo.rows import ORDERS_TOPIC, ROWS_TOPIC
from pymq.model.record import StoredMessage

GROUP = "demo_group"
PATIENCE_S = 30.0


async def consume(namesrv: str, expected: int, on_received: Callable[[int], None]) -> Counter[str]:
    """Return how often each key arrived, once ``expected`` different ones have, or after 30 s without a message."""
    received: Counter[str] = Counter()
    progress = asyncio.Event()

    async def take(messages: Sequence[StoredMessage]) -> None:
        received.update(message.keys for message in messages)
        on_received(len(messages))
        progress.set()

    consumer = PushConsumer(GROUP, namesrv=namesrv, on_message=take, consume_from="first", batch_count_max=32)
    consumer.subscribe(ROWS_TOPIC, "*")
    consumer.subscribe(ORDERS_TOPIC, "*")
    await consumer.start()
    try:
        while len(received) < expected:
            progress.clear()
            await asyncio.wait_for(progress.wait(), PATIENCE_S)
    except TimeoutError:
        pass  # the caller compares and reports missing messages
    finally:
        await consumer.stop()
    return received
