"""Compares a consumer's subscriptions with those of its group at a broker, which keeps the newest of any member."""

from __future__ import annotations

import logging

from pymq.client.consumer_settings import ConsumerState
from pymq.client.subscription import Subscription
from pymq.errors import PymqError
from pymq.model.names import RETRY_PREFIX
from pymq.model.selection import selection_text
from pymq.model.subscription_report import DIFFERING, NEXT_STEP
from pymq.wire.bodies_admin import SubscriptionAnswer, decode_admin_body
from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from pymq.wire.headers.admin import TopicGroupHeader

log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 30.0


class SubscriptionCheck:
    """Asks one broker of each topic. PyMQ's brokers tell the same in answers to heartbeats; Apache's don't."""

    def __init__(self, state: ConsumerState) -> None:
        self._state = state

    async def run(self) -> None:
        """Compare all subscriptions once, and log a difference, the same one again at growing intervals."""
        for topic, subscription in list(self._state.subscriptions.items()):
            if topic.startswith(RETRY_PREFIX):
                continue
            try:
                found = await self._ask(topic)
            except PymqError as error:
                log.debug("the group's subscription to %s is unknown: %s", topic, error)
                continue
            own = _selection(subscription)
            if found is not None and found != own:
                self._state.instance.group_log.write("broker", self._text(topic, own, found))

    async def _ask(self, topic: str) -> str | None:
        """Return what the group selects of the topic at a broker, None when the broker knows no subscription."""
        instance = self._state.instance
        queues = await instance.routes.queues_to_read(topic)
        if not queues:
            return None
        address = await instance.routes.read_address(instance.rng.choice(queues))
        header = TopicGroupHeader(topic=topic, group=self._state.group)
        answer = await instance.remoting.invoke_ok(address, request(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header))
        found = decode_admin_body(SubscriptionAnswer, answer.body).subscription_data if answer.body else None
        if found is None:
            return None
        return selection_text(found.expression_type, found.sub_string, is_class_filter=found.class_filter_mode)

    def _text(self, topic: str, own: str, others: str) -> str:
        return (
            f"members of group '{self._state.group}' {DIFFERING}: "
            f"topic '{topic}': '{own}' by this client, '{others}' by another member: {NEXT_STEP}"
        )


def _selection(subscription: Subscription) -> str:
    return selection_text(
        subscription.expression_type, subscription.expression, is_class_filter=subscription.class_filter
    )
