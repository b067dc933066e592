"""Subscribers: each is a member of a consumer group, and hands its messages to FastStream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NoReturn, cast

from faststream._internal.configs import SubscriberSpecificationConfig, SubscriberUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.publisher import PublisherProto
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.endpoint.utils import process_msg
from faststream.message import AckStatus, StreamMessage
from faststream.middlewares import AckPolicy
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, SubscriberSpec

from pymq.client import ConsumeResult, PushConsumer, Received, SimpleConsumer, StoredMessage
from pymq.client.handover import UnhandledError
from pymq.errors import UnreachableError, UsageError
from pymq_faststream.config import PymqBrokerConfig
from pymq_faststream.message import (
    SETTLE,
    PymqMessage,
    Raw,
    decode_batch,
    decode_single,
    first_of,
    is_request,
    parse_batch,
    parse_message,
)
from pymq_faststream.producer import PymqProducer, ReplyPublisher
from pymq_faststream.subscription import Subscription

RESULTS = {
    AckStatus.ACKED: ConsumeResult.SUCCESS,
    AckStatus.NACKED: ConsumeResult.RECONSUME_LATER,
    AckStatus.REJECTED: ConsumeResult.DEAD_LETTER,
}
# What becomes of a message that nothing acknowledged: it could not be parsed, or acknowledging is the handler's task.
UNSETTLED = {
    AckPolicy.ACK_FIRST: ConsumeResult.SUCCESS,
    AckPolicy.ACK: ConsumeResult.SUCCESS,
    AckPolicy.REJECT_ON_ERROR: ConsumeResult.DEAD_LETTER,
    AckPolicy.NACK_ON_ERROR: ConsumeResult.RECONSUME_LATER,
    AckPolicy.MANUAL: ConsumeResult.RECONSUME_LATER,
}
LOOP_WAIT_S = 5.0
RETRY_S = 0.5
TURN_S = 0.2  # how long get_one waits for one of several topics


@dataclass(kw_only=True)
class SubscriberConfig(SubscriberUsecaseConfig):
    """A subscriber's acknowledgement policy: its own, else its router's, else the broker's, else NACK_ON_ERROR."""

    _outer_config: PymqBrokerConfig

    @property
    def ack_policy(self) -> AckPolicy:
        """The policy that holds."""
        for policy in (self._ack_policy, self._outer_config.ack_policy):
            if policy is not EMPTY:
                return policy
        return AckPolicy.NACK_ON_ERROR


@dataclass(kw_only=True)
class SubscriberSpecConfig(SubscriberSpecificationConfig):
    """What a document says of a subscriber."""

    subscription: Subscription


