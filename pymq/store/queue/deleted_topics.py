"""Which records of the log belong to topics that were deleted: their queues must not come back when they are rebuilt.

The log keeps a deleted topic's records until their segments go. RocketMQ forgets the deletion when its queues are made
again from the log; PyMQ writes it down before the first queue file goes, so that a start finishes a deletion that a
crash interrupted, and a rebuild leaves those records out.
"""

from __future__ import annotations

from collections.abc import Mapping

from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

DELETED_TOPICS_FILE = "deletedTopics.json"  # in the directory of the config tables
_KEY = "deletedTopics"


class DeletedTopics:
    """Kept in a JSON file beside the config tables; RocketMQ ignores it."""

    def __init__(self, files: Files, path: str) -> None:
        self._table = JsonTable(files, path)
        self._ends: dict[str, int] = {}
        self.change_count = 0

    def load(self) -> None:
        entries = self._table.load().get(_KEY)
        self._ends = {}
        if isinstance(entries, dict):
            self._ends = {topic: end for topic, end in entries.items() if isinstance(end, int)}

    @property
    def ends(self) -> dict[str, int]:
        """By topic, as :meth:`end`."""
        return dict(self._ends)

    def end(self, topic: str) -> int:
        """Records of the topic below this physical offset are deleted; 0 when none are."""
        return self._ends.get(topic, 0)

    def add(self, topic: str, log_end: int) -> None:
        """All records of the topic below ``log_end``, which is on the disk, count as deleted. Durable on return.

        Raises StoreUnavailableError; then nothing has changed.
        """
        self._save({**self._ends, topic: log_end})

    def raise_to(self, ends: Mapping[str, int]) -> None:
        """Takes another broker's deletions of the same log.

        Durable on return. Raises StoreUnavailableError; then nothing has changed.
        """
        raised = {topic: end for topic, end in ends.items() if end > self.end(topic)}
        if raised:
            self._save({**self._ends, **raised})

    def bound(self, log_min_offset: int, log_end: int) -> None:
        """Forgets deletions whose records are gone. A log that ends earlier will give the rest of offsets to others."""
        ends = {topic: min(end, log_end) for topic, end in self._ends.items() if min(end, log_end) > log_min_offset}
        if ends != self._ends:
            self._save(ends)

    def _save(self, ends: dict[str, int]) -> None:
        self._table.save({_KEY: ends})
        self._ends = ends
        self.change_count += 1
