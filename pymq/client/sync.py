"""Blocking versions of the clients, safe to call from any thread. They share one event loop in a background thread.

A process that forks keeps its clients. In the child, a producer, pull consumer or admin client that the parent used
connects again by itself; a push consumer raises ClosedError.

Message handlers that are plain functions run in the consumer's threads, selectors in the loop's thread.

The classes have the names of the asyncio clients: ``from pymq.client.sync import Producer``.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Never, Protocol, Self, TypeVar, Unpack

from pymq.client.consumer_settings import FIRST
from pymq.client.handler import OnMessage
from pymq.client.lite_consumer import LiteConsumer as AsyncLiteConsumer
from pymq.client.lite_subscriptions import OnLost
from pymq.client.loop_thread import LoopThread, blocking_loop, on_loop, shared
from pymq.client.options import (
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    PullOptions,
    Selector,
    SendOptions,
    SubscribeOptions,
)
from pymq.client.producer import SEND_TIMEOUT_S
from pymq.client.producer import Producer as AsyncProducer
from pymq.client.pull_consumer import PULL_COUNT_MAX
from pymq.client.pull_consumer import PullConsumer as AsyncPullConsumer
from pymq.client.push_consumer import PushConsumer as AsyncPushConsumer
from pymq.client.received import Received
from pymq.client.requests import REQUEST_TIMEOUT_S
from pymq.client.simple_consumer import INVISIBLE_MS, WAIT_MS
from pymq.client.simple_consumer import SimpleConsumer as AsyncSimpleConsumer
from pymq.client.subscription import EVERYTHING
from pymq.client.sync_admin import Admin
from pymq.client.transactions import (
    TransactionListener,
    TransactionResult,
)
from pymq.client.transactions import (
    TransactionProducer as AsyncTransactionProducer,
)
from pymq.errors import ClosedError, UsageError
from pymq.model.message import Message, MessageQueue, PullResult, SendResult
from pymq.model.record import StoredMessage

__all__ = [
    "Admin",
    "LiteConsumer",
    "LoopThread",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SimpleConsumer",
    "TransactionProducer",
]


class _Client(Protocol):
    @property
    def inherited(self) -> bool: ...
    @property
    def client_id(self) -> str: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


ClientT = TypeVar("ClientT", bound=_Client)
ProducerT = TypeVar("ProducerT", bound=AsyncProducer)
ReceiverT = TypeVar("ReceiverT", AsyncSimpleConsumer, AsyncLiteConsumer)


class _Blocking(Generic[ClientT]):
    """The base of the blocking clients: creates the asynchronous client on the shared loop, and supports ``with``.

    In a forked child the first call makes a new client, with connections and a name of its own, unless the subclass
    sets ``_reopens`` to False.
    """

    _reopens = True

    def __init__(self, make: Callable[[], ClientT]) -> None:
        self._make = make
        self._started = False
        self._made = shared.call(on_loop(make))

    @property
    def _client(self) -> ClientT:
        if self._made.inherited:
            if not self._reopens:
                name = type(self).__name__
                raise ClosedError(
                    f"this {name} goes on in the process that started it and then forked this process {os.getpid()}: "
                    f"make a new {name} in this process"
                )
            shared.call(self._reopen())
        return self._made

    async def _reopen(self) -> None:
        # On the loop: of several threads the first one makes the client.
        if self._made.inherited:
            self._made = self._make()
            if self._started:
                await self._made.start()

    def __reduce__(self) -> Never:
        name = type(self).__name__
        raise UsageError(f"a {name} can't be sent to another process: make a new {name} there")

    def __enter__(self) -> Self:
        self.start()
        return self

    @property
    def client_id(self) -> str:
        """The id under which brokers list this client."""
        return self._client.client_id

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Call the asynchronous client's ``start``."""
        shared.call(self._client.start())
        self._started = True

    def stop(self) -> None:
        """Call the asynchronous client's ``stop``. In a forked child it leaves the parent's client alone."""
        self._started = False
        shared.call(self._made.stop())


