"""The options with which a caller selects messages of a topic, the same for all consumers."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.client.filter_servers import filter_server_subscription
from pymq.client.subscription import EVERYTHING, TAG, Subscription, filtered_subscription, parse_subscription
from pymq.clock import Clock
from pymq.errors import UsageError
from pymq.filter.class_names import FILTER_SERVER


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """Tags, SQL92, or the ``expression`` of a ``filter``, which runs in the client or ``via`` a filter server."""

    expression: str = EVERYTHING
    sql: str | None = None
    expression_type: str = TAG
    filter: str | None = None
    on_error: str = "skip"
    via: str | None = None

    def subscription(self, topic: str, version: int, clock: Clock) -> Subscription:
        """Return the subscription; ``version`` is Unix ms.

        Raises UsageError for options that exclude each other, ExpressionError for a wrong expression.
        """
        if self.via is not None and (self.via != FILTER_SERVER or self.filter is None):
            raise UsageError(f"via={self.via!r}: only {FILTER_SERVER!r} is possible, together with a filter")
        if self.filter is None:
            return parse_subscription(topic, self.expression, version, self.expression_type, self.sql)
        if self.sql is not None or self.expression_type != TAG:
            raise UsageError(f"filter={self.filter!r} excludes sql and expression_type: give one of them")
        if self.via is not None:
            return filter_server_subscription(topic, self.filter, self.expression, version, on_error=self.on_error)
        return filtered_subscription(topic, self.filter, self.expression, version, clock=clock, on_error=self.on_error)
