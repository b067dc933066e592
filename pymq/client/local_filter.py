"""Filters that run in the client: the broker sends everything, the plugin decides what the handler sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pymq.client.subscription import EVERYTHING, SQL92, TAG, Subscription, parse_subscription
from pymq.clock import Clock
from pymq.filter.messages import of_stored
from pymq.model.record import StoredMessage

if TYPE_CHECKING:
    from pymq.filter.running import RunningFilter


class Kept(NamedTuple):
    """What to deliver; ``stop_offset``: of the message at which to pull again, None when all were judged."""

    messages: list[StoredMessage]
    stop_offset: int | None


class LocalFilter:
    """A plugin's filter for one subscription, with its state and figures."""

    def __init__(self, running: RunningFilter) -> None:
        self.running = running

    def keep(self, messages: list[StoredMessage]) -> Kept:
        """The wanted ones of a queue's messages, up to the first that can't be judged when the policy is to stop there.

        Raises FilterStopError when that is the first of them.
        """
        kept, judged_count = self.running.keep(messages, [of_stored(message) for message in messages])
        return Kept(kept, messages[judged_count].queue_offset if judged_count < len(messages) else None)

    def figures(self) -> str:
        """What operators see of it, on one line."""
        stats = self.running.stats
        return (
            f"{self.running.name}: matched {stats.matched}, skipped {stats.skipped}, errors {stats.errors}, "
            f"{stats.time_ms} ms"
        )


def filtered_subscription(
    topic: str, name: str, expression: str, version: int, *, clock: Clock, on_error: str
) -> Subscription:
    """A subscription through the filter ``name``; ``tag`` and ``sql92`` are left to the broker, which knows them.

    Raises UsageError for an unknown filter or policy, ExpressionError for a wrong expression.
    """
    # Plugins are loaded where they are used: importing a client imports none.
    from pymq.filter.registry import installed_filters  # noqa: PLC0415
    from pymq.filter.running import RunningFilter, parse_on_error  # noqa: PLC0415

    policy = parse_on_error(on_error)
    plugin = installed_filters().find(name)
    if plugin.name == TAG.lower():
        return parse_subscription(topic, expression, version)
    if plugin.name == SQL92.lower():
        return parse_subscription(topic, EVERYTHING, version, sql=expression)
    subscription = parse_subscription(topic, EVERYTHING, version)
    subscription.local = LocalFilter(RunningFilter(plugin, expression, clock=clock, on_error=policy))
    return subscription
