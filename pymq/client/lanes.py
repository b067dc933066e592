"""Lanes: where a producer's messages wait for their request, so that they leave in batches and, by key, in order.

A lane leads to a topic or to one of its queues. Messages join the last parcel of their lane until it is full or its
linger time is over. An ordered lane has one request on its way at a time, and repeats it before it sends the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

from pymq.client.in_flight import InFlight
from pymq.client.parcel import Item, Parcel
from pymq.client.preparing import Prepared
from pymq.clock import Clock
from pymq.errors import ClosedError, PymqError, RequestTimeoutError, UsageError
from pymq.model.layout import BATCH_COUNT_MAX
from pymq.model.message import Message, MessageQueue, SendResult

Deliver = Callable[[Parcel, "MessageQueue | None", bool], Awaitable[None]]
Place = tuple[str, "MessageQueue | None", bool]  # topic, queue, whether ordered

LINGER_MS_MAX = 60_000
OVERDUE_SLACK_S = 0.02  # so that a request's own error, which says more, comes first


class Lanes:
    """All lanes of one producer. ``deliver(parcel, queue, is_ordered)`` sends a parcel and never raises."""

    def __init__(
        self,
        clock: Clock,
        room: InFlight,
        deliver: Deliver,
        *,
        linger_ms: float | None,
        batch_bytes_max: int,
        batch_count_max: int,
    ) -> None:
        """``room`` gets back what each parcel held. ``linger_ms`` None: every message leaves alone.

        Raises UsageError for a limit that is out of range.
        """
        if linger_ms is not None and not 0 <= linger_ms <= LINGER_MS_MAX:
            raise UsageError(f"linger_ms is {linger_ms}: use 0 to {LINGER_MS_MAX}, None for no batches")
        if not 1 <= batch_count_max <= BATCH_COUNT_MAX:
            raise UsageError(f"batch_count_max is {batch_count_max}: use 1 to {BATCH_COUNT_MAX}")
        if batch_bytes_max < 1:
            raise UsageError(f"batch_bytes_max is {batch_bytes_max}: it must be at least 1")
        self.clock = clock
        self.linger_ms = linger_ms
        self.batch_bytes_max = batch_bytes_max
        self.batch_count_max = 1 if linger_ms is None else batch_count_max
        self.deliver = deliver
        self.room = room
        self.has_sent = False  # since the last look: the loop should get a turn to write it
        self._lanes: dict[Place, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._lanes)

    def put(
        self,
        message: Message,
        prepared: Prepared,
        size_bytes: int,
        queue: MessageQueue | None,
        deadline_ms: float,
        *,
        is_ordered: bool = False,
    ) -> asyncio.Future[SendResult]:
        """Send a message with the next request of its lane, and return the future of its result.

        ``queue`` None: any queue of the topic.
        """
        body, properties, message_id, sys_flag, is_alone = prepared
        item = (body, properties, message_id, message.flag)
        place = (message.topic, queue, is_ordered)
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane(self, place)
        elif lane.waiting and not is_alone:
            parcel = lane.waiting[-1]
            size_after = parcel.size_bytes + size_bytes
            if (
                not parcel.is_due
                and parcel.wait_store is message.wait_store
                and size_after < self.batch_bytes_max
                and len(parcel.items) + 1 < self.batch_count_max
                and deadline_ms >= parcel.wake_ms
            ):
                # The commonest case: one more message, and room for others.
                future: asyncio.Future[SendResult] = lane.loop.create_future()
                parcel.items.append(item)
                parcel.futures.append(future)
                parcel.deadlines_ms.append(deadline_ms)
                parcel.size_bytes = size_after
                return future
        return lane.put(item, message.wait_store, size_bytes, deadline_ms, sys_flag, is_alone)

    async def flush(self) -> None:
        """Send what lingers, and return when all that was put in before has its result or its error."""
        ends = [end for lane in list(self._lanes.values()) for end in lane.flush()]
        if ends:
            await asyncio.wait(ends)

    def end(self) -> None:
        """Fail what has not left, and end what is on its way: the producer stops."""
        for lane in list(self._lanes.values()):
            lane.end()
        for task in self._tasks:
            task.cancel()

    def spawn(self, work: Coroutine[object, None, None]) -> None:
        """Run ``work`` in a task of its own."""
        self.has_sent = True
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, place: Place) -> None:
        """Drop an empty lane."""
        self._lanes.pop(place, None)


class _Lane:
    """One lane: parcels that wait, the last of which may still grow, and parcels on their way."""

    __slots__ = ("_lanes", "_place", "_under_way", "loop", "waiting")

    def __init__(self, lanes: Lanes, place: Place) -> None:
        self._lanes = lanes
        self._place = place
        self.loop = asyncio.get_running_loop()
        self.waiting: deque[Parcel] = deque()
        self._under_way: set[Parcel] = set()

    def put(
        self, item: Item, wait_store: bool, size_bytes: int, deadline_ms: float, sys_flag: int, is_alone: bool
    ) -> asyncio.Future[SendResult]:
        """Add a message to the last parcel, or to a new one that later messages may join."""
        lanes = self._lanes
        future: asyncio.Future[SendResult] = self.loop.create_future()
        parcel = self.waiting[-1] if self.waiting else None
        if parcel is not None and (
            is_alone
            or parcel.is_due
            or parcel.wait_store is not wait_store
            or parcel.size_bytes + size_bytes > lanes.batch_bytes_max
        ):
            parcel.is_due = True
            parcel = None
        if parcel is None:
            parcel = Parcel(self._place[0], wait_store, sys_flag)
            parcel.is_due = is_alone
            self.waiting.append(parcel)
            self._arm(parcel, deadline_ms)
            self._linger(parcel)
        elif deadline_ms < parcel.wake_ms:
            self._arm(parcel, deadline_ms)
        parcel.add(item, future, deadline_ms, size_bytes)
        if len(parcel.items) >= lanes.batch_count_max or parcel.size_bytes >= lanes.batch_bytes_max:
            parcel.is_due = True
        self._send_due()
        return future

    def _linger(self, parcel: Parcel) -> None:
        linger_ms = self._lanes.linger_ms
        if parcel.is_due or linger_ms is None:
            return
        if linger_ms:
            self.loop.call_later(linger_ms / 1000, self._lingered, parcel)
        else:
            self.loop.call_soon(self._lingered, parcel)

    def _lingered(self, parcel: Parcel) -> None:
        # Behind a request that is on its way, a parcel of an ordered lane goes on collecting.
        if not (self._place[2] and self._under_way):
            parcel.is_due = True
            self._send_due()

    def _send_due(self) -> None:
        waiting, is_ordered = self.waiting, self._place[2]
        while waiting and waiting[0].is_due and not (is_ordered and self._under_way):
            parcel = waiting.popleft()
            self._under_way.add(parcel)
            self._lanes.spawn(self._deliver(parcel))

    async def _deliver(self, parcel: Parcel) -> None:
        _, queue, is_ordered = self._place
        try:
            await self._lanes.deliver(parcel, queue, is_ordered)
        finally:
            self._under_way.discard(parcel)
            self._ended(parcel)
            if is_ordered and self.waiting:
                self.waiting[0].is_due = True  # it lingered behind this one
            self._send_due()
            if not self.waiting and not self._under_way:
                self._lanes.forget(self._place)

    def _arm(self, parcel: Parcel, deadline_ms: float) -> None:
        if parcel.timer is not None:
            parcel.timer.cancel()
        parcel.wake_ms = deadline_ms
        delay_s = max(deadline_ms - self._lanes.clock.monotonic_ms(), 0) / 1000
        parcel.timer = self.loop.call_later(delay_s + OVERDUE_SLACK_S, self._overdue, parcel)

    def _overdue(self, parcel: Parcel) -> None:
        topic = self._place[0]
        error = RequestTimeoutError(
            f"no broker of topic {topic} confirmed the message in time: it may be stored or not"
        )
        next_ms = parcel.fail_overdue(self._lanes.clock.monotonic_ms(), error)
        if next_ms is not None:
            self._arm(parcel, next_ms)
        elif parcel in self.waiting:
            self.waiting.remove(parcel)
            self._ended(parcel)
            if not self.waiting and not self._under_way:
                self._lanes.forget(self._place)

    def _ended(self, parcel: Parcel) -> None:
        self._lanes.room.give(len(parcel.items), parcel.size_bytes)
        if parcel.timer is not None:
            parcel.timer.cancel()
        if parcel.ended is not None and not parcel.ended.done():
            parcel.ended.set_result(None)

    def flush(self) -> list[asyncio.Future[None]]:
        """Send what lingers. Returns futures of the ends of all parcels."""
        parcels = [*self._under_way, *self.waiting]
        for parcel in parcels:
            parcel.is_due = True
            if parcel.ended is None:
                parcel.ended = self.loop.create_future()
        self._send_due()
        return [parcel.ended for parcel in parcels if parcel.ended is not None]

    def end(self) -> None:
        """Fail what waits."""
        error: PymqError = ClosedError("the message was not sent: the producer was stopped")
        while self.waiting:
            parcel = self.waiting.popleft()
            parcel.fail(error)
            self._ended(parcel)
