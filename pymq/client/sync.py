"""Blocking versions of the clients, safe to call from any thread. They share one event loop in a background thread.

Message handlers that are plain functions run in the consumer's threads, selectors in the loop's thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from pymq.client.admin import Admin
from pymq.client.handler import OnMessage
from pymq.client.producer import SEND_TIMEOUT_S, Producer, Selector
from pymq.client.pull_consumer import PULL_COUNT_MAX, PullConsumer
from pymq.client.push_consumer import PushConsumer
from pymq.client.subscription import EVERYTHING, TAG
from pymq.model.message import Message, MessageQueue, PullResult, SendResult

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, which starts on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs ``coroutine`` on the loop and waits for its result; cancels it when the wait is interrupted."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs ``coroutine`` on the loop. Any thread except the loop's may wait for the future."""
        loop = self._running_loop()
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a blocking client was called on its own event loop: use pymq.client's classes there")
        return asyncio.run_coroutine_threadsafe(coroutine, loop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(loop,), name="pymq-client", daemon=True)
                self._thread.start()
                self._loop = loop
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()


_shared = LoopThread()


class _Client(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


ClientT = TypeVar("ClientT", bound=_Client)


class _Blocking(Generic[ClientT]):
    """The base of the blocking clients: creates the asynchronous client on the shared loop, and supports ``with``."""

    def __init__(self, make: Callable[[], ClientT]) -> None:
        self._client = _shared.call(_on_loop(make))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Calls the asynchronous client's ``start``."""
        _shared.call(self._client.start())

    def stop(self) -> None:
        """Calls the asynchronous client's ``stop``."""
        _shared.call(self._client.stop())


async def _on_loop(function: Callable[[], T]) -> T:
    return function()


class SyncProducer(_Blocking[Producer]):
    """:class:`~pymq.client.producer.Producer` with blocking methods; takes the same arguments."""

    def __init__(self, group: str, *, namesrv: str | Sequence[str], **options: Any) -> None:
        super().__init__(lambda: Producer(group, namesrv=namesrv, **options))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the writable queues of ``topic``."""
        return _shared.call(self._client.queues(topic))

    def send(
        self,
        message: Message,
        *,
        timeout_s: float = SEND_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> SendResult:
        """Sends and waits until the broker has stored the message. Raises what Producer.send raises."""
        return _shared.call(self._client.send(message, timeout_s=timeout_s, queue=queue, selector=selector))

    def send_async(
        self,
        message: Message,
        *,
        timeout_s: float = SEND_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> Future[SendResult]:
        """Begins to send; the future has the result of :meth:`send`, or its error."""
        return _shared.submit(self._client.send(message, timeout_s=timeout_s, queue=queue, selector=selector))

    def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, selector: Selector | None = None
    ) -> None:
        """Sends without an answer."""
        _shared.call(self._client.send_oneway(message, queue=queue, selector=selector))

    def send_batch(
        self, messages: Sequence[Message], *, timeout_s: float = SEND_TIMEOUT_S, queue: MessageQueue | None = None
    ) -> SendResult:
        """Sends messages of one topic in one request."""
        return _shared.call(self._client.send_batch(messages, timeout_s=timeout_s, queue=queue))


class SyncPushConsumer(_Blocking[PushConsumer]):
    """:class:`~pymq.client.push_consumer.PushConsumer` with blocking methods; takes the same arguments."""

    def __init__(self, group: str, *, namesrv: str | Sequence[str], on_message: OnMessage, **options: Any) -> None:
        super().__init__(lambda: PushConsumer(group, namesrv=namesrv, on_message=on_message, **options))

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this member reads now, sorted."""
        return _shared.call(_on_loop(lambda: self._client.assigned))

    def subscribe(
        self,
        topic: str,
        expression: str = EVERYTHING,
        *,
        sql: str | None = None,
        expression_type: str = TAG,
        filter: str | None = None,
        on_error: str = "skip",
        via: str | None = None,
    ) -> None:
        """Subscribes to ``topic``, as PushConsumer.subscribe does."""
        subscribe = self._client.subscribe
        _shared.call(
            _on_loop(
                lambda: subscribe(
                    topic,
                    expression,
                    sql=sql,
                    expression_type=expression_type,
                    filter=filter,
                    on_error=on_error,
                    via=via,
                )
            )
        )

    def commit(self) -> None:
        """Stores the offsets reached so far."""
        _shared.call(self._client.commit())


class SyncPullConsumer(_Blocking[PullConsumer]):
    """:class:`~pymq.client.pull_consumer.PullConsumer` with blocking methods; takes the same arguments."""

    def __init__(self, group: str, *, namesrv: str | Sequence[str], **options: Any) -> None:
        super().__init__(lambda: PullConsumer(group, namesrv=namesrv, **options))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the readable queues of ``topic``, sorted."""
        return _shared.call(self._client.queues(topic))

    def pull(
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
        """Pulls messages of ``queue`` from ``offset`` on. Raises what PullConsumer.pull raises."""
        pulling = self._client.pull(
            queue,
            offset,
            count_max,
            bytes_max=bytes_max,
            expression=expression,
            sql=sql,
            expression_type=expression_type,
            filter=filter,
            on_error=on_error,
            via=via,
            suspend_ms=suspend_ms,
        )
        return _shared.call(pulling)

    def min_offset(self, queue: MessageQueue) -> int:
        """Returns the first offset that is still stored."""
        return _shared.call(self._client.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset that the next message will get."""
        return _shared.call(self._client.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the first offset stored at ``timestamp_ms`` (Unix ms) or later."""
        return _shared.call(self._client.offset_by_time(queue, timestamp_ms))

    def committed(self, queue: MessageQueue) -> int | None:
        """Returns the offset that this group committed in ``queue``, None when there is none."""
        return _shared.call(self._client.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commits ``offset``: this group continues there."""
        _shared.call(self._client.commit(queue, offset))


class SyncAdmin:
    """:class:`~pymq.client.admin.Admin` with blocking calls: ``admin.topics.create(...)`` and so on."""

    def __init__(self, namesrv: str | Sequence[str] = "127.0.0.1:9876", **options: Any) -> None:
        self._admin: Admin = _shared.call(_on_loop(lambda: Admin(namesrv, **options)))

    def __enter__(self) -> SyncAdmin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections."""
        _shared.call(self._admin.close())

    def __getattr__(self, name: str) -> Any:
        return _BlockingPart(getattr(self._admin, name))


class _BlockingPart:
    """One part of the admin client whose coroutine methods block; other members stay as they are."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._part, name)
        if not inspect.iscoroutinefunction(member):
            return member
        return lambda *arguments, **options: _shared.call(member(*arguments, **options))
