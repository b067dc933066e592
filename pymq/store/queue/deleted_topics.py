"""DeletedTopics: the physical offsets below which records of deleted topics belong to no queue.

The log keeps the records of a deleted topic until their segments are deleted. When RocketMQ makes its queues again from
the log, the topic comes back. PyMQ writes the deletion to a file before it removes the first queue file: a start
finishes a deletion that a crash interrupted, and a rebuild leaves the records out.
"""

from __future__ import annotations

from collections.abc import Mapping

from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable, SavedNames

DELETED_TOPICS_FILE = "deletedTopics.json"  # in the directory of the config tables
_KEY = "deletedTopics"


class DeletedTopics:
    """A JSON file beside the config tables, which RocketMQ ignores."""

    def __init__(self, files: Files, path: str, saved: SavedNames | None = None) -> None:
        """``saved``: as in :class:`JsonTable`."""
        self._table = JsonTable(files, path, saved=saved)
        self._ends: dict[str, int] = {}
        self.change_count = 0

    def load(self) -> None:
        entries = self._table.load().get(_KEY)
        self._ends = {}
        if isinstance(entries, dict):
            self._ends = {topic: end for topic, end in entries.items() if isinstance(end, int)}

    @property
    def ends(self) -> dict[str, int]:
        """The result of :meth:`end` by topic."""
        return dict(self._ends)

    def end(self, topic: str) -> int:
        """Records of the topic below this physical offset are deleted; 0 when none are."""
        return self._ends.get(topic, 0)

    def covers(self, topic: str, physical_offset: int) -> bool:
        """Return True for a record of the topic that is deleted, though the topic may be there again."""
        return physical_offset < self.end(topic)

    def raise_to(self, ends: Mapping[str, int]) -> None:
        """Count all records of topics below these physical offsets as deleted. Durable.

        What the log has of them is on the disk. Raises StoreUnavailableError; then nothing has changed.
        """
        raised = {topic: end for topic, end in ends.items() if end > self.end(topic)}
        if raised:
            self._save({**self._ends, **raised})

    def bound(self, log_min_offset: int, log_end: int) -> None:
        """Forget deletions whose records are gone. Offsets behind the log's end will be given to other records."""
        ends = {topic: min(end, log_end) for topic, end in self._ends.items() if min(end, log_end) > log_min_offset}
        if ends != self._ends:
            self._save(ends)

    def _save(self, ends: dict[str, int]) -> None:
        self._table.save({_KEY: ends})
        self._ends = ends
        self.change_count += 1
