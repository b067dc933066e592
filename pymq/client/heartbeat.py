"""Builds a consumer's part of its heartbeats."""

from __future__ import annotations

from pymq.client.consumer_settings import FIRST, LAST, ConsumerState
from pymq.client.subscription import Subscription
from pymq.wire.bodies_client import ConsumerData, SubscriptionData

_FROM_WHERE: dict[str | int, str] = {FIRST: "CONSUME_FROM_FIRST_OFFSET", LAST: "CONSUME_FROM_LAST_OFFSET"}


def subscription_data(subscription: Subscription) -> SubscriptionData:
    """Describe one subscription with its tags and their hashes."""
    return SubscriptionData(
        topic=subscription.topic,
        sub_string=subscription.expression,
        expression_type=subscription.expression_type,
        class_filter_mode=subscription.class_filter,
        sub_version=subscription.version,
        tags_set=sorted(subscription.tags),
        code_set=subscription.tag_codes,
    )


def consumer_data(state: ConsumerState) -> ConsumerData:
    """Describe the group and all its subscriptions."""
    return ConsumerData(
        group_name=state.group,
        message_model="BROADCASTING" if state.settings.broadcasting else "CLUSTERING",
        consume_from_where=_FROM_WHERE.get(state.settings.consume_from, "CONSUME_FROM_TIMESTAMP"),
        subscription_data_set=[subscription_data(one) for one in state.subscriptions.values()],
    )
