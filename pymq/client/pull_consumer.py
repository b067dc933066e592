"""Reads queues at offsets the caller chooses: no group membership, no commits unless asked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import TracebackType

from pymq.client.instance import ROUTE_POLL_INTERVAL_S, ClientInstance
from pymq.client.pulling import keep_wanted, pull_once
from pymq.client.queue_offsets import QueueOffsets
from pymq.client.subscription import EVERYTHING, TAG, Subscription
from pymq.client.wanted import Wanted
from pymq.clock import Clock
from pymq.errors import UnreachableError
from pymq.model import sysflag
from pymq.model.message import MessageQueue, PullResult
from pymq.model.names import check_group, check_topic

PULL_COUNT_MAX = 32
SUBSCRIPTION_COUNT_MAX = 64


class PullConsumer:
    """A reader under the name of ``group``. Use it with ``async with``, or :meth:`start` and :meth:`stop`."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str],
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
        instance_name: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.group = check_group(group)
        self._instance = ClientInstance(
            namesrv, clock=clock, rng=rng, instance_name=instance_name, poll_interval_s=poll_interval_s
        )
        self._offsets = QueueOffsets(self._instance)
        self._broker_ids: dict[MessageQueue, int] = {}  # what brokers suggested: a slave when the master is far behind
        self._subscriptions: dict[tuple[str, Wanted], Subscription] = {}  # the one used last at the end

    async def __aenter__(self) -> PullConsumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begins background work (routes)."""
        if not self._instance.running:
            self._instance.start()

    async def stop(self) -> None:
        """Closes all connections; open pulls fail with UnreachableError."""
        await self._instance.close()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Readable queues of ``topic``, sorted, as a name server says now.

        Raises NotFoundError, UnreachableError, RefusedError, UsageError (no legal topic name).
        """
        await self._instance.routes.renew(check_topic(topic))
        return await self._instance.routes.queues_to_read(topic)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = PULL_COUNT_MAX,
        *,
        bytes_max: int | None = None,
        expression: str = EVERYTHING,
        sql: str | None = None,
        expression_type: str = TAG,
        filter: str | None = None,
        on_error: str = "skip",
        via: str | None = None,
        suspend_ms: int = 0,
    ) -> PullResult:
        """Messages of ``queue`` from ``offset`` on; with ``suspend_ms`` the broker waits so long for the first one.

        Brokers cap ``count_max`` and ``bytes_max``. Go on at the result's ``next_offset``, also when nothing matched;
        OFFSET_ILLEGAL says that ``offset`` is no longer, or not yet, stored. What is wanted is said as in
        :meth:`PushConsumer.subscribe`: ``sql`` instead of a tag ``expression``, or a ``filter`` with its expression,
        which runs here or, with ``via="filter-server"``, in a filter server of the queue's broker. With ``on_error``
        stop, the result ends before a message that the filter can't judge, and the pull from there on fails.

        Raises UsageError (a wrong expression), NotFoundError, RefusedError, UnreachableError (also when no filter
        server answers), FilterStopError.
        """
        wanted = Wanted(expression, sql, expression_type, filter, on_error, via)
        subscription = self._subscription(queue.topic, wanted)
        try:
            result = await pull_once(
                self._instance,
                self.group,
                queue,
                offset,
                subscription,
                count_max=count_max,
                bytes_max=bytes_max,
                suspend_ms=suspend_ms,
                sys_flag=sysflag.PULL_SUBSCRIPTION,
                broker_id=self._broker_ids.get(queue, 0),
            )
        except UnreachableError:
            self._broker_ids.pop(queue, None)
            self._instance.renew_route(queue.topic)
            raise
        self._broker_ids[queue] = result.suggested_broker_id
        keep_wanted(result, subscription)
        return result

    def _subscription(self, topic: str, wanted: Wanted) -> Subscription:
        """Kept while it is used: compiling a filter is work, and some keep state from pull to pull."""
        key = topic, wanted
        found = self._subscriptions.pop(key, None)
        if found is None:
            found = wanted.subscription(topic, 0, self._instance.clock)
            if len(self._subscriptions) >= SUBSCRIPTION_COUNT_MAX:
                del self._subscriptions[next(iter(self._subscriptions))]
        self._subscriptions[key] = found
        return found

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still stored."""
        return await self._offsets.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset the next message will get."""
        return await self._offsets.max_offset(queue)

    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at ``timestamp_ms`` (Unix ms) or later."""
        return await self._offsets.by_time(queue, timestamp_ms)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Where this group goes on in ``queue``; None when it never committed there."""
        return await self._offsets.committed(self.group, queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Makes ``offset`` the place where this group goes on."""
        await self._offsets.commit(self.group, queue, offset)
