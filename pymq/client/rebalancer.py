"""Shares a topic's queues among the members of a group: lists the members, takes new queues, releases the others."""

from __future__ import annotations

import asyncio
import logging

from pymq.client.broker_assignment import BrokerAssignment
from pymq.client.consumer_settings import FIRST, LAST, ConsumerState
from pymq.client.process_queue import ProcessQueue
from pymq.client.queue_locks import QueueLocks
from pymq.client.queue_reader import Consumption, QueueReader
from pymq.errors import NotFoundError, PymqError, RefusedError
from pymq.model.allocation import strategy_of
from pymq.model.message import MessageQueue
from pymq.model.names import RETRY_PREFIX
from pymq.wire.bodies_client import ConsumerListAnswer, decode_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request
from pymq.wire.headers.client import ConsumerGroupHeader

log = logging.getLogger(__name__)

INCOMPLETE_INTERVAL_S = 1.0  # between rebalances while a queue could not be taken


class Rebalancer:
    """Assigns queues to this consumer: on a timer, on a broker's notice and on a changed route."""

    def __init__(self, state: ConsumerState, consumption: Consumption, locks: QueueLocks) -> None:
        self._state = state
        self._consumption = consumption
        self._locks = locks
        self._group = state.group
        self._strategy = strategy_of(state.settings.strategy)
        self._assignment = None if state.settings.client_rebalance else BrokerAssignment(state, consumption)
        self._woken = asyncio.Event()
        self._readers: dict[MessageQueue, asyncio.Task[None]] = {}
        self._releasing: set[asyncio.Task[None]] = set()
        self._detached: set[MessageQueue] = set()  # being released or reset: can't be taken yet
        self._reported: dict[str, str] = {}  # by topic, what the log says of the strategy
        self._incomplete = False
        self._stopped = False

    @property
    def popped(self) -> list[MessageQueue]:
        """The queues that this member pops, instead of pulling them."""
        return [] if self._assignment is None else list(self._assignment.popped)

    async def give_back_popped(self) -> None:
        """Let popped messages that no handler got come again at once, after :meth:`stop`."""
        if self._assignment is not None:
            await self._assignment.give_back()

    def wake(self) -> None:
        """Start a rebalance now."""
        self._woken.set()

    async def run(self) -> None:
        """Rebalance until cancelled, more often than the interval while a queue could not be taken."""
        while True:
            pause_s = self._state.settings.rebalance_interval_s
            if self._incomplete:
                pause_s = min(pause_s, INCOMPLETE_INTERVAL_S)
            try:
                # Not wait_for: in Python 3.11 it loses a cancellation that arrives together with the event.
                async with asyncio.timeout(pause_s):
                    await self._woken.wait()
            except TimeoutError:
                pass
            await self.rebalance()

    async def rebalance(self) -> None:
        """Rebalance all topics once. A topic stays as it is when its brokers or the name servers can't be reached."""
        self._woken.clear()
        self._incomplete = False
        for topic in list(self._state.subscriptions):
            try:
                await self._rebalance_topic(topic)
            except NotFoundError as error:
                self._incomplete = True
                log.debug("no queue to assign yet: %s", error)
            except PymqError as error:
                self._incomplete = True
                log.warning("the queues of %s stay as they are: %s", topic, error)

    async def stop(self) -> None:
        """End all pulls; queues stay in the state so that their offsets can be stored."""
        self._stopped = True
        if self._assignment is not None:
            await self._assignment.stop()
        for task in self._readers.values():
            task.cancel()
        await asyncio.gather(*self._readers.values(), *self._releasing, return_exceptions=True)
        self._readers.clear()

    async def release(self, queue: MessageQueue) -> None:
        """Release a queue: end its pulls, store its offset and unlock it."""
        process_queue = await self._detach(queue)
        if process_queue is None:
            return
        try:
            await self._consumption.end(process_queue)
            process_queue.drop()
            await self._state.offsets.store([queue])
            self._state.offsets.forget(queue)
            if self._state.settings.uses_locks:
                await self._locks.unlock([queue])
        finally:
            self._detached.discard(queue)

    async def restart(self, queue: MessageQueue, offset: int, wait_s: float) -> None:
        """Continue an assigned queue at ``offset``, after running handlers are done or ``wait_s`` seconds."""
        process_queue = await self._detach(queue)
        if process_queue is None:
            return
        try:
            process_queue.drop()
            await self._consumption.end(process_queue)
            async with asyncio.timeout(wait_s):
                await process_queue.wait_until_done()
        except TimeoutError:
            log.warning("handlers on %s still run while its offset is reset", queue)
        self._state.offsets.move(queue, offset, back=True)
        await self._state.offsets.store([queue])
        self._detached.discard(queue)
        self.wake()

    async def _detach(self, queue: MessageQueue) -> ProcessQueue | None:
        """Remove an assigned queue from the state and end its pulls."""
        process_queue = self._state.queues.pop(queue, None)
        if process_queue is not None:
            self._detached.add(queue)
            reader = self._readers.pop(queue, None)
            if reader is not None:
                reader.cancel()
                await asyncio.wait([reader])
        return process_queue

    async def _rebalance_topic(self, topic: str) -> None:
        queues = await self._state.instance.routes.queues_to_read(topic)
        if self._assignment is not None and queues:
            await self._take_assignment(self._assignment, topic, queues)
            return
        await self._share_out(topic, queues)

    async def _take_assignment(self, assignment: BrokerAssignment, topic: str, queues: list[MessageQueue]) -> None:
        """Take what a broker assigns. One that does not know the request, as RocketMQ 4, leaves it to the members."""
        try:
            assigned = await assignment.query(topic, queues)
        except RefusedError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            await self._share_out(topic, queues)
            return
        if assigned is None:
            self._incomplete = True
            return
        await assignment.apply(topic, assigned.popped)
        await self._apply(topic, assigned.pulled)

    async def _share_out(self, topic: str, queues: list[MessageQueue]) -> None:
        mine = set(queues)
        if not self._state.settings.broadcasting:
            members = await self._members(topic, queues)
            if members is None:
                self._incomplete = True
                return
            share = self._share(topic, queues, members)
            if share is None:
                self._incomplete = True
                return
            mine = share
        await self._apply(topic, mine)

    def _share(self, topic: str, queues: list[MessageQueue], members: list[str]) -> set[MessageQueue] | None:
        """Return the queues that the strategy gives this client, None when an application's strategy fails."""
        try:
            share = set(self._strategy(self._state.instance.client_id, queues, members))
        except Exception as error:
            self._report(topic, f"failed, so the queues of {topic} stay as they are", error)
            return None
        strange = share.difference(queues)
        text = f"{sorted(strange, key=repr)!r:.200}: return some of its second argument" if strange else ""
        self._report(topic, f"returned what is no queue of {topic}: {text}" if strange else "")
        return share - strange

    def _report(self, topic: str, text: str, error: Exception | None = None) -> None:
        """Log what the strategy does wrong with a topic once, until that changes: it is asked every second."""
        if text and self._reported.get(topic) != text:
            level = logging.WARNING if error is None else logging.ERROR
            log.log(level, "the strategy of group %s %s", self._group, text, exc_info=error)
        self._reported[topic] = text

    async def _members(self, topic: str, queues: list[MessageQueue]) -> list[str] | None:
        """Return the client ids of the group, None when the broker doesn't list this client yet."""
        if not queues:
            return None
        address = await self._state.instance.routes.read_address(self._state.instance.rng.choice(queues))
        for _ in range(2):
            header = ConsumerGroupHeader(consumer_group=self._state.group)
            command = request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
            answer = await self._state.instance.remoting.invoke(address, command)
            if answer.code == 0 and answer.body:
                found: ConsumerListAnswer = decode_body(ConsumerListAnswer, answer.body)
                if self._state.instance.client_id in found.consumer_id_list:
                    return found.consumer_id_list
            await self._state.instance.heartbeat(address)
        return None

    async def _apply(self, topic: str, mine: set[MessageQueue]) -> None:
        current = {queue for queue in self._state.queues if queue.topic == topic}
        for queue in current - mine:
            log.info("%s goes to another member of %s", queue, self._state.group)
            self._release_beside(queue)
        added = [one for one in [await self._take(queue) for queue in sorted(mine - current)] if one is not None]
        if added or current - mine:
            await self._announce(topic)
        for process_queue in added:
            self._begin(process_queue)

    def _release_beside(self, queue: MessageQueue) -> None:
        task = self._state.instance.spawn(self.release(queue))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _take(self, queue: MessageQueue) -> ProcessQueue | None:
        """Return a process queue at its start offset, None when the queue must wait for the next round."""
        if queue in self._detached:
            self._incomplete = True
            return None
        settings = self._state.settings
        process_queue = ProcessQueue(queue, 0, count_max=settings.cached_count_max, bytes_max=settings.cached_bytes_max)
        if settings.uses_locks:
            await self._locks.lock([process_queue])
            if not self._locks.holds(process_queue):
                log.info("%s is still locked by another member", queue)
                self._incomplete = True
                return None
        try:
            process_queue.next_pull_offset = await _start_offset(self._state, queue)
        except PymqError as error:
            log.warning("the start offset of %s is unknown: %s", queue, error)
            self._incomplete = True
            return None
        return process_queue

    async def _announce(self, topic: str) -> None:
        """Send the brokers a new version of the subscription, as each change of queues needs before the first pull."""
        subscription = self._state.subscriptions[topic]
        subscription.version = max(self._state.instance.clock.now_ms(), subscription.version + 1)
        await self._state.instance.heartbeat_all()

    def _begin(self, process_queue: ProcessQueue) -> None:
        if self._stopped:
            return
        queue = process_queue.queue
        self._state.queues[queue] = process_queue
        self._state.offsets.move(queue, process_queue.next_pull_offset)
        self._consumption.begin(process_queue)
        reader = QueueReader(self._state, process_queue, self._consumption, self._locks)
        self._readers[queue] = self._state.instance.spawn(reader.run())


async def _start_offset(state: ConsumerState, queue: MessageQueue) -> int:
    """Return the first offset to pull. Raises RefusedError or UnreachableError rather than guess an offset.

    A retry topic holds only messages that this group has not finished. A new member reads it from its start, except
    when ``consume_from`` is a time (Java: RebalancePushImpl.computePullFromWhereWithException).
    """
    stored = await state.offsets.stored(queue)
    if stored is not None and stored >= 0:
        return stored
    consume_from = state.settings.consume_from
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if consume_from == FIRST:
        return await state.queue_offsets.min_offset(queue)
    if consume_from == LAST:
        return 0 if is_retry else await state.queue_offsets.max_offset(queue)
    if is_retry:
        return await state.queue_offsets.max_offset(queue)
    return await state.queue_offsets.by_time(queue, int(consume_from))
