"""Concurrent consumption: a limited number of handler calls run at once, in any order; failures are sent back."""

from __future__ import annotations

import asyncio
import logging

from pymq.client.consume_result import ConsumeResult
from pymq.client.consumer_settings import ConsumerState
from pymq.client.handler import MessageHandler
from pymq.client.process_queue import ProcessQueue
from pymq.client.send_back import send_back
from pymq.model.record import StoredMessage

log = logging.getLogger(__name__)

KEPT_RETRY_INTERVAL_S = 5.0  # Java: submitConsumeRequestLater

_Work = tuple[ProcessQueue, list[StoredMessage]]


class ConcurrentConsumption:
    """A pool of workers that share one queue of message batches."""

    def __init__(self, state: ConsumerState, handler: MessageHandler) -> None:
        self._state = state
        self._handler = handler
        self._batches: asyncio.Queue[_Work] = asyncio.Queue()
        self._running_count = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False

    def start(self) -> None:
        """Starts the workers; they end with the client."""
        for _ in range(self._state.settings.concurrency_max):
            self._state.instance.spawn(self._work())

    def submit(self, process_queue: ProcessQueue, messages: list[StoredMessage]) -> None:
        """Queues messages for the workers; the process queue must hold them already."""
        size = self._state.settings.batch_count_max
        for start in range(0, len(messages), size):
            self._batches.put_nowait((process_queue, messages[start : start + size]))

    def begin(self, process_queue: ProcessQueue) -> None:
        """Does nothing: the messages of a new queue come through :meth:`submit`."""

    async def end(self, process_queue: ProcessQueue) -> None:
        """Does nothing: workers discard the waiting batches of a dropped queue."""

    async def stop(self, timeout_s: float) -> None:
        """Starts no further handler call and waits for the running ones, ``timeout_s`` at most."""
        self._stopping = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning(
                "%d handler calls still ran after %g s: their messages will come again", self._running_count, timeout_s
            )

    async def _work(self) -> None:
        while True:
            process_queue, messages = await self._batches.get()
            if self._stopping:
                continue
            if process_queue.dropped:
                process_queue.remove(messages)
                continue
            self._running_count += 1
            self._idle.clear()
            try:
                await self._handle(process_queue, messages)
            except Exception:
                log.exception("messages of %s were not handled", process_queue.queue)
            finally:
                self._running_count -= 1
                if not self._running_count:
                    self._idle.set()

    async def _handle(self, process_queue: ProcessQueue, messages: list[StoredMessage]) -> None:
        result = await self._handler.call(messages)
        process_queue.last_consume_ms = self._state.instance.clock.now_ms()
        if process_queue.dropped:
            process_queue.remove(messages)
            return
        kept: list[StoredMessage] = []
        if result is ConsumeResult.RECONSUME_LATER:
            kept = await self._send_back_all(messages)
        done = [message for message in messages if message not in kept] if kept else messages
        process_queue.remove(done)
        if kept:
            self._state.instance.spawn(self._submit_later(process_queue, kept))
        if not process_queue.dropped:
            self._state.offsets.move(process_queue.queue, process_queue.commit_offset())

    async def _send_back_all(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Sends messages back and returns those that could not be sent. Broadcasting has no retries."""
        if self._state.settings.broadcasting:
            log.warning("broadcasting consumers get no retry: %s are dropped", [one.message_id for one in messages])
            return []
        level = self._state.settings.delay_level
        return [message for message in messages if not await send_back(self._state, message, level)]

    async def _submit_later(self, process_queue: ProcessQueue, messages: list[StoredMessage]) -> None:
        await asyncio.sleep(KEPT_RETRY_INTERVAL_S)
        for message in messages:
            message.reconsume_times += 1
        self.submit(process_queue, messages)
