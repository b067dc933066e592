"""Counts of what a consumer pulled and handled per topic, for the running info that operators request."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass


@dataclass
class TopicCounts:
    """Totals since the consumer started; times in milliseconds."""

    pulls: int = 0
    pull_ms: int = 0
    pulled: int = 0
    handled: int = 0
    failed: int = 0
    handle_ms: int = 0


class ConsumeCounters:
    """Counts by topic."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounts] = defaultdict(TopicCounts)

    def pulled(self, topic: str, count: int, spent_ms: int) -> None:
        counts = self.topics[topic]
        counts.pulls += 1
        counts.pulled += count
        counts.pull_ms += spent_ms

    def handled(self, topic: str, count: int, spent_ms: int, *, failed: bool) -> None:
        counts = self.topics[topic]
        if failed:
            counts.failed += count
        else:
            counts.handled += count
        counts.handle_ms += spent_ms
