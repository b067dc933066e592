"""LiteConsumer: receives from the lite topics that it subscribes to one by one, and acknowledges each message.

A parent topic has any number of lite topics. A consumer gets the lite topics that it names, each in order: the next
message of a lite topic comes once the messages before it are acknowledged or given back.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from pymq.client.broker_turns import BrokerTurns
from pymq.client.consumer_settings import FIRST, LAST
from pymq.client.group_client import GroupClient
from pymq.client.instance import ROUTE_POLL_INTERVAL_S, ClientInstance, ClusterAccess, Membership
from pymq.client.lite_popping import pop_lites
from pymq.client.lite_subscriptions import RENEW_INTERVAL_S, ClientSubscriptions, OnLost
from pymq.client.popping import POP_COUNT_MAX, Popping
from pymq.client.received import Received
from pymq.client.received_loop import received_loop
from pymq.client.simple_consumer import INVISIBLE_MS, WAIT_MS
from pymq.client.tls import Tls
from pymq.clock import Clock
from pymq.errors import UnreachableError, UsageError
from pymq.model.lite_topics import lite_name_problem
from pymq.model.message import MessageQueue
from pymq.model.names import check_topic
from pymq.security.credentials import Credentials
from pymq.wire.bodies_lites import FROM_MAX, FROM_MIN, OFFSET, POLICY, TAIL_N, LiteOffsetOption
from pymq.wire.command import Command
from pymq.wire.reply import Reply

OFFSET_MAX = (1 << 63) - 1


class LiteConsumer(GroupClient):
    """Receives lite topics of ``topic`` for ``group``. Use it with ``async with``, or :meth:`start` and :meth:`stop`.

    The group has ``topic`` as its attribute ``lite.bind.topic``. ``namesrv``: as
    :class:`~pymq.client.producer.Producer` takes them.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        on_lost: OnLost | None = None,
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
        instance_name: str | None = None,
        tls: Tls | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """``on_lost(lite_topic)``: another client of an exclusive group has subscribed to it, so this one lost it."""
        self._topic = check_topic(topic)
        membership = Membership(on_request=self._serve, on_connection_lost=self._lost_connection)
        instance = ClientInstance(
            ClusterAccess(namesrv, credentials, tls),
            membership,
            clock=clock,
            rng=rng,
            instance_name=instance_name,
            poll_interval_s=poll_interval_s,
        )
        super().__init__(group, instance)
        self._subscriptions = ClientSubscriptions(instance, group, topic, on_lost)
        self._popping = Popping(group, instance, from_end=False)
        self._turns = BrokerTurns(instance.clock)

    async def start(self) -> None:
        """Start background jobs, such as the renewal of subscriptions. Raises ClosedError after a stop."""
        if not self._instance.running:
            await super().start()
            self._instance.every(RENEW_INTERVAL_S, self._subscriptions.renew, "renew subscriptions to lite topics")

    async def stop(self) -> None:
        """Unsubscribe, and close all connections. Messages that are not acknowledged come again."""
        if self._instance.running:
            await self._subscriptions.leave()
        await super().stop()

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics that this client subscribes to now."""
        return frozenset(self._subscriptions.names)

    async def subscribe(
        self, *lite_topics: str, consume_from: str | None = None, offset: int | None = None, tail: int | None = None
    ) -> None:
        """Subscribe to lite topics, which need not exist yet.

        The group goes on where it is. At most one argument moves it: ``consume_from`` "first" or "last", an ``offset``
        in each of the lite topics, or ``tail`` messages before where it is. Raises UsageError, NotFoundError,
        RefusedError (a limit is reached, or the group takes all lite topics), UnreachableError.
        """
        option = _option(consume_from, offset, tail)
        await self._subscriptions.add(_checked(lite_topics), option)

    async def subscribe_all(self) -> None:
        """Receive from all lite topics, in a group with ``lite.sub.wildcard=true``. Raises as :meth:`unsubscribe`."""
        await self._subscriptions.add_all()

    async def unsubscribe(self, *lite_topics: str) -> None:
        """End subscriptions. Raises UsageError, NotFoundError, RefusedError, UnreachableError."""
        await self._subscriptions.remove(_checked(lite_topics))

    async def receive(
        self,
        count_max: int = 16,
        *,
        invisible_ms: int = INVISIBLE_MS,
        wait_ms: int = WAIT_MS,
        broker_name: str | None = None,
    ) -> list[Received]:
        """Receive up to ``count_max`` messages (32 at most), waiting for the first one up to ``wait_ms``.

        The rest of their lite topics waits until they are acknowledged, given back, or ``invisible_ms`` are over.
        Brokers are asked as :meth:`pymq.client.simple_consumer.SimpleConsumer.receive` asks them. Raises UsageError,
        NotFoundError, RefusedError, UnreachableError (when no broker of the topic answers).
        """
        if not 1 <= count_max <= POP_COUNT_MAX:
            raise UsageError(f"count_max={count_max}: use 1 to {POP_COUNT_MAX}")
        brokers = await self.brokers() if broker_name is None else [broker_name]

        async def ask(broker: str, ask_ms: int) -> list[Received]:
            await self._subscriptions.ensure(broker)
            queue = MessageQueue(self._topic, broker, 0)
            return await pop_lites(self._instance, self.group, queue, count_max, invisible_ms, ask_ms)

        try:
            return await self._turns.take(brokers, wait_ms, ask)
        except UnreachableError:
            self._instance.renew_route(self._topic)
            raise

    def __aiter__(self) -> AsyncIterator[Received]:
        return self.messages()

    def messages(self, count_max: int = 16, *, invisible_ms: int = INVISIBLE_MS) -> AsyncGenerator[Received, None]:
        """Yield messages without end, and acknowledge each as SimpleConsumer.messages does."""

        async def receive() -> list[Received]:
            return await self.receive(count_max, invisible_ms=invisible_ms)

        return received_loop(self, receive, self._instance.clock, invisible_ms)

    async def ack(self, received: Received) -> None:
        """Acknowledge a message: it does not come again. Too late or twice is no error. Raises as :meth:`receive`."""
        await self._popping.ack(received)

    async def extend(self, received: Received, invisible_ms: int) -> None:
        """Keep a message for ``invisible_ms`` from now on, and renew its receipt; 0 gives it back at once.

        Raises RefusedError when the receipt is over, else as :meth:`receive`.
        """
        await self._popping.extend(received, invisible_ms)

    async def give_back(self, received: Received) -> None:
        """Let a message come again at once, before those behind it in its lite topic. Raises as :meth:`extend`."""
        await self._popping.give_back(received)

    async def give_up(self, received: Received) -> None:
        """Move a message to the group's dead letters (``%DLQ%group``) at once. Raises as :meth:`receive`."""
        await self._popping.give_up(received)

    async def brokers(self) -> list[str]:
        """Return the names of the brokers that have readable queues of the parent topic. Raises as :meth:`receive`."""
        return await self._instance.routes.brokers_to_read(self._topic)

    def _serve(self, command: Command, address: str) -> Reply | None:
        return self._subscriptions.handle(command, address)

    def _lost_connection(self, address: str) -> None:
        self._subscriptions.lost_connection(address)


