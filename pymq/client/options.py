"""The keywords of the clients' constructors as types, for classes that pass them on."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

from pymq.client.telemetry import Telemetry
from pymq.client.tls import Tls
from pymq.clock import Clock
from pymq.model.allocation import Strategy
from pymq.model.message import Message, MessageQueue
from pymq.security.credentials import Credentials


class ClientOptions(TypedDict, total=False):
    """The keywords that all clients of a group take: those of :class:`~pymq.client.pull_consumer.PullConsumer`."""

    poll_interval_s: float
    instance_name: str | None
    clock: Clock | None
    rng: random.Random | None
    credentials: Credentials | None
    tls: Tls | None


class ProducerOptions(ClientOptions, total=False):
    """The keywords of :class:`~pymq.client.producer.Producer`."""

    compress: str
    compress_above_bytes: int
    body_size_max_bytes: int
    delay_level_max: int
    retry_count: int
    linger_ms: float | None
    batch_bytes_max: int
    batch_count_max: int
    in_flight_count_max: int
    in_flight_bytes_max: int
    when_full: str
    avoid_slow_brokers: bool
    trace: bool
    telemetry: Telemetry | None


Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]  # chooses one of a topic's queues for a message


class SendOptions(TypedDict, total=False):
    """The keywords of :meth:`pymq.client.producer.Producer.send`."""

    timeout_s: float
    queue: MessageQueue | None
    selector: Selector | None
    ordering_key: str | None


class SubscribeOptions(TypedDict, total=False):
    """The keywords of ``subscribe``: fields of :class:`~pymq.client.subscription_options.SubscriptionOptions`."""

    sql: str | None
    expression_type: str
    filter: str | None
    on_error: str
    via: str | None


class PullOptions(SubscribeOptions, total=False):
    """The keywords of :meth:`pymq.client.pull_consumer.PullConsumer.pull`."""

    bytes_max: int | None
    expression: str
    suspend_ms: int


class SettingOptions(TypedDict, total=False):
    """The fields of :class:`~pymq.client.consumer_settings.ConsumerSettings`."""

    orderly: bool
    broadcasting: bool
    consume_from: str | int
    batch_count_max: int
    concurrency_max: int
    pull_count_max: int
    pull_bytes_max: int
    long_poll_ms: int
    cached_count_max: int
    cached_bytes_max: int
    max_reconsume_times: int
    delay_level: int
    delay_level_max: int
    consume_timeout_s: float
    suspend_ms: int
    commit_interval_s: float
    rebalance_interval_s: float
    retry_interval_s: float
    stop_timeout_s: float
    trace: bool
    telemetry: Telemetry | None
    client_rebalance: bool
    invisible_ms: int
    strategy: str | Strategy
    offsets_path: str | Path | None


class ConsumerOptions(ClientOptions, SettingOptions, total=False):
    """The keywords of :class:`~pymq.client.push_consumer.PushConsumer`."""
