"""What clients report of themselves: heartbeat (34), unregistration (35), their group's members (38), check (46)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pymq.broker.messages.expressions import check_size
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model import names
from pymq.wire.bodies_client import (
    DIFFERING_SUBSCRIPTIONS,
    PYMQ_LANGUAGE,
    ConsumerData,
    ConsumerListAnswer,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
    decode_body,
    encode_body,
)
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.client import ConsumerGroupHeader, UnregisterClientHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.expressions import Expressions

CLIENT_ID_LENGTH_MAX = 1024
PROBLEM_LENGTH_MAX = 2000
# A subscription takes about 300 bytes, so that is room for 3,000 of them.
HEARTBEAT_SIZE_MAX_BYTES = 1024 * 1024


class CheckClientBody(msgspec.Struct, rename="camel", kw_only=True):
    """The body of CHECK_CLIENT_CONFIG (46): a consumer asks whether the broker understands its filter."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None


class ClientHandlers:
    """Tells the ClientManager which clients are connected."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        expressions: Expressions,
        makes_groups: bool = True,
    ) -> None:
        """``makes_groups``: heartbeats make groups and retry topics. On a slave they do not: its tables are its
        master's."""
        self._config = runtime.config
        self._makes_groups = makes_groups
        self._expressions = expressions
        self._clients = metadata.clients
        self._groups = metadata.groups
        self._topics = metadata.topics

    def heartbeat(self, request: Command, header: None, peer: Peer) -> Reply:
        """Note the sender's groups; make new groups and their retry topics."""
        if len(request.body) > HEARTBEAT_SIZE_MAX_BYTES:
            raise _invalid(
                f"the heartbeat has {len(request.body)} bytes, the limit is {HEARTBEAT_SIZE_MAX_BYTES}: subscribe to "
                "fewer topics and tags, or use several clients"
            )
        beat: HeartbeatData = decode_body(HeartbeatData, request.body)
        producers, consumers = beat.producer_data_set or [], beat.consumer_data_set or []
        self._check(beat.client_id, producers, consumers, peer)
        if self._makes_groups:
            self._make_groups([consumer.group_name for consumer in consumers])
        client = self._clients.client(beat.client_id, peer, request.language, request.version, request.sender)
        for producer in producers:
            self._clients.register_producer(producer.group_name, client)
        for consumer in consumers:
            self._clients.register_consumer(client, consumer, keep_subscriptions=beat.without_sub)
        # No: the broker keeps no fingerprints, so clients go on sending their subscriptions in full.
        ext = {"IS_SUPPORT_HEART_BEAT_V2": "false", "IS_SUB_CHANGE": "true"}
        if request.language == PYMQ_LANGUAGE:
            problems = [text for consumer in consumers if (text := self._clients.differing(consumer.group_name))]
            if problems:
                ext[DIFFERING_SUBSCRIPTIONS] = "; ".join(problems)[:PROBLEM_LENGTH_MAX]
        return Reply(ext=ext)

    def unregister(self, request: Command, header: UnregisterClientHeader, peer: Peer) -> Reply:
        """Remove a client from its groups."""
        self._clients.unregister(peer, header.producer_group or None, header.consumer_group or None)
        return Reply()

    def consumer_list(self, request: Command, header: ConsumerGroupHeader, peer: Peer) -> Reply:
        """Return the ids of the clients that share the group's queues."""
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {header.consumer_group[:255]}")
        return Reply(body=encode_body(ConsumerListAnswer(consumer_id_list=group.client_ids())))

    def check_client(self, request: Command, header: None, peer: Peer) -> Reply:
        """Tell a consumer that is about to start whether this broker serves its filter."""
        asked: CheckClientBody = decode_body(CheckClientBody, request.body)
        subscription = asked.subscription_data
        if subscription is not None:
            self._expressions.message_filter(subscription.expression_type, subscription.sub_string)
        return Reply()

    def _check(self, client_id: str, producers: list[ProducerData], consumers: list[ConsumerData], peer: Peer) -> None:
        """Check a whole heartbeat before any of it is noted: a refused one changes nothing."""
        if not 0 < len(client_id) <= CLIENT_ID_LENGTH_MAX:
            raise _invalid(f"clientID has {len(client_id)} characters: use 1 to {CLIENT_ID_LENGTH_MAX}")
        limit = self._config.groups_per_client_max
        count = self._clients.group_count(
            peer, [data.group_name for data in producers], [data.group_name for data in consumers]
        )
        if count > limit:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the client would be in {count} groups, the limit is {limit}: use fewer, or raise maxGroupsPerClient",
            )
        named: list[Any] = [*producers, *consumers]
        for data in named:
            problem = names.group_problem(data.group_name)
            if problem:
                raise _invalid(problem)
        for consumer in consumers:
            self._check_subscriptions(consumer)

    def _check_subscriptions(self, consumer: ConsumerData) -> None:
        subscriptions, limit = consumer.subscription_data_set or [], self._config.subscriptions_per_group_max
        if len(subscriptions) > limit:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"group {consumer.group_name} subscribes to {len(subscriptions)} topics, the limit is {limit}: "
                "raise maxSubscriptionsPerGroup",
            )
        for subscription in subscriptions:
            problem = names.topic_problem(subscription.topic)
            if problem:
                raise _invalid(problem)
            if not subscription.class_filter_mode:
                check_size(subscription.expression_type, subscription.sub_string or "")

    def _make_groups(self, groups: list[str]) -> None:
        """Make groups and their retry topics, with one save of each table for all groups of a heartbeat."""
        self._groups.ensure_all(groups)
        retry_topics = {}
        for name in groups:
            topic = names.retry_topic(name)
            if names.topic_problem(topic) is None:  # a very long group name leaves no room for the prefix
                retry_topics[topic] = max(1, self._groups.require(name).retry_queue_nums)
        self._topics.ensure_all_internal(retry_topics)


def _invalid(text: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, text)
