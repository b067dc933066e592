"""The handlers of one group in an App, and the consumer that calls them by topic."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pymq.client.codecs import Codec
from pymq.client.consume_result import ConsumeResult
from pymq.client.options import ConsumerOptions
from pymq.client.push_consumer import PushConsumer
from pymq.errors import UsageError
from pymq.model.record import StoredMessage

log = logging.getLogger(__name__)

_MESSAGE_ONLY, _VALUE_ONLY, _VALUE_AND_MESSAGE = range(3)


@dataclass(slots=True)
class _Handler:
    function: Callable[..., Any]
    expression: str
    sql: str | None
    codec: Codec[Any] | None
    arguments: int

    def arguments_for(self, message: StoredMessage) -> tuple[Any, ...] | None:
        """Return what the function is called with, None for a body that can't be read: logged, and given up."""
        if self.codec is None:
            return (message,)
        try:
            value = self.codec.decode(message.content())
        except Exception as error:  # also what a codec of the application raises
            log.error(
                "the body of %s of topic %s can't be read, so it goes to the dead letters: %s",
                *(message.message_id, message.topic, error),
            )
            return None
        return (value,) if self.arguments == _VALUE_ONLY else (value, message)


class Handlers:
    """The handlers of ``group``, one for each topic. ``options`` are those of the group's consumer."""

    def __init__(self, group: str, options: ConsumerOptions) -> None:
        self._group = group
        self._options = options
        self._by_topic: dict[str, _Handler] = {}

    def add(
        self,
        topic: str,
        function: Callable[..., Any],
        expression: str,
        sql: str | None,
        codec: Codec[Any] | None,
        options: ConsumerOptions,
    ) -> None:
        """Add a topic's handler. Raises UsageError for a second one and for other options than the group's."""
        if topic in self._by_topic:
            raise UsageError(
                f"group {self._group} has a handler of {topic} already: a group has one subscription to a topic, "
                "so use another group, or one handler with tags='A || B'"
            )
        if options != self._options:
            raise UsageError(
                f"the handlers of group {self._group} have different options, {options!r} and {self._options!r}: one "
                "consumer calls them all, so give them the same"
            )
        if options.get("batch_count_max", 1) != 1:
            raise UsageError("batch_count_max is not 1: the handlers of an App get one message at a time")
        self._by_topic[topic] = _Handler(function, expression, sql, codec, _arguments(function, codec))

    def consumer(self, namesrv: str | Sequence[str] | None) -> PushConsumer:
        """Return a new consumer with all subscriptions. Raises UsageError for a wrong name, option or expression."""
        is_async = {inspect.iscoroutinefunction(one.function) for one in self._by_topic.values()}
        # With handlers of both kinds all are called in threads, and coroutines go from there to the loop.
        on_message = self._on_message_async if is_async == {True} else self._on_message
        consumer = PushConsumer(self._group, namesrv=namesrv, on_message=on_message, **self._options)
        for topic, one in self._by_topic.items():
            consumer.subscribe(topic, one.expression, sql=one.sql)
        return consumer

    def _on_message(self, messages: list[StoredMessage]) -> ConsumeResult | Awaitable[ConsumeResult | None] | None:
        (message,) = messages
        handler = self._by_topic[message.topic]
        arguments = handler.arguments_for(message)
        result: ConsumeResult | Awaitable[ConsumeResult | None] | None
        result = ConsumeResult.DEAD_LETTER if arguments is None else handler.function(*arguments)
        return result

    async def _on_message_async(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        (message,) = messages
        handler = self._by_topic[message.topic]
        arguments = handler.arguments_for(message)
        if arguments is None:
            return ConsumeResult.DEAD_LETTER
        result: ConsumeResult | None = await handler.function(*arguments)
        return result


def _arguments(function: Callable[..., Any], codec: Codec[Any] | None) -> int:
    """Return how the handler is called. Raises UsageError for a function that can't be called so."""
    if codec is None:
        ways = {_MESSAGE_ONLY: 1}
    else:
        ways = {_VALUE_AND_MESSAGE: 2, _VALUE_ONLY: 1}
    signature = inspect.signature(function)
    for way, count in ways.items():
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return way
    wanted = "(value) or (value, message)" if codec is not None else "(message)"
    raise UsageError(f"the handler {function!r} takes {signature}: write it with {wanted}")
