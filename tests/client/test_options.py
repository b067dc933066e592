"""The types of the constructors' keywords, as a type checker in an application sees them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, assert_type, get_type_hints

import pytest

from pymq.client import MessageQueue, Producer, PullConsumer, PushConsumer, SendResult, sync
from pymq.client.consumer_settings import ConsumerSettings
from pymq.client.options import (
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    SendOptions,
    SettingOptions,
    SubscribeOptions,
)
from pymq.client.subscription_options import SubscriptionOptions
from pymq.errors import UsageError
from pymq.model.message import Message
from pymq.wire.bodies_admin import ConsumeOffset


def keywords(cls: type) -> dict[str, Any]:
    """Return the types of a constructor's keywords, without those that the blocking clients name themselves."""
    parameters = inspect.signature(cls).parameters.values()
    hints = get_type_hints(cls.__init__)
    names = {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    return {name: hints[name] for name in names - {"namesrv", "on_message"}}


def keywords_of(method: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a method's keywords."""
    parameters, hints = inspect.signature(method).parameters.values(), get_type_hints(method)
    return {one.name: hints[one.name] for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}


def test_the_options_are_those_of_the_classes() -> None:
    assert get_type_hints(ProducerOptions) == keywords(Producer)
    assert get_type_hints(ClientOptions) == keywords(PullConsumer) == keywords(PushConsumer)
    assert get_type_hints(SettingOptions) == get_type_hints(ConsumerSettings)
    assert get_type_hints(SendOptions) == keywords_of(Producer.send) == keywords_of(Producer.enqueue)
    fields = get_type_hints(SubscriptionOptions)
    assert get_type_hints(SubscribeOptions) == {name: fields[name] for name in fields.keys() - {"expression"}}
    assert get_type_hints(ConsumerOptions) == get_type_hints(ClientOptions) | get_type_hints(SettingOptions)


def _typed_use(
    admin: sync.Admin, producer: sync.Producer, consumer: sync.PushConsumer, handler: Callable[[Any], None]
) -> None:
    """Never called: mypy checks that it sees these types, and that each ignored error is one."""
    assert_type(admin.topics.names(), list[str])
    assert_type(admin.groups.lag("G", topic="T"), dict[MessageQueue, ConsumeOffset])
    assert_type(producer.send(Message("T", "x", keys=["a"])), SendResult)
    assert_type(producer.send_async(Message("T", b"x")), Future[SendResult])
    assert_type(producer.enqueue(Message("T", b"x"), ordering_key="k"), Future[SendResult])
    producer.send(Message("T", b"x"), ordering_key=7)  # type: ignore[arg-type]
    producer.send(Message("T", b"x"), timeout=7)  # type: ignore[call-arg]
    consumer.subscribe("T", sql="a > 5")
    consumer.subscribe("T", filter=7)  # type: ignore[arg-type]
    consumer.subscribe("T", tags="A")  # type: ignore[call-arg]
    assert_type(consumer.assigned, list[MessageQueue])
    admin.topics.lag()  # type: ignore[attr-defined]
    admin.groups.lag(7)  # type: ignore[arg-type]
    PushConsumer("G", on_message=handler, batch_count_max=3, consume_from="first")
    PushConsumer("G", on_message=handler, batch_count_max="3")  # type: ignore[arg-type]
    sync.PushConsumer("G", on_message=handler, batch_max=3)  # type: ignore[call-arg]
    sync.Producer("G", compress=True)  # type: ignore[arg-type]
    sync.Producer("G", linger_ms=5, batch_bytes_max=1000, in_flight_count_max=10, when_full="refuse")
    sync.Producer("G", linger_ms="5")  # type: ignore[arg-type]


def test_a_setting_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match="no setting 'batch_max'"):
        PushConsumer("G", on_message=lambda messages: None, batch_max=3)  # type: ignore[call-arg]
