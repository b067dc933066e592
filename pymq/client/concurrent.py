"""Concurrent consumption: a limited number of handler calls run at once, in any order; failures are sent back."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from pymq.client.consume_result import ConsumeResult
from pymq.client.consume_timeouts import ConsumeTimeouts, RunningCall
from pymq.client.consumer_settings import TO_DEAD_LETTERS, ConsumerState
from pymq.client.handler import MessageHandler
from pymq.client.handover import UnhandledError
from pymq.client.popped_queue import PoppedQueue
from pymq.client.process_queue import ProcessQueue
from pymq.client.send_back import send_back
from pymq.model.record import StoredMessage

log = logging.getLogger(__name__)

KEPT_RETRY_INTERVAL_S = 5.0  # Java: submitConsumeRequestLater
TURN_MAX_MS = 10  # handlers that never wait let the client's own work go on after this time

_SUCCESS = ConsumeResult.SUCCESS

_Work = tuple[ProcessQueue, list[StoredMessage]]


class ConcurrentConsumption:
    """A pool of workers that share one queue of message batches."""

    def __init__(self, state: ConsumerState, handler: MessageHandler) -> None:
        self._state = state
        self._handler = handler
        self._clock = state.instance.clock
        self._batches: deque[_Work] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()  # workers without work
        self._calls: list[RunningCall] = []  # one for each worker
        self._turn_began_ms = 0
        self._idle = asyncio.Event()  # set at the end of each call while the consumer stops
        self._stopping = False
        self._timeouts = ConsumeTimeouts(state.settings.consume_timeout_s, self._clock, handler, self._come_again)

    def start(self) -> None:
        """Start the workers; they end with the client."""
        self._loop = asyncio.get_running_loop()
        for _ in range(self._state.settings.concurrency_max):
            self._calls.append(RunningCall(self._state.instance.spawn(self._work(len(self._calls)))))
        self._state.instance.every(
            self._timeouts.interval_s, lambda: self._timeouts.check(self._calls), "end handler calls that take too long"
        )

    def submit(self, process_queue: ProcessQueue, messages: list[StoredMessage]) -> None:
        """Queue messages for the workers; the process queue must hold them already."""
        size = self._state.settings.batch_count_max
        if size == 1:
            self._batches.extend([(process_queue, [message]) for message in messages])
        else:
            self._batches.extend(
                [(process_queue, messages[start : start + size]) for start in range(0, len(messages), size)]
            )
        if self._waiting:
            self._wake(1)
            self._loop.call_soon(self._help)

    def begin(self, process_queue: ProcessQueue) -> None:
        """Do nothing: the messages of a new queue come through :meth:`submit`."""

    async def end(self, process_queue: ProcessQueue) -> None:
        """Do nothing: workers discard the waiting batches of a dropped queue."""

    async def stop(self, timeout_s: float) -> None:
        """Start no further handler call and wait for the running ones, ``timeout_s`` at most."""
        self._stopping = True
        try:
            async with asyncio.timeout(timeout_s):
                while self._running_count():
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            log.warning(
                "%d handler calls still ran after %g s: their messages will come again",
                *(self._running_count(), timeout_s),
            )

    def _running_count(self) -> int:
        return sum(call.process_queue is not None for call in self._calls)

    def _help(self) -> None:
        """Wake workers for what is left. The worker that was woken first has done all of it by now, or it waits."""
        self._wake(len(self._batches))

    def _wake(self, count: int) -> None:
        while self._waiting and count > 0:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                count -= 1

    async def _next(self) -> _Work:
        """Wait for work, which other workers may take first."""
        while True:
            if self._batches:
                now_ms = self._clock.monotonic_ms()
                if now_ms - self._turn_began_ms < TURN_MAX_MS:
                    return self._batches.popleft()
                await asyncio.sleep(0)
                self._turn_began_ms = self._clock.monotonic_ms()
            else:
                future: asyncio.Future[None] = self._loop.create_future()
                self._waiting.append(future)
                await future
                self._turn_began_ms = self._clock.monotonic_ms()

    async def _work(self, number: int) -> None:
        batches, clock = self._batches, self._clock
        while True:
            now_ms = clock.monotonic_ms()
            if batches and now_ms - self._turn_began_ms < TURN_MAX_MS:
                process_queue, messages = batches.popleft()
            else:
                process_queue, messages = await self._next()
                now_ms = clock.monotonic_ms()
            if self._stopping:
                continue
            if process_queue.dropped or (process_queue.is_popped and _is_over(process_queue, messages)):
                process_queue.remove(messages)
                continue
            call = self._calls[number]
            call.begin(process_queue, messages, now_ms)
            try:
                result = await self._handler.call(messages, now_ms)
                call.messages = None
                if call.given_up or process_queue.dropped or process_queue.is_popped or result is not _SUCCESS:
                    await self._not_done(process_queue, messages, None if call.given_up else result)
                else:
                    process_queue.remove(messages)
                    self._state.offsets.move(process_queue.queue, process_queue.commit_offset())
            except UnhandledError:
                pass  # its offset holds the commits back
            except Exception:
                log.exception("messages of %s were not handled", process_queue.queue)
            finally:
                call.end()
                if self._stopping:
                    self._idle.set()

    async def _not_done(
        self, process_queue: ProcessQueue, messages: list[StoredMessage], result: ConsumeResult | None
    ) -> None:
        """End a call of popped messages, or one that failed, lost its queue or was given up (``result`` None)."""
        if result is None:
            return
        if isinstance(process_queue, PoppedQueue):
            await process_queue.settle(messages, result)
            return
        if process_queue.dropped or result is ConsumeResult.SUCCESS:
            process_queue.remove(messages)
            return
        await self._send_back(process_queue, messages, to_dead_letters=result is ConsumeResult.DEAD_LETTER)

    async def _come_again(self, process_queue: ProcessQueue, messages: list[StoredMessage]) -> None:
        """Send back what a call that takes too long still holds."""
        if isinstance(process_queue, PoppedQueue):
            await process_queue.settle(messages, ConsumeResult.RECONSUME_LATER)
        elif not process_queue.dropped:
            await self._send_back(process_queue, messages, to_dead_letters=False)

    async def _send_back(
        self, process_queue: ProcessQueue, messages: list[StoredMessage], *, to_dead_letters: bool
    ) -> None:
        """Send messages back and move the offset; what could not be sent is handled again after a pause.

        Broadcasting has no retries.
        """
        kept: list[StoredMessage] = []
        if self._state.settings.broadcasting:
            log.warning("broadcasting consumers get no retry: %s are dropped", [one.message_id for one in messages])
        else:
            level = TO_DEAD_LETTERS if to_dead_letters else self._state.settings.delay_level
            kept = [message for message in messages if not await send_back(self._state, message, level)]
        process_queue.remove([message for message in messages if message not in kept] if kept else messages)
        if kept:
            self._state.instance.spawn(self._submit_later(process_queue, kept))
        if not process_queue.dropped:
            self._state.offsets.move(process_queue.queue, process_queue.commit_offset())

    async def _submit_later(self, process_queue: ProcessQueue, messages: list[StoredMessage]) -> None:
        await asyncio.sleep(KEPT_RETRY_INTERVAL_S)
        for message in messages:
            message.reconsume_times += 1
        self.submit(process_queue, messages)


def _is_over(process_queue: ProcessQueue, messages: list[StoredMessage]) -> bool:
    return isinstance(process_queue, PoppedQueue) and process_queue.is_over(messages)
