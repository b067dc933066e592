"""SimpleConsumer: receives messages one batch at a time, and acknowledges or extends each. The broker keeps the rest.

No queue belongs to a member, and none joins a group: any number of processes may receive for a group at once.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from pymq.client.broker_turns import BrokerTurns
from pymq.client.group_client import GroupClient
from pymq.client.instance import ROUTE_POLL_INTERVAL_S, ClientInstance, ClusterAccess
from pymq.client.popping import ANY_QUEUE, POP_COUNT_MAX, Popping
from pymq.client.received import Received
from pymq.client.received_loop import received_loop
from pymq.client.subscription import EVERYTHING
from pymq.client.subscription_options import SubscriptionOptions
from pymq.client.tls import Tls
from pymq.client.tracing import Tracer
from pymq.clock import Clock
from pymq.errors import UnreachableError, UsageError
from pymq.model.message import MessageQueue
from pymq.model.names import check_topic
from pymq.security.credentials import Credentials

INVISIBLE_MS = 60_000
WAIT_MS = 15_000
# In a loop over several topics, one after the other is asked so long.
SEVERAL_WAIT_MS = 500


class SimpleConsumer(GroupClient):
    """Receives for ``group``. Use it with ``async with``, or :meth:`start` and :meth:`stop`.

    What is neither acknowledged nor extended within its invisible time comes again, here or elsewhere. ``namesrv``: as
    :class:`~pymq.client.producer.Producer` takes them.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        from_end: bool = False,
        trace: bool = False,
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
        instance_name: str | None = None,
        tls: Tls | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """``from_end``: where a group begins that never received from a queue. ``trace``: write traces of what is
        received, acknowledged and given back, for ``pymq message trace``.
        """
        instance = ClientInstance(
            ClusterAccess(namesrv, credentials, tls),
            clock=clock,
            rng=rng,
            instance_name=instance_name,
            poll_interval_s=poll_interval_s,
        )
        super().__init__(group, instance)
        self._popping = Popping(group, instance, from_end=from_end)
        self._tracer = Tracer(instance, group, "CONSUME") if trace else None
        self._subscribed: dict[str, tuple[str, str | None]] = {}  # topic -> (expression, SQL)
        self._turns = BrokerTurns(instance.clock)

    async def start(self) -> None:
        """Start background jobs, such as the refresh of routes. Raises ClosedError after a stop."""
        if not self._instance.running:
            await super().start()
            if self._tracer is not None:
                self._tracer.start()

    async def stop(self) -> None:
        """Close all connections. Messages without an acknowledgement come again after their invisible time."""
        if self._tracer is not None and self._instance.running:
            await self._tracer.stop()
        await super().stop()

    async def receive(
        self,
        topic: str,
        count_max: int = 16,
        *,
        invisible_ms: int = INVISIBLE_MS,
        wait_ms: int = WAIT_MS,
        expression: str = EVERYTHING,
        sql: str | None = None,
        broker_name: str | None = None,
    ) -> list[Received]:
        """Receive up to ``count_max`` messages (32 at most), waiting for the first one up to ``wait_ms``.

        They stay away from other members for ``invisible_ms``. Returns an empty list when none came. With several
        brokers it waits for a second at each in turn; with ``broker_name`` at this one alone, so that calls at the same
        time wait at all of them. Raises UsageError, NotFoundError, RefusedError, UnreachableError (when no broker of
        the topic answers).
        """
        if not 1 <= count_max <= POP_COUNT_MAX:
            raise UsageError(f"count_max={count_max}: use 1 to {POP_COUNT_MAX}")
        subscription = SubscriptionOptions(expression, sql).subscription(check_topic(topic), 0, self._instance.clock)
        brokers = await self.brokers(topic) if broker_name is None else [broker_name]

        async def ask(broker: str, ask_ms: int) -> list[Received]:
            queue = MessageQueue(topic, broker, ANY_QUEUE)
            return await self._popping.pop(queue, count_max, invisible_ms, ask_ms, subscription)

        try:
            found = await self._turns.take(brokers, wait_ms, ask)
        except UnreachableError:
            self._instance.renew_route(topic)
            raise
        self._trace_delivery(found)
        return found

    def subscribe(self, topic: str, expression: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Name a topic, with the messages wanted of it, for loops over this consumer. Raises UsageError."""
        SubscriptionOptions(expression, sql).subscription(check_topic(topic), 0, self._instance.clock)
        self._subscribed[topic] = (expression, sql)

    def __aiter__(self) -> AsyncIterator[Received]:
        return self.messages()

    def messages(self, count_max: int = 16, *, invisible_ms: int = INVISIBLE_MS) -> AsyncGenerator[Received, None]:
        """Yield messages of the subscribed topics without end: ``async for received in consumer`` does the same.

        A message is acknowledged when the loop asks for the next one, unless it was acknowledged or given back in the
        loop. A loop that ends early, by ``break`` or an exception, gives its message back, and so those that it has
        received ahead: ``count_max`` at most. A loop's body has at least half of ``invisible_ms`` for each message;
        :meth:`extend` gives it more. Raises UsageError without a subscription.
        """
        if not self._subscribed:
            raise UsageError("nothing is subscribed: call subscribe(topic) before the loop")
        turns = itertools.count()

        async def receive() -> list[Received]:
            topics = list(self._subscribed)
            topic = topics[next(turns) % len(topics)]
            expression, sql = self._subscribed[topic]
            wait_ms = WAIT_MS if len(topics) == 1 else SEVERAL_WAIT_MS
            return await self.receive(
                topic, count_max, invisible_ms=invisible_ms, wait_ms=wait_ms, expression=expression, sql=sql
            )

        return received_loop(self, receive, self._instance.clock, invisible_ms)

    async def ack(self, received: Received) -> None:
        """Acknowledge a message: it does not come again. Too late or twice is no error. Raises as :meth:`receive`."""
        is_first = not received.done
        await self._popping.ack(received)
        if is_first:
            self._trace_result(received, failed=False)

    async def extend(self, received: Received, invisible_ms: int) -> None:
        """Keep a message away for ``invisible_ms`` from now on, and renew its receipt; 0 gives it back at once.

        Raises RefusedError when the receipt is over, else as :meth:`receive`.
        """
        await self._popping.extend(received, invisible_ms)

    async def give_back(self, received: Received) -> None:
        """Let a message come again at once, here or elsewhere. Raises as :meth:`extend`."""
        is_first = not received.done
        await self._popping.give_back(received)
        if is_first:
            self._trace_result(received, failed=True)

    async def give_up(self, received: Received) -> None:
        """Move a message to the group's dead letters (``%DLQ%group``) at once. Raises as :meth:`receive`.

        If it fails between the two, the message is a dead letter and comes again.
        """
        is_first = not received.done
        await self._popping.give_up(received)
        if is_first:
            self._trace_result(received, failed=True)

    def _trace_delivery(self, found: list[Received]) -> None:
        if self._tracer is not None and found:
            delivery = self._tracer.delivered([received.message for received in found])
            now_ms = self._instance.clock.monotonic_ms()
            for received in found:
                received.delivery, received.received_ms = delivery, now_ms

    def _trace_result(self, received: Received, *, failed: bool) -> None:
        if self._tracer is not None:
            spent_ms = self._instance.clock.monotonic_ms() - received.received_ms
            self._tracer.consumed(received.delivery, [received.message], spent_ms, failed=failed, raised=False)

    async def brokers(self, topic: str) -> list[str]:
        """Return the names of the brokers that have readable queues of a topic. Raises as :meth:`receive`."""
        return await self._instance.routes.brokers_to_read(topic)
