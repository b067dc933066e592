"""JSON bodies of lite topics: codes 200071 and 200074 to 200078. Java: LiteSubscriptionDTO and its like."""

from __future__ import annotations

from typing import Final

import msgspec

from pymq.errors import Refusal
from pymq.wire.bodies_admin import ConsumeOffset, TopicOffset
from pymq.wire.bodies_client import decode_body
from pymq.wire.codes import ResponseCode

# -- Subscriptions (200071)

# What an entry does with a client's set of lite topics.
PARTIAL_ADD: Final = "PARTIAL_ADD"
PARTIAL_REMOVE: Final = "PARTIAL_REMOVE"
COMPLETE_ADD: Final = "COMPLETE_ADD"  # replaces the set
COMPLETE_REMOVE: Final = "COMPLETE_REMOVE"  # drops the client
ACTIONS: Final = (PARTIAL_ADD, PARTIAL_REMOVE, COMPLETE_ADD, COMPLETE_REMOVE)

# Where a group begins in a lite topic, in the order of Java's enum.
POLICY: Final = "POLICY"
OFFSET: Final = "OFFSET"
TAIL_N: Final = "TAIL_N"
TIMESTAMP: Final = "TIMESTAMP"
OFFSET_OPTIONS: Final = (POLICY, OFFSET, TAIL_N, TIMESTAMP)
FROM_LAST: Final = 0  # of POLICY: where the group is
FROM_MIN: Final = 1  # offset 0
FROM_MAX: Final = 2  # the end

ENTRIES_MAX: Final = 1000  # of one request


class LiteOffsetOption(msgspec.Struct, rename="camel", kw_only=True):
    """Where the group begins to read the lite topics of an entry. Java: OffsetOption."""

    type: str
    value: int = 0


class LiteSubscription(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """One entry: what a client does with its subscriptions below one parent topic. Java: LiteSubscriptionDTO."""

    action: str
    client_id: str | None = None
    group: str | None = None
    topic: str | None = None
    lite_topic_set: list[str] | None = None
    offset_option: LiteOffsetOption | None = None
    version: int = 0


class LiteSubscriptions(msgspec.Struct, rename="camel", kw_only=True):
    """The body of LITE_SUBSCRIPTION_CTL (200071)."""

    subscription_set: list[LiteSubscription] | None = None


def decode_lite_subscriptions(body: bytes) -> list[LiteSubscription]:
    """Return the entries of a body. Raises Refusal when there are none, or too many, or one can't be read."""
    found: LiteSubscriptions = decode_body(LiteSubscriptions, body or b"{}")
    entries = found.subscription_set
    if not entries:
        raise Refusal(
            ResponseCode.ILLEGAL_OPERATION, "the body names no subscription: send at least one in subscriptionSet"
        )
    if len(entries) > ENTRIES_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"subscriptionSet has {len(entries)} entries, the limit is {ENTRIES_MAX}: send several requests",
        )
    for entry in entries:
        if entry.action not in ACTIONS:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"the action {entry.action[:40]!r} is unknown: use {', '.join(ACTIONS)}"
            )
        option = entry.offset_option
        if option is not None and option.type not in OFFSET_OPTIONS:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"the offset option {option.type[:40]!r} is unknown: use {', '.join(OFFSET_OPTIONS)}",
            )
    return entries


# -- Look-ups (200074 to 200078)


class BrokerLites(msgspec.Struct, rename="camel", kw_only=True):
    """What a broker holds of all lite topics.

    ``topic_meta``: minutes of expiration by parent, -1 for none; ``group_meta``: groups by parent.
    """

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


class ParentTopicLites(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The lite topics of a parent, and the groups that are bound to it.

    ``ttl``: minutes of expiration; ``lmq_num``: light queues of all parents. ``pymq_lite_topics``: names with next
    offsets, of PyMQ's brokers and if the request asks for them.
    """

    topic: str
    ttl: int
    lmq_num: int
    lite_topic_count: int
    groups: list[str] | None = None
    pymq_lite_topics: list[tuple[str, int]] | None = None


class LiteTopicState(msgspec.Struct, rename="camel", kw_only=True):
    """One lite topic. ``subscriber``: ``clientId`` (of a wildcard group ``*``) and ``group`` of each.

    ``sharding_to_broker``: senders that follow RocketMQ's rule send its messages to this broker.
    """

    parent_topic: str
    lite_topic: str
    subscriber: list[dict[str, str]] = msgspec.field(default_factory=list)
    topic_offset: TopicOffset
    sharding_to_broker: bool


class LiteClientState(msgspec.Struct, rename="camel", kw_only=True):
    """A client's subscriptions. Times are Unix ms, -1 for never; ``lite_topic_count`` -1: the client is unknown.

    ``lite_topic_set`` holds names of light queues.
    """

    parent_topic: str
    group: str
    client_id: str
    last_access_time: int = -1
    last_consume_time: int = 0
    lite_topic_count: int = -1
    lite_topic_set: list[str] | None = None


class LiteLag(msgspec.Struct, rename="camel", kw_only=True):
    """How far a group is behind in a lite topic. The timestamp: Unix ms of the first message that is left, or -1."""

    lite_topic: str
    lag_count: int
    earliest_unconsumed_timestamp: int = -1


class LiteGroupState(msgspec.Struct, rename="camel", kw_only=True):
    """How far a group is behind: in ``lite_topic``, where ``total_lag_count`` -1 means no messages, or in all.

    ``lag_count_top_k`` has the lite topics with the most messages left, ``lag_timestamp_top_k`` those with the oldest.
    """

    group: str
    parent_topic: str
    lite_topic: str | None = None
    earliest_unconsumed_timestamp: int = -1
    total_lag_count: int = 0
    lite_topic_offset_wrapper: ConsumeOffset | None = None
    lag_count_top_k: list[LiteLag] | None = None
    lag_timestamp_top_k: list[LiteLag] | None = None
