"""Counts what SQL92 expressions do for each group: once per pull, so that a single message costs nothing more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pymq.store.store import GetResult, GetStatus

PREFIX = "filter."
COUNTS_MAX = 10_000  # pairs of topic and group; all of them are in the runtime information
_COUNTED = (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE)


@dataclass(slots=True)
class FilterCounts:
    """Messages that matched, did not, or could not be judged; and the time of the reads in ms, including the disk's."""

    matched: int = 0
    skipped: int = 0
    errors: int = 0
    time_ms: int = 0

    def text(self) -> str:
        """Return the text that operators see, in the words of client-side filters."""
        return f"matched {self.matched}, skipped {self.skipped}, errors {self.errors}, {self.time_ms} ms"


class FilterFigures:
    """Counts by topic and group, made on first use, at most COUNTS_MAX."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], FilterCounts] = {}

    def add(self, topic: str, group: str, start: int, result: GetResult, error_count: int, spent_ms: int) -> None:
        """Count a read from offset ``start`` on, which met ``error_count`` messages that could not be judged."""
        if result.status not in _COUNTED:
            return
        counts = self.counts.get((topic, group))
        if counts is None:
            if len(self.counts) >= COUNTS_MAX:
                del self.counts[next(iter(self.counts))]  # the first one; it begins again with its next read
            counts = self.counts[topic, group] = FilterCounts()
        counts.matched += result.count
        counts.skipped += max(0, result.next_offset - start - result.count - error_count)
        counts.errors += error_count
        counts.time_ms += spent_ms

    def forget(self, *, topics: Collection[str] = (), groups: Collection[str] = ()) -> None:
        """Drop the counts of deleted topics or groups."""
        self.counts = {key: one for key, one in self.counts.items() if key[0] not in topics and key[1] not in groups}

    def figures(self) -> dict[str, str]:
        """Return ``filter.TOPIC@GROUP`` -> text, for the broker's runtime info."""
        return {f"{PREFIX}{topic}@{group}": one.text() for (topic, group), one in sorted(self.counts.items())}
