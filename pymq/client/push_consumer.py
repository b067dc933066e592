"""Delivers messages to a handler as a member of a group, which shares queues, stores offsets and retries failures."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Unpack

from pymq.client.concurrent import ConcurrentConsumption
from pymq.client.consume_result import ConsumeResult
from pymq.client.consumer_settings import ConsumerSettings, ConsumerState
from pymq.client.group_client import GroupClient
from pymq.client.group_requests import GroupRequests
from pymq.client.handler import MessageHandler, OnMessage
from pymq.client.handover import Handover
from pymq.client.heartbeat import consumer_data, subscription_data
from pymq.client.instance import ROUTE_POLL_INTERVAL_S, ClientInstance, ClusterAccess, Membership
from pymq.client.offset_moves import OffsetMoves
from pymq.client.offset_store import BrokerOffsets, FileOffsets, OffsetStore, java_path
from pymq.client.options import SettingOptions, SubscribeOptions
from pymq.client.orderly import OrderlyConsumption
from pymq.client.queue_locks import RENEW_INTERVAL_S, QueueLocks
from pymq.client.queue_offsets import QueueOffsets
from pymq.client.queue_reader import Consumption
from pymq.client.rebalancer import Rebalancer
from pymq.client.subscription import EVERYTHING, TAG, explained
from pymq.client.subscription_check import CHECK_INTERVAL_S, SubscriptionCheck
from pymq.client.subscription_options import SubscriptionOptions
from pymq.client.tls import Tls
from pymq.client.tracing import Tracer
from pymq.clock import Clock
from pymq.errors import NotFoundError, PymqError, RefusedError, UsageError
from pymq.model.message import MessageQueue
from pymq.model.names import check_topic, retry_topic
from pymq.model.record import StoredMessage
from pymq.security.credentials import Credentials
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_consumer import ClientCheck, to_fields
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, request
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)


class PushConsumer(GroupClient):
    """A member of ``group``. Subscribe, then use ``async with``, or :meth:`start` and :meth:`stop`.

    ``on_message(list[StoredMessage])`` returns a ConsumeResult or None (done). It is a plain function, which runs in a
    thread, or a coroutine function; an exception counts as RECONSUME_LATER. Without it, read the messages with
    ``async for message in consumer``. Further keywords are those of
    :class:`~pymq.client.consumer_settings.ConsumerSettings`: orderly, broadcasting, consume_from, batch_count_max,
    concurrency_max, max_reconsume_times and others.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        on_message: OnMessage | None = None,
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
        instance_name: str | None = None,
        tls: Tls | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        credentials: Credentials | None = None,
        **settings: Unpack[SettingOptions],
    ) -> None:
        self._handover = None if on_message is not None else Handover()
        if on_message is None:
            settings.setdefault("concurrency_max", 1)  # a loop has one message at a time
        self.settings = _checked_settings(settings, is_iterated=on_message is None)
        instance = ClientInstance(
            ClusterAccess(namesrv, credentials, tls),
            Membership(
                describe_consumer=lambda: consumer_data(self._state),
                on_request=self._on_request,
                on_route_change=self._on_route_change,
            ),
            clock=clock,
            rng=rng,
            instance_name=instance_name,
            poll_interval_s=poll_interval_s,
        )
        super().__init__(group, instance)
        queue_offsets = QueueOffsets(self._instance)
        offsets: OffsetStore = BrokerOffsets(group, queue_offsets)
        if self.settings.broadcasting:
            place = java_path(self.client_id, group) if instance_name else None
            offsets = FileOffsets(Path(self.settings.offsets_path) if self.settings.offsets_path else place)
        moves = OffsetMoves(group, self._instance)
        self._state = ConsumerState(group, self._instance, self.settings, queue_offsets, offsets, self._fail, moves)
        self._failure: PymqError | None = None
        self._failing: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._tracer = Tracer(self._instance, group, "CONSUME") if self.settings.trace else None
        self._handler = MessageHandler(
            on_message or self._loops().handle,
            self._state.counters,
            self._instance.clock,
            self.settings.concurrency_max,
            self._tracer,
            self._in_spans if self.settings.telemetry is not None else None,
        )
        self._locks = QueueLocks(self._state)
        self._consumption = self._make_consumption()
        self._rebalancer = Rebalancer(self._state, self._consumption, self._locks)
        self._requests = GroupRequests(self._state, self._handler, self._rebalancer)

    def _in_spans(self, on_message: OnMessage, is_coroutine: bool) -> OnMessage:
        assert self.settings.telemetry is not None
        return self.settings.telemetry.handler(on_message, self.group, self.client_id, is_coroutine=is_coroutine)

    def _make_consumption(self) -> Consumption:
        if self.settings.orderly:
            return OrderlyConsumption(self._state, self._handler, self._locks)
        return ConcurrentConsumption(self._state, self._handler)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this member reads now, sorted; one with the id -1 stands for all queues of a broker, popped."""
        return sorted([*self._state.queues, *self._rebalancer.popped])

    @property
    def failure(self) -> PymqError | None:
        """The error that stopped the consumer: a filter with ``on_error="stop"`` failed on a message. Else None."""
        return self._failure

    def __aiter__(self) -> AsyncIterator[StoredMessage]:
        return self.messages()

    def messages(self, taker: object = None) -> AsyncGenerator[StoredMessage, None]:
        """Yield messages until the consumer stops: ``async for message in consumer`` does the same.

        A message is acknowledged when the loop asks for the next one, or with :meth:`ack`. A loop that ends early, by
        ``break`` or an exception, gives its message back, as :meth:`give_back` does. ``taker``: what runs the loop, by
        default the current task. Raises UsageError if the consumer has a handler, or is not started.
        """
        handover = self._loops()
        if not self._instance.running:
            raise UsageError("the consumer is not started: write async with consumer, or await consumer.start(), first")
        return handover.messages(taker)

    async def ack(self, message: StoredMessage) -> None:
        """Acknowledge a message of a loop before the loop goes on. Twice, or too late, is no error."""
        self._loops().settle(message, ConsumeResult.SUCCESS)

    async def give_back(self, message: StoredMessage) -> None:
        """Let a message of a loop come again later, as RECONSUME_LATER does for handlers."""
        self._loops().settle(message, ConsumeResult.RECONSUME_LATER)

    def leave_message(self, taker: object) -> None:
        """Leave the message of a loop unacknowledged, before ``taker`` stops the consumer within that loop."""
        if self._handover is not None:
            self._handover.leave(taker)

    def _loops(self) -> Handover:
        if self._handover is None:
            raise UsageError("the consumer has a handler: leave on_message out to read its messages in a loop")
        return self._handover

    def subscribe(self, topic: str, expression: str = EVERYTHING, **options: Unpack[SubscribeOptions]) -> None:
        """Subscribe to ``topic``: all messages (``*``), tags (``TagA || TagB``), or ``sql="a > 5 AND b = 'x'"``.

        ``expression_type`` names another language that the broker knows. ``filter`` names an installed filter that this
        client runs (``filter="jsonpath", expression="$.total"``); ``on_error`` is skip, deliver or stop, for messages
        that the filter fails on. With ``via="filter-server"`` the filter runs in a filter server of the broker instead.
        All members of a group must have the same subscriptions. Raises UsageError for an illegal topic, filter or
        expression, ClosedError after a stop.
        """
        self._instance.remoting.check_open()
        clock = self._instance.clock
        wanted = SubscriptionOptions(expression, **options)
        if wanted.filter is not None and not self.settings.client_rebalance:
            raise UsageError(f"filter={wanted.filter!r} excludes client_rebalance=False: use tags or sql")
        self._state.subscriptions[topic] = wanted.subscription(check_topic(topic), clock.now_ms(), clock)
        if self._instance.running:
            self._rebalancer.wake()

    async def start(self) -> None:
        """Join the group and begin to consume. A topic that doesn't exist yet is consumed once it does.

        Raises ClosedError for a consumer that was stopped, UsageError without a subscription, UnreachableError when no
        name server answers, RefusedError when a broker refuses a filter that is not a tag expression.
        """
        if self._instance.running:
            return
        if not self._state.subscriptions:
            raise UsageError("nothing is subscribed: call subscribe(topic) before start()")
        self._instance.start()
        if not self.settings.broadcasting:
            self.subscribe(retry_topic(self.group))
        try:
            await self._look_up_routes()
            await self._check_filters()
            await self._instance.heartbeat_all()
            self._consumption.start()
            await self._rebalancer.rebalance()
        except BaseException:
            await self.stop()
            raise
        self._start_jobs()

    async def stop(self) -> None:
        """Leave the group: end all pulls, wait for running handlers, store offsets and unlock queues."""
        if self._instance.inherited:
            return  # a member of the group is the parent process, which goes on
        if self._failing is not None and self._failing is not asyncio.current_task():
            await asyncio.shield(self._failing)  # a failure is stopping the consumer already
            return
        try:
            await self._leave()
        finally:
            self._stopped.set()

    async def wait(self) -> None:
        """Return once the consumer has stopped. Raises the error that stopped it (see :attr:`failure`)."""
        await self._stopped.wait()
        if self._failure is not None:
            raise self._failure

    async def _leave(self) -> None:
        if not self._instance.running:
            await self._instance.close()
            return
        await self._rebalancer.stop()
        if self._handover is not None:
            self._handover.leave(asyncio.current_task())
            await self._handover.end(self._failure)
        await self._consumption.stop(self.settings.stop_timeout_s)
        await self._rebalancer.give_back_popped()
        queues = list(self._state.queues)
        await self._state.offsets.store(queues)
        if self.settings.uses_locks:
            await self._locks.unlock(queues)
        for process_queue in self._state.queues.values():
            process_queue.drop()
        self._state.queues.clear()
        if self._tracer is not None:
            await self._tracer.stop()
        await self._instance.close()
        self._handler.close()

    async def commit(self) -> None:
        """Store the offsets reached so far now instead of at the next interval."""
        self._instance.remoting.check_open()
        await self._store_offsets()

    def running_info(self) -> dict[str, object]:
        """Return the state that operators see of this member (mqadmin consumerStatus)."""
        return to_fields(self._requests.running_info())

    async def _look_up_routes(self) -> None:
        for topic in self._state.subscriptions:
            try:
                await self._instance.routes.route(topic)
            except NotFoundError:
                pass  # the rebalancer looks it up again

    async def _check_filters(self) -> None:
        """Ask a broker of each topic to check the expression, so that a wrong one fails now and not at every pull."""
        for topic, subscription in self._state.subscriptions.items():
            route = self._instance.routes.cached(topic)
            if subscription.expression_type == TAG or route is None:
                continue
            check = ClientCheck(
                client_id=self.client_id, group=self.group, subscription_data=subscription_data(subscription)
            )
            command = request(RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(check))
            address = route.broker_datas[0].read_address() if route.broker_datas else None
            if address is not None:
                try:
                    await self._instance.remoting.invoke_ok(address, command)
                except RefusedError as error:
                    raise explained(error, subscription) from None

    def _fail(self, error: PymqError) -> None:
        """Stop the consumer in a separate task, because stopping ends the caller's task."""
        if self._failing is None:
            log.error("consumer of group %s stops: %s", self.group, error)
            self._failure = error
            self._failing = asyncio.get_running_loop().create_task(self.stop())

    def _start_jobs(self) -> None:
        if self._tracer is not None:
            self._tracer.start()
        self._instance.spawn(self._rebalancer.run())
        self._instance.every(self.settings.commit_interval_s, self._store_offsets, "store offsets")
        self._instance.every(CHECK_INTERVAL_S, SubscriptionCheck(self._state).run, "compare subscriptions")
        if self.settings.uses_locks:
            self._instance.every(RENEW_INTERVAL_S, self._locks.renew, "renew queue locks")

    async def _store_offsets(self) -> None:
        await self._state.offsets.store(list(self._state.queues))

    def _on_request(self, command: Command, address: str) -> Reply | Awaitable[Reply | None] | None:
        return self._requests.handle(command, address)

    def _on_route_change(self, topic: str) -> None:
        if topic in self._state.subscriptions:
            self._rebalancer.wake()


def _checked_settings(settings: SettingOptions, *, is_iterated: bool) -> ConsumerSettings:
    known = [setting.name for setting in fields(ConsumerSettings)]
    if unknown := sorted(settings.keys() - set(known)):
        from difflib import get_close_matches  # noqa: PLC0415 - only this error needs it

        near = get_close_matches(unknown[0], known, 1)
        raise UsageError(
            f"a push consumer has no setting {unknown[0]!r}" + (f" (do you mean {near[0]!r}?)" if near else "")
        )
    result = ConsumerSettings(**settings)
    result.check()
    if is_iterated and result.batch_count_max != 1:
        raise UsageError(
            f"batch_count_max is {result.batch_count_max}: a loop gets one message at a time, so leave it at 1"
        )
    return result