class _Sending(_Blocking[ProducerT]):
    """What both blocking producers do."""

    @property
    def made_topics(self) -> frozenset[str]:
        """Topics that did not exist before this producer's first send to them."""
        return self._client.made_topics

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of ``topic``."""
        return shared.call(self._client.queues(topic))

    def send(self, message: Message, **options: Unpack[SendOptions]) -> SendResult:
        """Send and wait until the broker has stored the message. Raises what Producer.send raises."""
        return shared.call(self._client.send(message, **options))

    def send_async(self, message: Message, **options: Unpack[SendOptions]) -> Future[SendResult]:
        """Begin to send; the future has the result of :meth:`send`, or its error."""
        return shared.submit(self._client.send(message, **options))

    def enqueue(self, message: Message, **options: Unpack[SendOptions]) -> Future[SendResult]:
        """Accept a message, waiting only for room; the future has its result. Raises what Producer.enqueue raises."""
        client = self._client

        async def accept() -> Future[SendResult]:
            future = await client.enqueue(message, **options)
            result: Future[SendResult] = Future()
            future.add_done_callback(lambda done: _copy(done, result))
            return result

        return shared.call(accept())

    def flush(self) -> None:
        """Send what lingers, and return when all messages enqueued so far have their result or their error."""
        shared.call(self._client.flush())

    def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, selector: Selector | None = None
    ) -> None:
        """Send without an answer."""
        shared.call(self._client.send_oneway(message, queue=queue, selector=selector))

    def send_batch(
        self, messages: Sequence[Message], *, timeout_s: float = SEND_TIMEOUT_S, queue: MessageQueue | None = None
    ) -> SendResult:
        """Send messages of one topic in one request."""
        return shared.call(self._client.send_batch(messages, timeout_s=timeout_s, queue=queue))

    def request(
        self,
        message: Message,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> StoredMessage:
        """Send a request and return its reply. Raises what Producer.request raises."""
        return shared.call(self._client.request(message, timeout_s=timeout_s, queue=queue, selector=selector))

    def reply(
        self, request: StoredMessage, reply: Message | bytes | str, *, timeout_s: float = SEND_TIMEOUT_S
    ) -> SendResult:
        """Reply to a request. Raises what Producer.reply raises."""
        return shared.call(self._client.reply(request, reply, timeout_s=timeout_s))

    def recall(self, topic: str, recall_handle: str, *, timeout_s: float = SEND_TIMEOUT_S) -> str:
        """Take back a timer message that is not due yet. Raises what Producer.recall raises."""
        return shared.call(self._client.recall(topic, recall_handle, timeout_s=timeout_s))

    def send_copy(
        self, message: StoredMessage, topic: str, properties: Mapping[str, str], *, timeout_s: float = SEND_TIMEOUT_S
    ) -> SendResult:
        """Send a stored message again. Raises what Producer.send_copy raises."""
        return shared.call(self._client.send_copy(message, topic, properties, timeout_s=timeout_s))


class Producer(_Sending[AsyncProducer]):
    """:class:`~pymq.client.producer.Producer` with blocking methods; takes the same arguments."""

    def __init__(
        self, group: str, *, namesrv: str | Sequence[str] | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        super().__init__(lambda: AsyncProducer(group, namesrv=namesrv, **options))


def _copy(done: asyncio.Future[SendResult], result: Future[SendResult]) -> None:
    if done.cancelled():
        result.cancel()
    elif (error := done.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(done.result())


class TransactionProducer(_Sending[AsyncTransactionProducer]):
    """:class:`~pymq.client.transactions.TransactionProducer` with blocking methods; takes the same arguments.

    The listener's plain functions run in threads of the producer, so they may use blocking clients.
    """

    def __init__(
        self,
        group: str,
        *,
        listener: TransactionListener,
        namesrv: str | Sequence[str] | None = None,
        check_after_s: int | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(
            lambda: AsyncTransactionProducer(
                group, listener=listener, namesrv=namesrv, check_after_s=check_after_s, **options
            )
        )

    def send_in_transaction(
        self, message: Message, arg: Any = None, *, timeout_s: float = SEND_TIMEOUT_S
    ) -> TransactionResult:
        """Send a message in a transaction. Raises what TransactionProducer.send_in_transaction raises."""
        return shared.call(self._client.send_in_transaction(message, arg, timeout_s=timeout_s))


class PushConsumer(_Blocking[AsyncPushConsumer]):
    """:class:`~pymq.client.push_consumer.PushConsumer` with blocking methods; takes the same arguments.

    A consumer that was started before a fork stays with the parent: in the child its calls raise ClosedError.
    """

    _reopens = False  # a second member would start without being asked to

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        on_message: OnMessage | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(lambda: AsyncPushConsumer(group, namesrv=namesrv, on_message=on_message, **options))

    def __iter__(self) -> Iterator[StoredMessage]:
        """Yield messages until the consumer stops, as PushConsumer.messages does."""
        return blocking_loop(self._client.messages(threading.get_ident()))

    def ack(self, message: StoredMessage) -> None:
        """Acknowledge a message of a loop before the loop goes on."""
        shared.call(self._client.ack(message))

    def give_back(self, message: StoredMessage) -> None:
        """Let a message of a loop come again later."""
        shared.call(self._client.give_back(message))

    def stop(self) -> None:
        """Leave the group, as PushConsumer.stop does."""
        taker = threading.get_ident()
        shared.call(on_loop(lambda: self._made.leave_message(taker)))
        super().stop()

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this member reads now, sorted."""
        return shared.call(on_loop(lambda: self._client.assigned))

    def subscribe(self, topic: str, expression: str = EVERYTHING, **options: Unpack[SubscribeOptions]) -> None:
        """Subscribe to ``topic``, as PushConsumer.subscribe does."""
        subscribe = self._client.subscribe
        shared.call(on_loop(lambda: subscribe(topic, expression, **options)))

    def commit(self) -> None:
        """Store the offsets reached so far."""
        shared.call(self._client.commit())

    def wait(self) -> None:
        """Wait until the consumer stops. Raises what made it stop, as PushConsumer.wait does."""
        shared.call(self._client.wait())