def _checked(lite_topics: Sequence[str]) -> list[str]:
    """Return the names, each once. Raises UsageError for none, and for an illegal one."""
    if not lite_topics:
        raise UsageError("no lite topic is named: give at least one")
    for name in lite_topics:
        problem = lite_name_problem(name) if isinstance(name, str) else f"a lite topic's name is {name!r}: give text"
        if problem is not None:
            raise UsageError(problem)
    return list(dict.fromkeys(lite_topics))


def _option(consume_from: str | None, offset: int | None, tail: int | None) -> LiteOffsetOption | None:
    """Return where the group shall begin, None for where it is. Raises UsageError."""
    if sum(each is not None for each in (consume_from, offset, tail)) > 1:
        raise UsageError("consume_from, offset and tail exclude each other: give one of them")
    if consume_from is not None:
        if consume_from not in (FIRST, LAST):
            raise UsageError(f"consume_from is {consume_from!r}: use {FIRST!r} or {LAST!r}")
        return LiteOffsetOption(type=POLICY, value=FROM_MIN if consume_from == FIRST else FROM_MAX)
    for name, value in (("offset", offset), ("tail", tail)):
        if value is not None and not 0 <= value <= OFFSET_MAX:
            raise UsageError(f"{name} is {value}: use 0 to {OFFSET_MAX}")
    if offset is not None:
        return LiteOffsetOption(type=OFFSET, value=offset)
    return LiteOffsetOption(type=TAIL_N, value=tail) if tail is not None else None
