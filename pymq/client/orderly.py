"""Orderly consumption: handles the messages of each queue in order, each batch after the one before it is done."""

from __future__ import annotations

import asyncio
import logging

from pymq.client.consume_result import ConsumeResult
from pymq.client.consume_timeouts import ConsumeTimeouts, RunningCall
from pymq.client.consumer_settings import ConsumerState
from pymq.client.handler import MessageHandler
from pymq.client.handover import UnhandledError
from pymq.client.process_queue import ProcessQueue
from pymq.client.queue_locks import QueueLocks
from pymq.client.send_back import give_up
from pymq.model.record import StoredMessage

log = logging.getLogger(__name__)

LOCK_RETRY_INTERVAL_S = 0.1


class OrderlyConsumption:
    """One task per queue. In clustering mode it runs only while the broker has the queue locked for this client."""

    def __init__(self, state: ConsumerState, handler: MessageHandler, locks: QueueLocks) -> None:
        self._state = state
        self._handler = handler
        self._locks = locks
        self._tasks: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._calls: dict[ProcessQueue, RunningCall] = {}
        clock, timeout_s = state.instance.clock, state.settings.consume_timeout_s
        # A queue's messages can't come again while a call still runs: two calls at once would break the order.
        self._timeouts = ConsumeTimeouts(timeout_s, clock, handler, None)
        self._slots = asyncio.Semaphore(state.settings.concurrency_max)

    def start(self) -> None:
        """Start to watch for handler calls that take too long; :meth:`begin` starts a task for each queue."""
        self._state.instance.every(
            self._timeouts.interval_s,
            lambda: self._timeouts.check(list(self._calls.values())),
            "end handler calls that take too long",
        )

    def begin(self, process_queue: ProcessQueue) -> None:
        """Start a new queue's task."""
        task = self._state.instance.spawn(self._run(process_queue))
        self._tasks[process_queue] = task
        self._calls[process_queue] = RunningCall(task)
        task.add_done_callback(lambda ended: self._calls.pop(process_queue, None))

    def submit(self, process_queue: ProcessQueue, messages: list[StoredMessage]) -> None:
        """Queue messages behind the earlier ones; the process queue must hold them already."""
        process_queue.waiting += messages

    async def end(self, process_queue: ProcessQueue) -> None:
        """Wait for the running handler, apply its result, and end the queue's task.

        The caller must hold the lock until then: the next owner starts at the offset this one reached.
        """
        task = self._tasks.pop(process_queue, None)
        if task is None:
            return
        process_queue.close()
        await asyncio.wait([task], timeout=self._state.settings.stop_timeout_s)
        if not task.done():
            log.warning(
                "the handler on %s still ran when the queue was released: its messages will come again",
                process_queue.queue,
            )
            task.cancel()
        process_queue.remove(process_queue.waiting)

    async def stop(self, timeout_s: float) -> None:
        """End the tasks of all queues at the same time, as :meth:`end` does for one."""
        for process_queue in self._tasks:
            process_queue.close()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=timeout_s)
        self._tasks.clear()

    async def _run(self, process_queue: ProcessQueue) -> None:
        while True:
            await process_queue.wait_for_messages()
            if process_queue.dropped or process_queue.closing:
                return
            if self._state.settings.uses_locks and not self._locks.holds(process_queue):
                await self._locks.lock([process_queue])
                if not self._locks.holds(process_queue):
                    await asyncio.sleep(LOCK_RETRY_INTERVAL_S)
                continue
            async with self._slots:
                again = await self._handle(process_queue)
            if again and not process_queue.closing:
                await self._pause(process_queue)

    async def _handle(self, process_queue: ProcessQueue) -> bool:
        """Call the handler with the oldest messages; return True when it must be called with the same ones again."""
        messages = process_queue.waiting[: self._state.settings.batch_count_max]
        call = self._calls[process_queue]
        now_ms = self._state.instance.clock.monotonic_ms()
        call.begin(process_queue, messages, now_ms)
        try:
            result = await self._handler.call(messages, now_ms)
        except UnhandledError:
            return True
        finally:
            call.end()
        if process_queue.dropped:
            return False
        if not await self._is_over(messages, result):
            return True
        del process_queue.waiting[: len(messages)]
        process_queue.remove(messages)
        self._state.offsets.move(process_queue.queue, process_queue.commit_offset())
        return False

    async def _is_over(self, messages: list[StoredMessage], result: ConsumeResult) -> bool:
        """Return True when all messages are done or in the dead letters; a failure counts one more attempt."""
        if result is ConsumeResult.SUCCESS:
            return True
        limit = self._state.settings.reconsume_count_max if result is ConsumeResult.RECONSUME_LATER else 0
        given_up = True
        for message in messages:
            if message.reconsume_times < limit:
                message.reconsume_times += 1
                given_up = False
            elif not await give_up(self._state, message):
                given_up = False
        return given_up

    async def _pause(self, process_queue: ProcessQueue) -> None:
        await asyncio.sleep(self._state.settings.suspend_ms / 1000)
