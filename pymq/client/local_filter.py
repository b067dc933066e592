"""Filters that run in the client: the broker sends all messages, and the plugin picks those for the handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pymq.filter.messages import of_stored
from pymq.model.record import StoredMessage

if TYPE_CHECKING:
    from pymq.filter.running import RunningFilter


class Kept(NamedTuple):
    """Messages to deliver. ``stop_offset``: where the next pull starts if the filter stopped, else None."""

    messages: list[StoredMessage]
    stop_offset: int | None


class LocalFilter:
    """A plugin's filter for one subscription, with its state and figures."""

    def __init__(self, running: RunningFilter) -> None:
        self.running = running

    def keep(self, messages: list[StoredMessage]) -> Kept:
        """Return the messages of a queue that match; policy stop ends them before the first one the filter fails on.

        Raises FilterStopError when the filter stops at the first message.
        """
        kept, filtered_count = self.running.keep(messages, [of_stored(message) for message in messages])
        return Kept(kept, messages[filtered_count].queue_offset if filtered_count < len(messages) else None)

    def figures(self) -> str:
        """Return the filter's counters on one line, for operators."""
        stats = self.running.stats
        return (
            f"{self.running.name}: matched {stats.matched}, skipped {stats.skipped}, errors {stats.errors}, "
            f"{stats.time_ms} ms"
        )
