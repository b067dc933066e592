"""Reads queues at offsets that the caller chooses: no group membership, and commits only on request."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Unpack

from pymq.client.consumer_settings import FIRST
from pymq.client.group_client import GroupClient
from pymq.client.instance import ROUTE_POLL_INTERVAL_S, ClientInstance, ClusterAccess
from pymq.client.options import SubscribeOptions
from pymq.client.pulled_loop import PulledLoop
from pymq.client.pulling import filter_result, pull_once
from pymq.client.queue_offsets import QueueOffsets
from pymq.client.subscription import EVERYTHING, Subscription
from pymq.client.subscription_options import SubscriptionOptions
from pymq.client.tls import Tls
from pymq.clock import Clock
from pymq.errors import UnreachableError, UsageError
from pymq.model import sysflag
from pymq.model.message import MessageQueue, PullResult
from pymq.model.names import check_topic
from pymq.model.record import StoredMessage
from pymq.security.credentials import Credentials

PULL_COUNT_MAX = 32
SUBSCRIPTION_COUNT_MAX = 64


class PullConsumer(GroupClient):
    """A reader that uses the name of ``group``. Use it with ``async with``, or :meth:`start` and :meth:`stop`.

    ``namesrv``: as :class:`~pymq.client.producer.Producer` takes them.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
        instance_name: str | None = None,
        tls: Tls | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        instance = ClientInstance(
            ClusterAccess(namesrv, credentials, tls),
            clock=clock,
            rng=rng,
            instance_name=instance_name,
            poll_interval_s=poll_interval_s,
        )
        super().__init__(group, instance)
        self._offsets = QueueOffsets(self._instance)
        self._broker_ids: dict[MessageQueue, int] = {}  # suggested by brokers: a slave for messages far behind the end
        self._subscribed: dict[str, SubscriptionOptions] = {}
        self._reached: dict[MessageQueue, int] = {}  # by loops over this consumer
        self._subscriptions: dict[tuple[str, SubscriptionOptions], Subscription] = {}  # least recently used first

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Ask a name server for the readable queues of ``topic`` and return them sorted.

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
        suspend_ms: int = 0,
        **options: Unpack[SubscribeOptions],
    ) -> PullResult:
        """Pull messages of ``queue`` from ``offset`` on; the broker waits for the first one up to ``suspend_ms``.

        Brokers cap ``count_max`` and ``bytes_max``. Continue at the result's ``next_offset``, even without a match.
        OFFSET_ILLEGAL means that ``offset`` is no longer, or not yet, stored. Select messages as in
        :meth:`PushConsumer.subscribe`: ``sql`` instead of a tag ``expression``, or a ``filter`` with its expression,
        which runs in this client or, with ``via="filter-server"``, in a filter server of the queue's broker. With
        ``on_error="stop"`` the result ends before a message that the filter fails on, and the pull from there fails.

        Raises UsageError (a wrong expression), NotFoundError, RefusedError, UnreachableError (also when no filter
        server answers), FilterStopError.
        """
        wanted = SubscriptionOptions(expression, **options)
        return await self.pull_as(
            queue, offset, wanted, count_max=count_max, bytes_max=bytes_max, suspend_ms=suspend_ms
        )

    async def pull_as(
        self,
        queue: MessageQueue,
        offset: int,
        options: SubscriptionOptions,
        *,
        count_max: int = PULL_COUNT_MAX,
        bytes_max: int | None = None,
        suspend_ms: int = 0,
    ) -> PullResult:
        """As :meth:`pull`, with the selection as one object."""
        subscription = self._subscription(queue.topic, options)
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
        filter_result(result, subscription)
        return result

    def _subscription(self, topic: str, options: SubscriptionOptions) -> Subscription:
        """Return a subscription from the cache: compiling filters is slow, and some keep state between pulls."""
        key = topic, options
        found = self._subscriptions.pop(key, None)
        if found is None:
            found = options.subscription(topic, 0, self._instance.clock)
            if len(self._subscriptions) >= SUBSCRIPTION_COUNT_MAX:
                del self._subscriptions[next(iter(self._subscriptions))]
        self._subscriptions[key] = found
        return found

    def subscribe(self, topic: str, expression: str = EVERYTHING, **options: Unpack[SubscribeOptions]) -> None:
        """Name a topic, with the messages wanted of it, for loops over this consumer. Raises UsageError."""
        wanted = SubscriptionOptions(expression, **options)
        self._subscription(check_topic(topic), wanted)
        self._subscribed[topic] = wanted

    def __aiter__(self) -> AsyncIterator[StoredMessage]:
        return self.messages()

    def messages(self, consume_from: str | int = FIRST) -> AsyncGenerator[StoredMessage, None]:
        """Yield messages of all queues of the subscribed topics, without end; ``async for`` over the consumer too.

        The loop begins at the offsets that the group committed, else at ``consume_from``: first, last, or Unix ms. It
        commits a message's offset once the loop asks for the next one: every 5 seconds, and when the loop ends. The
        message of a loop that ends early, by ``break`` or an exception, comes again in the next one, unless
        :meth:`ack` was called. Only one process may run such a loop for a group: members don't share the queues out.

        Raises UsageError without a subscription.
        """
        if not self._subscribed:
            raise UsageError("nothing is subscribed: call subscribe(topic) before the loop")
        return PulledLoop(self, self._subscribed, self._instance.clock, consume_from, self._reached).messages()

    async def ack(self, message: StoredMessage) -> None:
        """Have the loop commit the offset behind ``message``, and so all messages in front of it in its queue."""
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        self._reached[queue] = message.queue_offset + 1

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that is still stored."""
        return await self._offsets.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return await self._offsets.max_offset(queue)

    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the first offset stored at ``timestamp_ms`` (Unix ms) or later."""
        return await self._offsets.by_time(queue, timestamp_ms)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that this group committed in ``queue``, None when there is none."""
        return await self._offsets.committed(self.group, queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit ``offset``: this group continues there."""
        await self._offsets.commit(self.group, queue, offset)
