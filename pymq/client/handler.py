"""Calls the application's message handler: plain functions run in threads, coroutines on the loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pymq.client.consume_counters import ConsumeCounters
from pymq.client.consume_result import ConsumeResult
from pymq.client.tracing import Tracer
from pymq.clock import Clock
from pymq.model.record import StoredMessage

log = logging.getLogger(__name__)

OnMessage = Callable[[list[StoredMessage]], ConsumeResult | Awaitable[ConsumeResult | None] | None]


class MessageHandler:
    """Calls ``on_message(messages)``, a plain function in at most ``thread_count_max`` threads."""

    def __init__(
        self,
        on_message: OnMessage,
        counters: ConsumeCounters,
        clock: Clock,
        thread_count_max: int,
        tracer: Tracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._on_message = on_message
        self._counters = counters
        self._clock = clock
        called = on_message if inspect.isroutine(on_message) else getattr(on_message, "__call__", on_message)  # noqa: B004
        self._is_coroutine = inspect.iscoroutinefunction(called)
        self._threads = None if self._is_coroutine else ThreadPoolExecutor(thread_count_max, "pymq-handler")

    async def call(self, messages: list[StoredMessage]) -> ConsumeResult:
        """Returns the handler's result. None counts as SUCCESS; an exception is logged and means RECONSUME_LATER."""
        started_ms = self._clock.monotonic_ms()
        delivery = self._tracer.delivered(messages) if self._tracer is not None else ""
        raised = False
        try:
            result = await self.call_unguarded(messages)
        except Exception:
            log.exception("the message handler failed on %s", [message.message_id for message in messages])
            result, raised = ConsumeResult.RECONSUME_LATER, True
        later = result is ConsumeResult.RECONSUME_LATER
        spent_ms = self._clock.monotonic_ms() - started_ms
        self._counters.handled(messages[0].topic, len(messages), spent_ms, failed=later)
        if self._tracer is not None:
            self._tracer.consumed(delivery, messages, spent_ms, failed=later, raised=raised)
        return ConsumeResult.RECONSUME_LATER if later else ConsumeResult.SUCCESS

    async def call_unguarded(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        """Returns the handler's return value and raises what the handler raises."""
        if self._threads is None:
            result: Any = self._on_message(messages)
        else:
            result = await asyncio.get_running_loop().run_in_executor(self._threads, self._on_message, messages)
        if inspect.isawaitable(result):
            result = await result
        checked: ConsumeResult | None = result
        return checked

    def close(self) -> None:
        """Ends the threads once their running calls are done."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