class _Settling(_Blocking[ReceiverT]):
    """What both blocking consumers of receipts do with a message."""

    def __iter__(self) -> Iterator[Received]:
        return self.messages()

    def messages(self, count_max: int = 16, *, invisible_ms: int = INVISIBLE_MS) -> Iterator[Received]:
        """Yield messages of what is subscribed without end, as SimpleConsumer.messages does."""
        return blocking_loop(self._client.messages(count_max, invisible_ms=invisible_ms))

    def ack(self, received: Received) -> None:
        """Acknowledge a message: it does not come again."""
        shared.call(self._client.ack(received))

    def extend(self, received: Received, invisible_ms: int) -> None:
        """Keep a message away for ``invisible_ms`` from now on, and renew its receipt."""
        shared.call(self._client.extend(received, invisible_ms))

    def give_back(self, received: Received) -> None:
        """Let a message come again at once, here or elsewhere."""
        shared.call(self._client.give_back(received))

    def give_up(self, received: Received) -> None:
        """Move a message to the group's dead letters at once."""
        shared.call(self._client.give_up(received))


class SimpleConsumer(_Settling[AsyncSimpleConsumer]):
    """:class:`~pymq.client.simple_consumer.SimpleConsumer` with blocking methods; takes the same arguments."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        from_end: bool = False,
        trace: bool = False,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(lambda: AsyncSimpleConsumer(group, namesrv=namesrv, from_end=from_end, trace=trace, **options))

    def receive(
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
        """Receive messages. Raises what SimpleConsumer.receive raises."""
        receiving = self._client.receive(
            topic,
            count_max,
            invisible_ms=invisible_ms,
            wait_ms=wait_ms,
            expression=expression,
            sql=sql,
            broker_name=broker_name,
        )
        return shared.call(receiving)

    def brokers(self, topic: str) -> list[str]:
        """Return the names of the brokers that have readable queues of a topic."""
        return shared.call(self._client.brokers(topic))

    def subscribe(self, topic: str, expression: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Name a topic for loops over this consumer, as SimpleConsumer.subscribe does."""
        subscribe = self._client.subscribe
        shared.call(on_loop(lambda: subscribe(topic, expression, sql=sql)))


