"""OpenTelemetry: spans of sends and of handler calls, and the trace context in the properties of messages.

Names and attributes are those of OpenTelemetry's semantic conventions for messaging and for RocketMQ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from pymq.client.consume_result import ConsumeResult
from pymq.client.handover import UnhandledError
from pymq.errors import UsageError
from pymq.model.message import Message, SendResult
from pymq.model.properties import SHARDING_KEY
from pymq.model.record import StoredMessage
from pymq.packages import pip_install

SCOPE = "pymq.client"
SYSTEM = "rocketmq"


class TracedMessage(Message):
    """A message that carries its span's context."""

    __slots__ = ()


class Telemetry:
    """Makes spans for the clients it is given to: ``Producer(…, telemetry=Telemetry())``, PushConsumer the same.

    ``tracer_provider``: OpenTelemetry's; None: the process's. A send is a PRODUCER span, whose context goes into the
    message's properties (``traceparent`` and others, as the process's propagator writes them). A call of a consumer's
    handler is a CONSUMER span, current while it runs: for one message a child of the send, for several linked to each.
    Needs the extra ``otel``.
    """

    def __init__(self, tracer_provider: Any = None) -> None:
        """Raise UsageError without the library."""
        try:
            from opentelemetry import context, propagate, trace  # noqa: PLC0415 - few processes need it
        except ImportError as error:
            raise UsageError(f"telemetry needs opentelemetry-api: {pip_install('otel')}") from error
        self._context = context
        self._propagate = propagate
        self._trace = trace
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)

    # -- sending -------------------------------------------------------------------------------------------------

    def sending(self, message: Message, client_id: str, kind: str = "", ordering_key: str | None = None) -> Sending:
        """Begin the span of one send. Send its ``message``. ``kind``: RocketMQ's message type, else the message's."""
        attributes = self._attributes("send", message.topic, client_id)
        attributes |= _message_attributes(message.tags, message.keys, len(message.body))
        attributes["messaging.rocketmq.message.type"] = kind or _kind(message, ordering_key)
        key = ordering_key or message.properties.get(SHARDING_KEY)
        if key:
            attributes["messaging.rocketmq.message.group"] = key
        if message.delay_level:
            attributes["messaging.rocketmq.message.delay_time_level"] = message.delay_level
        if message.deliver_at_ms:
            attributes["messaging.rocketmq.message.delivery_timestamp"] = message.deliver_at_ms
        span = self._tracer.start_span(
            f"send {message.topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes
        )
        return Sending(self, span, [self._traced(message, span)])

    def sending_batch(self, messages: Sequence[Message], client_id: str) -> Sending:
        """Begin the span of one request with many messages, each with a span of its own, to which it is linked."""
        traced: list[Message] = []
        links = []
        for message in messages:
            attributes = self._attributes("create", message.topic, client_id)
            attributes |= _message_attributes(message.tags, message.keys, len(message.body))
            created = self._tracer.start_span(
                f"create {message.topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes
            )
            traced.append(self._traced(message, created))
            created.end()
            links.append(self._trace.Link(created.get_span_context()))
        topic = messages[0].topic if messages else ""
        attributes = self._attributes("send", topic, client_id) | {"messaging.batch.message_count": len(messages)}
        span = self._tracer.start_span(
            f"send {topic}", kind=self._trace.SpanKind.CLIENT, attributes=attributes, links=links
        )
        return Sending(self, span, traced)

    def _traced(self, message: Message, span: Any) -> TracedMessage:
        properties = dict(message.properties)
        self._propagate.inject(properties, context=self._trace.set_span_in_context(span))
        return TracedMessage(
            message.topic,
            message.body,
            message.tags,
            message.keys,
            properties,
            message.flag,
            message.delay_level,
            message.wait_store,
            message.deliver_at_ms,
            message.delay_ms,
            message.priority,
            message.lite_topic,
        )

    # -- processing ----------------------------------------------------------------------------------------------

    def handler(
        self, on_message: Callable[[list[StoredMessage]], Any], group: str, client_id: str, *, is_coroutine: bool
    ) -> Callable[[list[StoredMessage]], Any]:
        """Return ``on_message`` in a span. A plain function has its span current in its own thread."""
        if is_coroutine:

            async def handle(messages: list[StoredMessage]) -> Any:
                with self.processing(messages, group, client_id) as span:
                    return self._judged(span, await on_message(messages))

            return handle

        def handle_plainly(messages: list[StoredMessage]) -> Any:
            with self.processing(messages, group, client_id) as span:
                return self._judged(span, on_message(messages))

        return handle_plainly

    @contextmanager
    def processing(self, messages: Sequence[StoredMessage], group: str, client_id: str = "") -> Iterator[Any]:
        """Make the span of what an application does with messages, current in the ``with`` block, and yield it.

        Push consumers do it by themselves. Use it where you pull or receive messages. An exception of the block marks
        the span.
        """
        contexts = [self._propagate.extract(message.properties) for message in messages]
        origins = [self._trace.get_current_span(one).get_span_context() for one in contexts]
        links = [self._trace.Link(one) for one in origins if one.is_valid]
        parent = contexts[0] if len(contexts) == 1 else self._context.get_current()
        topic = messages[0].topic if messages else ""
        attributes = self._attributes("process", topic, client_id) | {"messaging.consumer.group.name": group}
        if len(messages) == 1:
            one = messages[0]
            attributes |= _message_attributes(one.tags, one.keys, len(one.body))
            attributes["messaging.message.id"] = one.message_id
            attributes["messaging.destination.partition.id"] = str(one.queue_id)
        else:
            attributes["messaging.batch.message_count"] = len(messages)
        span = self._tracer.start_span(
            f"process {topic}", parent, self._trace.SpanKind.CONSUMER, attributes=attributes, links=links
        )
        token = self._context.attach(self._trace.set_span_in_context(span, parent))
        try:
            yield span
        except UnhandledError:
            raise  # the loop that took the message has ended: nothing failed
        except BaseException as error:
            self.fail(span, error)
            raise
        finally:
            self._context.detach(token)
            span.end()

    def _judged(self, span: Any, result: Any) -> Any:
        """Mark a span whose handler wants the message again."""
        if isinstance(result, ConsumeResult) and result is not ConsumeResult.SUCCESS:
            span.set_attribute("error.type", result.name)
            span.set_status(self._trace.StatusCode.ERROR, result.name)
        return result

    def fail(self, span: Any, error: BaseException) -> None:
        """Mark a span with an exception."""
        if not isinstance(error, asyncio.CancelledError):
            span.record_exception(error)
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(self._trace.StatusCode.ERROR, str(error))

    @staticmethod
    def _attributes(operation: str, topic: str, client_id: str) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": topic,
        }
        return attributes | {"messaging.client.id": client_id} if client_id else attributes


