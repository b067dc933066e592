"""PoppedQueue: messages that a push consumer popped and has not settled, and the loop that pops them.

Java: PopProcessQueue, and the popMessage of DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import ClassVar

from pymq.client.consume_result import ConsumeResult
from pymq.client.consumer_settings import TO_DEAD_LETTERS, ConsumerState
from pymq.client.popping import POP_COUNT_MAX, Popping
from pymq.client.process_queue import ProcessQueue
from pymq.client.queue_reader import EMPTY_PAUSE_S, Consumption
from pymq.client.received import Received
from pymq.client.send_back import FIRST_RETRY_DELAY_LEVEL, send_back
from pymq.errors import PymqError, UnreachableError
from pymq.model.message import MessageQueue
from pymq.model.record import StoredMessage

log = logging.getLogger(__name__)

CACHED_COUNT_MAX = 96  # Java: popThresholdForQueue
# RocketMQ's delay levels. A message stays away for the third one after its first delivery (Java: popDelayLevel).
DELAYS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


class PoppedQueue(ProcessQueue):
    """What was popped from one queue, or with the id -1 from all queues of a broker. The broker keeps the offsets."""

    is_popped: ClassVar[bool] = True

    def __init__(self, queue: MessageQueue, state: ConsumerState, popping: Popping) -> None:
        count_max = min(state.settings.cached_count_max, CACHED_COUNT_MAX)
        super().__init__(queue, 0, count_max=count_max, bytes_max=state.settings.cached_bytes_max)
        self._state = state
        self._popping = popping
        self._clock = state.instance.clock
        self._receipts: dict[int, tuple[Received, int]] = {}  # by message; the monotonic ms when its time is over

    def take(self, found: list[Received], begun_ms: int) -> list[StoredMessage]:
        """Add what a pop that began at ``begun_ms`` (monotonic) got; return the messages."""
        messages = [each.message for each in found]
        end_ms = begun_ms + self._state.settings.invisible_ms
        self._receipts.update({id(each.message): (each, end_ms) for each in found})
        self.add(messages)
        return messages

    def add(self, messages: Iterable[StoredMessage]) -> None:
        """Add messages, whose offsets may be of several queues."""
        for message in messages:
            self._messages[id(message)] = message
            self._bytes += message.size_bytes

    def remove(self, messages: Iterable[StoredMessage]) -> None:
        """Forget messages. What was not settled comes again when its invisible time is over."""
        for message in messages:
            if self._messages.pop(id(message), None) is not None:
                self._receipts.pop(id(message), None)
                self._bytes -= message.size_bytes
        self._removed.set()

    def is_over(self, messages: list[StoredMessage]) -> bool:
        """Return True for messages that the broker delivers again, because they waited here for too long."""
        now_ms = self._clock.monotonic_ms()
        return any(now_ms >= self._receipts[id(message)][1] for message in messages)

    async def settle(self, messages: list[StoredMessage], result: ConsumeResult) -> None:
        """Acknowledge messages, let them come again later, or send them to the dead letters."""
        for message in messages:
            received = self._receipts[id(message)][0]
            try:
                await self._settle(received, result)
            except PymqError as error:
                log.warning("%s is not settled, and comes again: %s", message.message_id, error)
        self.remove(messages)

    async def _settle(self, received: Received, result: ConsumeResult) -> None:
        message, settings = received.message, self._state.settings
        if result is ConsumeResult.SUCCESS:
            await self._popping.ack(received)
            return
        is_last = message.reconsume_times >= settings.reconsume_count_max or settings.delay_level == TO_DEAD_LETTERS
        if is_last or result is ConsumeResult.DEAD_LETTER:
            if await send_back(self._state, message, TO_DEAD_LETTERS):
                await self._popping.ack(received)
            return
        level = settings.delay_level or FIRST_RETRY_DELAY_LEVEL + message.reconsume_times
        await self._popping.give_back(received, DELAYS_S[min(level, len(DELAYS_S)) - 1] * 1000)

    async def give_all_back(self) -> None:
        """Let messages that no handler got come again at once."""
        for received, end_ms in list(self._receipts.values()):
            try:
                if self._clock.monotonic_ms() < end_ms:
                    await self._popping.give_back(received)
            except PymqError as error:
                log.info("%s comes again when its invisible time is over: %s", received.message.message_id, error)
        self.remove(list(self._messages.values()))


class PopReader:
    """The loop that keeps a popped queue filled; :meth:`run` ends when it is dropped."""

    def __init__(
        self, state: ConsumerState, popped_queue: PoppedQueue, popping: Popping, consumption: Consumption
    ) -> None:
        self._state = state
        self._popped_queue = popped_queue
        self._popping = popping
        self._consumption = consumption

    async def run(self) -> None:
        """Pop until the queue is dropped. Tries again after failures."""
        queue, settings = self._popped_queue.queue, self._state.settings
        while not self._popped_queue.dropped:
            try:
                await self._step()
            except UnreachableError as error:
                log.warning("no pop from %s: %s", queue, error)
                await asyncio.sleep(settings.retry_interval_s)
                self._state.instance.renew_route(queue.topic)
            except PymqError as error:
                log.warning("no pop from %s: %s", queue, error)
                await asyncio.sleep(settings.retry_interval_s)

    async def _step(self) -> None:
        popped_queue, settings, clock = self._popped_queue, self._state.settings, self._state.instance.clock
        await popped_queue.wait_for_room()
        if popped_queue.dropped:
            return
        begun_ms = clock.monotonic_ms()
        found = await self._popping.pop(
            popped_queue.queue,
            min(settings.pull_count_max, POP_COUNT_MAX),
            settings.invisible_ms,
            settings.long_poll_ms,
            self._state.subscriptions[popped_queue.queue.topic],
        )
        now_ms = clock.monotonic_ms()
        if found:
            messages = popped_queue.take(found, now_ms)
            self._state.counters.pulled(popped_queue.queue.topic, len(messages), now_ms - begun_ms)
            self._consumption.submit(popped_queue, messages)
        elif now_ms - begun_ms < EMPTY_PAUSE_S * 1000:
            await asyncio.sleep(EMPTY_PAUSE_S)