class LiteConsumer(_Settling[AsyncLiteConsumer]):
    """:class:`~pymq.client.lite_consumer.LiteConsumer` with blocking methods. ``on_lost`` runs in the loop's thread."""

    def __init__(
        self,
        group: str,
        topic: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        on_lost: OnLost | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(lambda: AsyncLiteConsumer(group, topic, namesrv=namesrv, on_lost=on_lost, **options))

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics that this client subscribes to now."""
        return self._client.lite_topics

    def subscribe(
        self, *lite_topics: str, consume_from: str | None = None, offset: int | None = None, tail: int | None = None
    ) -> None:
        """Subscribe to lite topics, as LiteConsumer.subscribe does."""
        shared.call(self._client.subscribe(*lite_topics, consume_from=consume_from, offset=offset, tail=tail))

    def subscribe_all(self) -> None:
        """Get messages of all lite topics, as LiteConsumer.subscribe_all does."""
        shared.call(self._client.subscribe_all())

    def unsubscribe(self, *lite_topics: str) -> None:
        """End subscriptions."""
        shared.call(self._client.unsubscribe(*lite_topics))

    def receive(
        self,
        count_max: int = 16,
        *,
        invisible_ms: int = INVISIBLE_MS,
        wait_ms: int = WAIT_MS,
        broker_name: str | None = None,
    ) -> list[Received]:
        """Receive messages. Raises what LiteConsumer.receive raises."""
        return shared.call(
            self._client.receive(count_max, invisible_ms=invisible_ms, wait_ms=wait_ms, broker_name=broker_name)
        )

    def brokers(self) -> list[str]:
        """Return the names of the brokers that have readable queues of the parent topic."""
        return shared.call(self._client.brokers())


class PullConsumer(_Blocking[AsyncPullConsumer]):
    """:class:`~pymq.client.pull_consumer.PullConsumer` with blocking methods; takes the same arguments."""

    def __init__(
        self, group: str, *, namesrv: str | Sequence[str] | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        super().__init__(lambda: AsyncPullConsumer(group, namesrv=namesrv, **options))

    def subscribe(self, topic: str, expression: str = EVERYTHING, **options: Unpack[SubscribeOptions]) -> None:
        """Name a topic for loops over this consumer, as PullConsumer.subscribe does."""
        subscribe = self._client.subscribe
        shared.call(on_loop(lambda: subscribe(topic, expression, **options)))

    def __iter__(self) -> Iterator[StoredMessage]:
        return self.messages()

    def messages(self, consume_from: str | int = FIRST) -> Iterator[StoredMessage]:
        """Yield messages of all queues of the subscribed topics, as PullConsumer.messages does."""
        return blocking_loop(self._client.messages(consume_from))

    def ack(self, message: StoredMessage) -> None:
        """Have the loop commit the offset behind ``message``."""
        shared.call(self._client.ack(message))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of ``topic``, sorted."""
        return shared.call(self._client.queues(topic))

    def pull(
        self, queue: MessageQueue, offset: int, count_max: int = PULL_COUNT_MAX, **options: Unpack[PullOptions]
    ) -> PullResult:
        """Pull messages of ``queue`` from ``offset`` on. Raises what PullConsumer.pull raises."""
        return shared.call(self._client.pull(queue, offset, count_max, **options))

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that is still stored."""
        return shared.call(self._client.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return shared.call(self._client.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the first offset stored at ``timestamp_ms`` (Unix ms) or later."""
        return shared.call(self._client.offset_by_time(queue, timestamp_ms))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that this group committed in ``queue``, None when there is none."""
        return shared.call(self._client.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit ``offset``: this group continues there."""
        shared.call(self._client.commit(queue, offset))
