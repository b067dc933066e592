"""What a mirror shows: totals and a line for each topic, live on a terminal, as metrics, and at the end."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pymq.cli.output import printable
from pymq.metrics.family import Collector, Family, Reading, bounded, counter, gauge, single
from pymq.units import format_count

SHOW_EVERY_S = 1.0
TOPICS_SHOWN_MAX = 3
TOPICS_SCRAPED_MAX = 10_000

COPIED = counter("pymq_mirror_copied_messages_total", "Messages that the target has stored.", "topic")
COPIED_BYTES = counter("pymq_mirror_copied_bytes_total", "Their bodies.", "topic", unit="bytes")
SKIPPED = counter(
    "pymq_mirror_skipped_messages_total", "Messages that came from the target, or could not be copied.", "topic"
)
BEHIND = gauge("pymq_mirror_lag_messages", "Messages at the source that are not copied yet.", "topic")
FAILING = gauge("pymq_mirror_failing_queues", "Queues that can't be read or written now.")


@dataclass
class TopicFigures:
    """The figures of one topic of the source. ``behind`` holds a number of messages for each queue."""

    copied: int = 0
    copied_bytes: int = 0
    skipped: int = 0
    behind: dict[tuple[str, int], int] = field(default_factory=dict)


class Figures:
    """The figures of one mirror, by topic of the source."""

    metrics = (COPIED, COPIED_BYTES, SKIPPED, BEHIND, FAILING)

    def __init__(self) -> None:
        self.topics: dict[str, TopicFigures] = {}
        self.failing: set[object] = set()
        self._began_s = time.monotonic()

    def of(self, topic: str) -> TopicFigures:
        """Return the figures of a topic."""
        return self.topics.setdefault(topic, TopicFigures())

    @property
    def copied(self) -> int:
        """Messages copied."""
        return sum(one.copied for one in self.topics.values())

    @property
    def skipped(self) -> int:
        """Messages left out."""
        return sum(one.skipped for one in self.topics.values())

    @property
    def behind(self) -> int:
        """Messages not copied yet, as far as the source was asked."""
        return sum(sum(one.behind.values()) for one in self.topics.values())

    def record(self) -> dict[str, Any]:
        """Return the figures for programs."""
        duration_s = time.monotonic() - self._began_s
        return {
            "copied": self.copied,
            "copied_bytes": sum(one.copied_bytes for one in self.topics.values()),
            "skipped": self.skipped,
            "behind": self.behind,
            "seconds": round(duration_s, 3),
            "topics": [
                {"topic": topic, "copied": one.copied, "skipped": one.skipped, "behind": sum(one.behind.values())}
                for topic, one in sorted(self.topics.items())
            ],
        }

    def text(self) -> str:
        """Return one line for people."""
        duration_s = max(time.monotonic() - self._began_s, 0.001)
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"copied {self.copied}{skipped}, {self.behind} behind, in {duration_s:.1f} s"

    def live_text(self, per_s: float, width: int) -> str:
        """Return one line of a live view, at most ``width`` long: totals, then the topics that are most behind."""
        parts = [f"copied {self.copied} ({per_s:,.0f}/s), {self.behind} behind"]
        if self.skipped:
            parts.append(f"{self.skipped} skipped")
        if self.failing:
            parts.append(f"{format_count(len(self.failing), 'queue')} failing")
        late = sorted(((sum(one.behind.values()), topic) for topic, one in self.topics.items()), reverse=True)
        parts += [f"{printable(topic)} {behind} behind" for behind, topic in late[:TOPICS_SHOWN_MAX] if behind]
        return ", ".join(parts)[:width]

    # As a collector of metrics.

    def labels(self) -> dict[str, str]:
        """Return the labels of every metric."""
        return {"node_type": "mirror", "node_id": str(os.getpid())}

    @property
    def budget(self) -> None:
        """No memory budget: a mirror serves no peers but its scrapers."""

    def collectors(self) -> list[Collector]:
        """Return itself: one part has all figures."""
        return [self]

    def collect(self) -> Iterator[Family]:
        """Yield the present figures."""
        topics, out = bounded(self.topics.items(), TOPICS_SCRAPED_MAX)
        yield Family(COPIED, [Reading((topic,), one.copied) for topic, one in topics], out)
        yield Family(COPIED_BYTES, [Reading((topic,), one.copied_bytes) for topic, one in topics], out)
        yield Family(SKIPPED, [Reading((topic,), one.skipped) for topic, one in topics], out)
        yield Family(BEHIND, [Reading((topic,), sum(one.behind.values())) for topic, one in topics], out)
        yield single(FAILING, len(self.failing))


MIRROR_METRICS = Figures.metrics


async def show_live(figures: Figures) -> None:
    """Rewrite one line on a terminal's stderr until it is cancelled; elsewhere, and on a dumb one, show nothing."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    before = figures.copied
    try:
        while True:
            await asyncio.sleep(SHOW_EVERY_S)
            now = figures.copied
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            sys.stderr.write(f"\r{figures.live_text((now - before) / SHOW_EVERY_S, width)}\033[K")
            sys.stderr.flush()
            before = now
    finally:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
