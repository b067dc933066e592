"""Finds handler calls that take too long: cancels coroutines, and lets the messages of other calls come again.

Java: cleanExpiredMsg with consumeTimeout. A thread can't be ended, so its place stays taken until the call returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pymq.client.handler import MessageHandler
from pymq.client.process_queue import ProcessQueue
from pymq.clock import Clock
from pymq.model.record import StoredMessage

log = logging.getLogger(__name__)

CHECKS_PER_TIMEOUT = 4
CHECK_INTERVAL_MAX_S = 60.0


class RunningCall:
    """A place for one handler call at a time. ``messages`` is set while the handler runs; ``started_ms`` is monotonic.

    ``process_queue`` is set until the result is applied. ``given_up``: the messages come again already, so the result
    no longer counts.
    """

    __slots__ = ("given_up", "messages", "process_queue", "started_ms", "task", "was_cancelled")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.messages: list[StoredMessage] | None = None
        self.process_queue: ProcessQueue | None = None
        self.started_ms = 0
        self.was_cancelled = self.given_up = False

    def begin(self, process_queue: ProcessQueue, messages: list[StoredMessage], now_ms: int) -> None:
        self.process_queue = process_queue
        self.messages = messages
        self.started_ms = process_queue.last_call_ms = now_ms
        self.was_cancelled = self.given_up = False

    def end(self) -> None:
        self.messages = self.process_queue = None


class ConsumeTimeouts:
    """Watches running calls; ``give_up(process_queue, messages)`` lets messages come again while a call goes on."""

    def __init__(
        self,
        timeout_s: float,
        clock: Clock,
        handler: MessageHandler,
        give_up: Callable[[ProcessQueue, list[StoredMessage]], Awaitable[None]] | None,
    ) -> None:
        self.interval_s = min(timeout_s / CHECKS_PER_TIMEOUT, CHECK_INTERVAL_MAX_S)
        self._timeout_s = timeout_s
        self._clock = clock
        self._handler = handler
        self._give_up = give_up

    async def check(self, calls: Iterable[RunningCall]) -> None:
        """End or give up the calls that run for longer than the time-out."""
        now_ms = self._clock.monotonic_ms()
        late = [one for one in calls if one.messages is not None and now_ms - one.started_ms >= self._timeout_s * 1000]
        for call in late:
            if self._handler.is_coroutine and not call.was_cancelled:
                call.was_cancelled = True
                self._handler.expire(call.task)
            elif not call.given_up:
                await self._abandon(call)

    async def _abandon(self, call: RunningCall) -> None:
        messages, process_queue = call.messages, call.process_queue
        assert messages is not None and process_queue is not None
        call.given_up = True
        log.error(
            "the message handler runs for more than consume_timeout_s=%g on %s of %s and can't be ended: %s",
            *(self._timeout_s, [message.message_id for message in messages], process_queue.queue),
            "its messages come again" if self._give_up is not None else "the queue waits, to keep its order",
        )
        if self._give_up is not None:
            await self._give_up(process_queue, messages)
