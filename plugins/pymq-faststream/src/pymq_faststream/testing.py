"""TestPymqBroker: calls handlers in memory, without a server."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast, overload
from unittest.mock import MagicMock

import anyio
from faststream._internal.testing.broker import EnterType, TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from pymq.client import Message, Producer, StoredMessage
from pymq.client.subscription import parse_subscription
from pymq.clock import SystemClock
from pymq.filter.compiler import compile_condition
from pymq.filter.parser import parse
from pymq.model import properties as names
from pymq.model.hosts import pack_host
from pymq.model.properties import encode_properties
from pymq.model.record import body_crc
from pymq_faststream.broker import PymqBroker
from pymq_faststream.message import Raw
from pymq_faststream.producer import REQUEST_TIMEOUT_S, PymqProducer
from pymq_faststream.publisher import PymqPublisherUsecase
from pymq_faststream.response import PymqPublishCommand
from pymq_faststream.subscriber import PymqSubscriber

_HOST = pack_host("127.0.0.1", 0)


class TestPymqBroker(TestBroker[PymqBroker, EnterType], broker=PymqBroker):
    """Replaces the server of one or more brokers for a test. ``with_real=True``: keep the server, record the calls."""

    @overload
    def __init__(
        self: TestPymqBroker[PymqBroker],
        broker: PymqBroker,
        /,
        *,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: TestPymqBroker[tuple[PymqBroker, ...]],
        *brokers: PymqBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    def __init__(self, *brokers: PymqBroker, with_real: bool = False, connect_only: bool | None = None) -> None:
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)

    @contextmanager
    def _patch_producer(self, broker: PymqBroker) -> Generator[None, None, None]:
        with change_producer(broker.config.broker_config, MemoryProducer(broker, self.brokers)):
            yield

    @staticmethod
    async def _fake_connect(broker: PymqBroker, *args: Any, **kwargs: Any) -> Producer:  # type: ignore[override]
        return cast("Producer", MagicMock(spec=Producer))

    def create_publisher_fake_subscriber(
        self, broker: PymqBroker, publisher: PymqPublisherUsecase
    ) -> tuple[PymqSubscriber, bool]:
        """Return the subscriber that gets what a publisher publishes, and whether it is the application's own."""
        for one in self.brokers:
            for subscriber in cast("list[PymqSubscriber]", one.subscribers):
                if publisher.topic in subscriber.topics:
                    return subscriber, True
        group = f"{broker.config.broker_config.group}-test-{uuid.uuid4().hex}"
        return broker.subscriber(publisher.topic, group=group, batch=publisher.is_batch, persistent=False), False


class MemoryProducer(PymqProducer):
    """Hands messages to the handlers of one process. Delays, retries and dead letters are the server's: there are none.

    What a handler raises comes out of ``publish``.
    """

    is_fake = True

    def __init__(self, broker: PymqBroker, brokers: Iterable[PymqBroker]) -> None:
        config = broker.config.broker_config
        super().__init__(config.cluster, config.broker_parser, config.broker_decoder)
        self.encode_by(config.fd_config._serializer, config.broker_codec)
        self._brokers = brokers

    async def publish(self, cmd: PymqPublishCommand) -> None:
        """Call the handlers of each group with one message."""
        if cmd.request is not None:
            return  # the result of the handler is the reply
        raw = _stored(await self.message(cmd, cmd.body, cmd.options))
        for subscriber in self._subscribers(raw):
            await subscriber.process_message(_for(subscriber, [raw]))

    async def publish_batch(self, cmd: PymqPublishCommand) -> None:
        """Call the handlers of each group with all messages at once, or with each."""
        messages, _ = await self.batch(cmd)
        batches: dict[PymqSubscriber, list[StoredMessage]] = {}
        for raw in map(_stored, messages):
            for subscriber in self._subscribers(raw):
                batches.setdefault(subscriber, []).append(raw)
        for subscriber, raws in batches.items():
            for each in [raws] if subscriber.subscription.batch else [[raw] for raw in raws]:
                await subscriber.process_message(_for(subscriber, each))

    async def request(self, cmd: PymqPublishCommand) -> StoredMessage:
        """Return what the first handler of the topic returns. Raises SubscriberNotFound without one."""
        asked = await self.message(cmd, cmd.body, cmd.options)
        asked.properties |= {
            names.CORRELATION_ID: str(uuid.uuid4()),
            names.REPLY_TO_CLIENT: "test",
            names.CLUSTER: "test",
        }
        raw = _stored(asked)
        for subscriber in self._subscribers(raw):
            with anyio.fail_after(REQUEST_TIMEOUT_S if cmd.timeout_s is None else cmd.timeout_s):
                response = await subscriber.process_message(_for(subscriber, [raw]))
            reply = PymqPublishCommand.from_cmd(response.as_publish_command())
            reply.destination = cmd.destination
            return _stored(await self.message(reply, reply.body, reply.options))
        raise SubscriberNotFound(f"no subscriber of topic {cmd.destination} takes the request")

    def _subscribers(self, raw: StoredMessage) -> Iterator[PymqSubscriber]:
        """Yield those who want a message: one of each group, or all that are broadcast to."""
        groups = set()
        for broker in self._brokers:
            for subscriber in cast("list[PymqSubscriber]", broker.subscribers):
                if not subscriber.subscription.broadcast:
                    if subscriber.group in groups or not _wants(subscriber, raw):
                        continue
                    groups.add(subscriber.group)
                    yield subscriber
                elif _wants(subscriber, raw):
                    yield subscriber


def _wants(subscriber: PymqSubscriber, raw: StoredMessage) -> bool:
    if raw.topic not in subscriber.topics or not subscriber.calls:
        return False
    wanted = subscriber.subscription
    if wanted.sql is not None:
        return compile_condition(parse(wanted.sql).tree)(raw.raw_properties) is True
    return parse_subscription(raw.topic, wanted.tags, 0).accepts(raw.tags)


def _for(subscriber: PymqSubscriber, raws: list[StoredMessage]) -> Raw:
    return tuple(raws) if subscriber.subscription.batch else raws[0]


def _stored(message: Message) -> StoredMessage:
    """Return a message as a consumer would get it. Raises UsageError for one that can't be sent."""
    message.check()
    now_ms = SystemClock().now_ms()
    properties = encode_properties(message.wire_properties(uuid.uuid4().hex.upper()))
    return StoredMessage(
        topic=message.topic,
        queue_id=0,
        queue_offset=0,
        physical_offset=0,
        size_bytes=len(message.body) + len(properties),
        body=message.body,
        raw_properties=properties,
        flag=message.flag,
        sys_flag=0,
        body_crc=body_crc(message.body),
        born_timestamp_ms=now_ms,
        born_host=_HOST,
        store_timestamp_ms=now_ms,
        store_host=_HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
    )