class PymqSubscriberSpecification(SubscriberSpecification[PymqBrokerConfig, SubscriberSpecConfig]):
    """Describes a subscriber for AsyncAPI documents, a channel for each topic."""

    @property
    def channel_labels(self) -> list[str]:
        """The topics with the routers' prefixes."""
        return self.config.subscription.topics_in(self._outer_config.prefix)

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Return the channels."""
        topics = self.channel_labels
        payload = resolve_payloads(self.get_payloads())
        channels = {}
        for topic in topics:
            key = self._channel_key(topic, split=len(topics) > 1)
            channels[key] = SubscriberSpec(
                address=topic,
                description=self.description,
                operation=Operation(message=Message(title=f"{key}:Message", payload=payload), bindings=None),
                bindings=None,
            )
        return channels


class PymqSubscriber(SubscriberUsecase[Raw]):
    """Consumes topics in a group. With handlers it is a PushConsumer, without a SimpleConsumer."""

    _outer_config: PymqBrokerConfig

    def __init__(
        self,
        config: SubscriberConfig,
        specification: PymqSubscriberSpecification,
        calls: CallsCollection[Raw],
        subscription: Subscription,
    ) -> None:
        config.parser = parse_batch if subscription.batch else parse_message
        config.decoder = decode_batch if subscription.batch else decode_single
        super().__init__(config, cast("Any", specification), calls)
        self.subscription = subscription
        self._consumer: PushConsumer | None = None
        self._popper: SimpleConsumer | None = None
        self._turn = 0
        self._handling: set[asyncio.Task[Any] | None] = set()
        self._ending: asyncio.Task[None] | None = None

    @property
    def topics(self) -> list[str]:
        """The topics with the routers' prefixes."""
        return self.subscription.topics_in(self._outer_config.prefix)

    @property
    def group(self) -> str:
        """The consumer group: the given one, else the broker's group and the topics, joined by ``-``."""
        return self.subscription.group or "-".join([self._outer_config.group, *self.topics])

    async def start(self) -> None:
        """Join the group. Raises what :meth:`pymq.client.PushConsumer.start` raises."""
        await super().start()
        self._post_start()
        if cast("PymqProducer", self._outer_config.producer).is_fake:
            return
        cluster = self._outer_config.cluster
        for topic in self.topics:
            await cluster.ensure_topic(topic)
            await cluster.check_rights(self.group, topic)
        if not self.calls:
            self._popper = cluster.simple_consumer(self.group, from_end=self.subscription.consume_from == "last")
            await self._popper.start()
            return
        settings = self.subscription.consumer_settings(self._outer_config.graceful_timeout)
        self._consumer = cluster.push_consumer(self.group, self._on_messages, settings)
        for topic in self.topics:
            self._consumer.subscribe(topic, self.subscription.tags, sql=self.subscription.sql)
        try:
            await self._consumer.start()
        except BaseException:
            self.running, self._consumer = False, None
            raise

    async def stop(self) -> None:
        """Leave the group once running handlers have ended, ``graceful_timeout`` at most."""
        consumer, self._consumer = self._consumer, None
        popper, self._popper = self._popper, None
        if consumer is not None and asyncio.current_task() in self._handling:
            # A handler stops its own subscriber: the consumer waits for that handler to end.
            self._ending = asyncio.create_task(consumer.stop())
        elif consumer is not None:
            await consumer.stop()
        elif self._ending is not None:
            await self._ending
        if popper is not None:
            await popper.stop()
        await super().stop()

    async def _on_messages(self, messages: list[StoredMessage]) -> ConsumeResult:
        if not self.running:
            raise UnhandledError("the subscriber stops")
        settled: list[AckStatus] = []

        async def settle(status: AckStatus) -> None:
            settled.append(status)

        task = asyncio.current_task()
        token = SETTLE.set(settle)
        self._handling.add(task)
        try:
            await self.consume(tuple(messages) if self.subscription.batch else messages[0])
        finally:
            self._handling.discard(task)
            SETTLE.reset(token)
        return RESULTS[settled[0]] if settled else UNSETTLED[self.ack_policy]

    def _make_response_publisher(self, message: StreamMessage[Raw]) -> Sequence[PublisherProto]:
        first = first_of(message.raw_message)
        request = first if is_request(first) else None
        return (ReplyPublisher(self._outer_config.producer, message.reply_to, request),)

    # -- without handlers ----------------------------------------------------------------------------------------

    async def get_one(self, *, timeout: float = 5.0) -> PymqMessage | None:
        """Return the next message, or None if none came in time. It is acknowledged, unless the policy is MANUAL."""
        if self._popper is None:
            self._refuse_loop()
        topics, popper = self.topics, self._popper
        tags, sql = self.subscription.tags, self.subscription.sql
        end_s = time.monotonic() + timeout
        for asked_count in count(1):
            left_s = end_s - time.monotonic()
            # One that is empty must not keep the others waiting, and each is asked before the time is over.
            wait_s = left_s if len(topics) == 1 else min(left_s, TURN_S) if asked_count > len(topics) else 0
            self._turn += 1
            topic = topics[self._turn % len(topics)]
            found = await popper.receive(topic, 1, wait_ms=max(0, int(wait_s * 1000)), expression=tags, sql=sql)
            if found:
                return await self._taken(popper, found[0])
            if asked_count >= len(topics) and time.monotonic() >= end_s:
                break
        return None

    async def __aiter__(self) -> AsyncIterator[PymqMessage]:
        """Yield messages as :meth:`get_one` returns them, until the subscriber stops. Waits while servers are away."""
        if self._popper is None:
            self._refuse_loop()
        while self._popper is not None:
            try:
                message = await self.get_one(timeout=LOOP_WAIT_S)
            except UnreachableError as error:
                if self._popper is not None:  # else it was stopped meanwhile
                    self._log(logging.WARNING, f"no messages for now: {error}")
                    await asyncio.sleep(RETRY_S)
                continue
            if message is not None:
                yield message

    async def _taken(self, popper: SimpleConsumer, received: Received) -> PymqMessage | None:
        settling = {AckStatus.ACKED: popper.ack, AckStatus.REJECTED: popper.give_up}

        async def settle(status: AckStatus) -> None:
            await settling.get(status, popper.give_back)(received)

        parser, decoder = self._get_parser_and_decoder()
        raw: Raw = (received.message,) if self.subscription.batch else received.message
        token = SETTLE.set(settle)
        try:
            message = await process_msg(
                msg=raw,
                middlewares=(each(raw, context=self._outer_config.context) for each in self._broker_middlewares),
                parser=parser,
                decoder=decoder,
            )
        finally:
            SETTLE.reset(token)
        assert isinstance(message, PymqMessage)
        if self.ack_policy is not AckPolicy.MANUAL:
            await message.ack()
        return message

    def _refuse_loop(self) -> NoReturn:
        reason = "has handlers: they get its messages" if self.calls else "is not started: await subscriber.start()"
        raise UsageError(f"the subscriber of {', '.join(self.topics)} {reason}")

    def get_log_context(self, message: StreamMessage[Raw] | None) -> dict[str, str]:
        """Return what a log line says of the message."""
        return {
            "topic": ",".join(self.topics) if message is None else first_of(message.raw_message).topic,
            "group": self.group,
            "message_id": getattr(message, "message_id", ""),
        }

    def check_beside(self, other: PymqSubscriber) -> None:
        """Raise UsageError when two members of a group differ in what they want: each would lose messages."""
        if other.group == self.group and (
            (other.topics, other.subscription.wanted) != (self.topics, self.subscription.wanted)
        ):
            raise UsageError(
                f"two subscribers of group {self.group} want different messages ({', '.join(self.topics)} with "
                f"{self.subscription.wanted}; {', '.join(other.topics)} with {other.subscription.wanted}): give each a "
                "group of its own"
            )