class Sending:
    """The span of a send that goes on. ``messages`` are sent. As a context manager it ends the span."""

    def __init__(self, telemetry: Telemetry, span: Any, messages: list[Message]) -> None:
        self._telemetry = telemetry
        self._span = span
        self.messages = messages

    @property
    def message(self) -> Message:
        """The only message."""
        return self.messages[0]

    def __enter__(self) -> Sending:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(error)

    def done(self, result: SendResult) -> SendResult:
        """Note the result and return it."""
        if len(self.messages) == 1:
            self._span.set_attribute("messaging.message.id", result.message_id)
        self._span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))
        return result

    def end(self, error: BaseException | None = None) -> None:
        """End the span, marked if there is an error."""
        if error is not None:
            self._telemetry.fail(self._span, error)
        self._span.end()

    def settle(self, future: asyncio.Future[SendResult]) -> None:
        """End the span with what a future has: its callback."""
        if future.cancelled():
            self.end(asyncio.CancelledError("the caller does not wait any more"))
            return
        error = future.exception()
        if error is None:
            self.done(future.result())
        self.end(error)


def _message_attributes(tag: str, keys: str, body_size_bytes: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {"messaging.message.body.size": body_size_bytes}
    if tag:
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys:
        attributes["messaging.rocketmq.message.keys"] = keys.split()
    return attributes


def _kind(message: Message, ordering_key: str | None) -> str:
    if message.is_delayed:
        return "delay"
    return "fifo" if ordering_key or SHARDING_KEY in message.properties else "normal"
