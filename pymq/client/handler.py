"""Calls the application's message handler: plain functions run in threads, coroutines on the loop.

Whatever the handler does, a call ends with a ConsumeResult, and the client goes on.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from pymq.client.consume_counters import ConsumeCounters
from pymq.client.consume_result import ConsumeResult
from pymq.client.handler_threads import HandlerThreads
from pymq.client.handover import UnhandledError
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
        wrap: Callable[[OnMessage, bool], OnMessage] | None = None,
    ) -> None:
        """``wrap(on_message, is_coroutine)`` returns what is called in its place."""
        self._tracer = tracer
        self._counters = counters
        self._clock = clock
        self._expired: set[asyncio.Task[Any] | None] = set()
        called = on_message if inspect.isroutine(on_message) else getattr(on_message, "__call__", on_message)  # noqa: B004
        self.is_coroutine = inspect.iscoroutinefunction(called)
        self._on_message: Callable[[list[StoredMessage]], Any] = (
            on_message if wrap is None else wrap(on_message, self.is_coroutine)
        )
        self._threads = (
            None if self.is_coroutine else HandlerThreads(self._on_message, thread_count_max, "pymq-handler")
        )

    async def call(self, messages: list[StoredMessage], started_ms: int) -> ConsumeResult:
        """Return the handler's result; None counts as SUCCESS. ``started_ms`` is the monotonic time now.

        Raises UnhandledError for a loop that does not take the message any more.

        What it raises is logged and means RECONSUME_LATER: an exception, SystemExit, a cancellation that is not this
        task's. So does a result of another type, because what was not done may be done again, but never lost.
        """
        delivery = self._tracer.delivered(messages) if self._tracer is not None else ""
        raised = False
        try:
            result = await (self._on_message(messages) if self._threads is None else self._in_thread(messages))
            if result is None:
                result = ConsumeResult.SUCCESS
            elif result.__class__ is not ConsumeResult:
                result = _not_a_result(result, messages)
        except UnhandledError:
            raise
        except asyncio.CancelledError as error:
            if not self._is_handlers(error, messages):
                raise
            result, raised = ConsumeResult.RECONSUME_LATER, True
        except (Exception, SystemExit) as error:
            _log_failure(error, messages)
            result, raised = ConsumeResult.RECONSUME_LATER, True
        failed = result is not ConsumeResult.SUCCESS
        spent_ms = self._clock.monotonic_ms() - started_ms
        self._counters.handled(messages[0].topic, len(messages), spent_ms, failed=failed)
        if self._tracer is not None:
            self._tracer.consumed(delivery, messages, spent_ms, failed=failed, raised=raised)
        return result

    async def call_unguarded(self, messages: list[StoredMessage]) -> ConsumeResult:
        """Return the handler's result and raise what the handler raises."""
        result = await (self._on_message(messages) if self._threads is None else self._in_thread(messages))
        if result is None:
            return ConsumeResult.SUCCESS
        return result if isinstance(result, ConsumeResult) else _not_a_result(result, messages)

    async def _in_thread(self, messages: list[StoredMessage]) -> Any:
        assert self._threads is not None
        result, error = await self._threads.call(messages)
        if error is not None:
            raise error if isinstance(error, Exception) else _EndedError(repr(error)) from error
        return await result if inspect.isawaitable(result) else result

    def expire(self, task: asyncio.Task[Any]) -> None:
        """Cancel the coroutine of a call that ``task`` makes and that takes too long."""
        self._expired.add(task)
        task.cancel()

    def _is_handlers(self, error: asyncio.CancelledError, messages: list[StoredMessage]) -> bool:
        """Return False for a cancellation of the task that calls, which must end."""
        task = asyncio.current_task()
        assert task is not None
        if task in self._expired:
            self._expired.discard(task)
            if not task.uncancel():
                log.error("the message handler took too long and was cancelled on %s", _ids(messages))
                return True
        if task.cancelling():
            return False
        _log_failure(error, messages)
        return True

    def close(self) -> None:
        """End the threads once their running calls are done."""
        if self._threads is not None:
            self._threads.close()


class _EndedError(Exception):
    """A plain function raised SystemExit, KeyboardInterrupt or a cancellation, meant for its own thread at most."""


def _ids(messages: list[StoredMessage]) -> list[str]:
    return [message.message_id for message in messages]


def _log_failure(error: BaseException, messages: list[StoredMessage]) -> None:
    log.error("the message handler failed on %s", _ids(messages), exc_info=error)


def _not_a_result(result: Any, messages: list[StoredMessage]) -> ConsumeResult:
    log.error(
        "the message handler returned %.100r for %s, which comes again: return a ConsumeResult, or None for success",
        *(result, _ids(messages)),
    )
    return ConsumeResult.RECONSUME_LATER
