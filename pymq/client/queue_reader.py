"""Keeps the cache of one assigned queue filled: long-polls while there is room, and handles each answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from pymq.client.consumer_settings import ConsumerState
from pymq.client.process_queue import ProcessQueue
from pymq.client.pulling import pull_once
from pymq.client.queue_locks import QueueLocks
from pymq.client.uninterrupted import uninterrupted
from pymq.errors import FilterStopError, PymqError, RefusedError, UnreachableError
from pymq.model import sysflag
from pymq.model.message import PullResult, PullStatus
from pymq.model.names import retry_topic
from pymq.model.properties import RETRY_TOPIC
from pymq.model.record import StoredMessage
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

# A broker that answers "nothing new" at once doesn't suspend pulls: this pause keeps the client from spinning.
EMPTY_PAUSE_S = 0.1
BUSY_PAUSE_S = 0.02
LOCK_PAUSE_S = 0.1
_BUSY_CODES = {ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL}
_SUBSCRIPTION_CODES = {ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST}
_CLASS_FILTER_CODES = {*_SUBSCRIPTION_CODES, ResponseCode.FILTER_DATA_NOT_EXIST}


class Consumption(Protocol):
    """Passes pulled messages to the handler, concurrently or in order."""

    def start(self) -> None: ...
    def begin(self, process_queue: ProcessQueue) -> None: ...
    def submit(self, process_queue: ProcessQueue, messages: list[StoredMessage]) -> None: ...
    async def end(self, process_queue: ProcessQueue) -> None: ...
    async def stop(self, timeout_s: float) -> None: ...


class QueueReader:
    """The pull loop of one queue; :meth:`run` ends when the queue is dropped."""

    def __init__(
        self, state: ConsumerState, process_queue: ProcessQueue, consumption: Consumption, locks: QueueLocks
    ) -> None:
        self._state = state
        self._process_queue = process_queue
        self._queue = process_queue.queue
        self._consumption = consumption
        self._locks = locks
        self._broker_id = 0
        self._retry_topic = retry_topic(state.group)
        self._carried_offset = process_queue.next_pull_offset

    async def run(self) -> None:
        """Pull until the queue is dropped. Retries after failures, except when a filter stops the consumer."""
        while not self._process_queue.dropped:
            try:
                await self._step()
            except RefusedError as error:
                await self._refused(error)
            except UnreachableError as error:
                log.warning("no pull from %s: %s", self._queue, error)
                await self._start_over()
            except FilterStopError as error:
                self._state.fail(error)
                return
            except PymqError as error:
                log.warning("no pull from %s: %s", self._queue, error)
                await asyncio.sleep(self._state.settings.retry_interval_s)

    async def _step(self) -> None:
        process_queue, settings = self._process_queue, self._state.settings
        await process_queue.wait_for_room()
        if settings.uses_locks and not self._locks.holds(process_queue):
            await asyncio.sleep(LOCK_PAUSE_S)
            return
        if process_queue.dropped:
            return
        clock = self._state.instance.clock
        started_ms = clock.monotonic_ms()
        process_queue.last_pull_ms = clock.now_ms()
        commit_offset = self._offset_to_carry()
        if commit_offset is None:
            result = await self._pull(suspend_ms=settings.long_poll_ms)
        else:
            # A broker may apply the offset of a suspended pull late, and would then overwrite the offset that the
            # consumer commits when it stops. So this pull is not suspended, and its answer is always awaited.
            result = await uninterrupted(self._pull(suspend_ms=0, commit_offset=commit_offset))
            self._carried_offset = commit_offset
        if process_queue.dropped:
            return
        self._broker_id = result.suggested_broker_id
        await self._take(result, clock.monotonic_ms() - started_ms, was_suspended=commit_offset is None)

    def _offset_to_carry(self) -> int | None:
        """Return the offset that the next pull commits; None until a full pull's number of messages is done.

        Fewer messages are committed at the next interval.
        """
        offset = self._state.offsets.current(self._queue)
        if offset is None or not self._state.offsets.can_commit_by_pull(self._queue):
            return None
        return offset if offset - self._carried_offset >= self._state.settings.pull_count_max else None

    async def _pull(self, *, suspend_ms: int, commit_offset: int = 0) -> PullResult:
        settings = self._state.settings
        return await pull_once(
            self._state.instance,
            self._state.group,
            self._queue,
            self._process_queue.next_pull_offset,
            self._state.subscriptions[self._queue.topic],
            count_max=settings.pull_count_max,
            bytes_max=settings.pull_bytes_max,
            suspend_ms=suspend_ms,
            sys_flag=sysflag.PULL_COMMIT_OFFSET if commit_offset else 0,
            commit_offset=commit_offset,
            broker_id=self._broker_id,
        )

    async def _take(self, result: PullResult, spent_ms: int, *, was_suspended: bool) -> None:
        process_queue = self._process_queue
        if result.status is PullStatus.FOUND:
            self._found(result, spent_ms)
        elif result.status is PullStatus.OFFSET_ILLEGAL:
            self._state.moves.moved(self._queue, process_queue.next_pull_offset, result)
            await self._move(result.next_offset)
        else:
            process_queue.next_pull_offset = result.next_offset
            self._nothing_to_handle()
            if result.status is PullStatus.NO_NEW_MESSAGE and was_suspended and spent_ms < EMPTY_PAUSE_S * 1000:
                await asyncio.sleep(EMPTY_PAUSE_S)

    def _found(self, result: PullResult, spent_ms: int) -> None:
        subscription = self._state.subscriptions[self._queue.topic]
        messages = result.messages()
        self._state.counters.pulled(self._queue.topic, len(messages), spent_ms)
        if subscription.tags:
            messages = [message for message in messages if subscription.accepts(message.tags)]
        next_offset = result.next_offset
        if subscription.local is not None and messages:
            messages, stop_offset = subscription.local.keep(messages)
            next_offset = next_offset if stop_offset is None else stop_offset
        if self._queue.topic == self._retry_topic:
            for message in messages:
                message.topic = message.properties.get(RETRY_TOPIC, message.topic)
        process_queue = self._process_queue
        process_queue.next_pull_offset = next_offset
        if messages:
            process_queue.add(messages)
            self._consumption.submit(process_queue, messages)
        else:
            self._nothing_to_handle()

    def _nothing_to_handle(self) -> None:
        """Move the offset past skipped messages, unless earlier ones are not done yet."""
        if not self._process_queue.count:
            self._state.offsets.move(self._queue, self._process_queue.next_pull_offset)

    async def _move(self, offset: int) -> None:
        """Continue at the offset that the broker gave, after running handlers are done: they must not overwrite it."""
        await self._process_queue.wait_until_done()
        if self._process_queue.dropped:
            return
        self._process_queue.next_pull_offset = self._carried_offset = offset
        self._state.offsets.move(self._queue, offset, back=True)
        await self._state.offsets.store([self._queue])

    async def _refused(self, error: RefusedError) -> None:
        if error.code in _BUSY_CODES:
            await asyncio.sleep(BUSY_PAUSE_S)
            return
        is_filtered = self._state.subscriptions[self._queue.topic].class_filter
        if error.code in (_CLASS_FILTER_CODES if is_filtered else _SUBSCRIPTION_CODES):
            # The broker lacks this subscription or its newest version: a heartbeat sends it.
            log.info("%s has no current subscription: %s", error.address, error)
            await self._heartbeat(await self._state.instance.routes.read_address(self._queue, self._broker_id))
        else:
            log.warning("a pull from %s was refused: %s", self._queue, error)
        await asyncio.sleep(self._state.settings.retry_interval_s)

    async def _start_over(self) -> None:
        """Renew route and heartbeat after a lost connection: the broker may have moved and has dropped this client."""
        await asyncio.sleep(self._state.settings.retry_interval_s)
        self._broker_id = 0
        routes = self._state.instance.routes
        try:
            await routes.renew(self._queue.topic)
        except PymqError as error:
            log.debug("the route of %s stays as it is: %s", self._queue.topic, error)
        try:
            await self._heartbeat(await routes.read_address(self._queue))
        except PymqError as error:
            log.debug("%s still can't be reached: %s", self._queue, error)

    async def _heartbeat(self, address: str) -> None:
        try:
            await self._state.instance.heartbeat(address)
        except PymqError as error:
            log.info("no heartbeat to %s: %s", address, error)
