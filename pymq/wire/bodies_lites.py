"""JSON bodies of lite topics: codes 200074 to 200076. Java: GetBrokerLiteInfoResponseBody and its like."""

from __future__ import annotations

import msgspec

from pymq.wire.bodies_admin import TopicOffset


class BrokerLites(msgspec.Struct, rename="camel", kw_only=True):
    """What a broker holds of all lite topics. ``topic_meta``: minutes of expiration by parent, -1 for none."""

    store_type: str
    max_lmq_num: int
    current_lmq_num: int
    lite_subscription_count: int = 0
    order_info_count: int = 0
    cq_table_size: int
    offset_table_size: int = 0
    event_map_size: int = 0
    topic_meta: dict[str, int]
    group_meta: dict[str, list[str]] = msgspec.field(default_factory=dict)


class ParentTopicLites(msgspec.Struct, rename="camel", kw_only=True):
    """The lite topics of a parent. ``ttl``: minutes of expiration; ``lmq_num``: light queues of all parents."""

    topic: str
    ttl: int
    lmq_num: int
    lite_topic_count: int


class LiteTopicState(msgspec.Struct, rename="camel", kw_only=True):
    """One lite topic. ``sharding_to_broker``: senders that follow RocketMQ's rule send its messages to this broker."""

    parent_topic: str
    lite_topic: str
    subscriber: list[dict[str, str]] = msgspec.field(default_factory=list)
    topic_offset: TopicOffset
    sharding_to_broker: bool
