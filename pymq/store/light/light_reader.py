"""LightReader: what others see of a store's light queues."""

from __future__ import annotations

from typing import NamedTuple

from pymq.store.light.entry_files import LightEntry
from pymq.store.light.light_queues import LightQueues, OnPublished
from pymq.store.log.commit_log import CommitLog


class LightEnds(NamedTuple):
    """Offsets of the oldest message and of the next one, and when the newest one was stored (Unix ms, 0: none)."""

    min_offset: int
    max_offset: int
    newest_ms: int


class LightReader:
    """Reads what is visible in light queues."""

    def __init__(self, lights: LightQueues, log: CommitLog) -> None:
        self._lights = lights
        self._log = log
        self.has = lights.has
        self.place = lights.place  # for each send of a lite topic

    @property
    def count(self) -> int:
        """The number of lite topics of all parents."""
        return self._lights.count

    def count_of(self, parent: str) -> int:
        """Return the number of a topic's lite topics."""
        return self._lights.count_of(parent)

    def page(self, parent: str, start: int, count: int) -> list[tuple[str, int]]:
        """Return up to ``count`` lite topics of a parent with their next offsets, behind the first ``start``."""
        return self._lights.page(parent, start, count)

    def max_offset(self, parent: str, lite: str) -> int:
        """Return the offset of a lite topic's next message."""
        return self._lights.max_offset(parent, lite)

    def ends(self, parent: str, lite: str) -> LightEnds:
        """Return a lite topic's ends. Raises StoreError for a damaged entry, OSError."""
        max_offset = self._lights.max_offset(parent, lite)
        oldest = self._lights.oldest(parent, lite, self._log.min_offset)
        newest = self._lights.newest(parent, lite)
        if oldest is None or newest is None:
            return LightEnds(max_offset, max_offset, 0)
        return LightEnds(oldest.queue_offset, max_offset, newest.store_ms)

    def entries(self, parent: str, lite: str, offset: int, count: int) -> list[LightEntry]:
        """Return where up to ``count`` messages from ``offset`` on are, in order. Raises StoreError, OSError."""
        return self._lights.entries(parent, lite, offset, count, self._log.min_offset)

    def offset_at(self, parent: str, lite: str, store_ms: int) -> int:
        """Return the offset of the first message that was stored at this time or later; the end without one.

        Raises StoreError, OSError.
        """
        begin = self._log.min_offset
        found = self._lights.first_where(parent, lite, begin, lambda entry: entry.store_ms >= store_ms)
        return self._lights.max_offset(parent, lite) if found is None else found.queue_offset

    def offset_from(self, parent: str, lite: str, physical_offset: int) -> int:
        """Return the offset of the first message from this physical offset on; the end without one.

        Raises StoreError, OSError.
        """
        begin = max(physical_offset, self._log.min_offset)
        found = self._lights.oldest(parent, lite, begin)
        return self._lights.max_offset(parent, lite) if found is None else found.queue_offset

    def first_since(self, store_ms: int) -> tuple[int, int]:
        """Return the number of the first entry that was stored at this time or later, and its record's physical offset.

        Raises StoreError, OSError.
        """
        return self._lights.first_since(store_ms)

    def is_older(self, parent: str, lite: str, number: int) -> bool:
        """Return True for a lite topic whose messages all come before entry ``number``."""
        return self._lights.is_older(parent, lite, number)

    def expire(self, parent: str, lite: str, number: int) -> bool:
        """Forget a lite topic if :meth:`is_older`. A start that lacks the newest table of names knows it again."""
        return self._lights.expire(parent, lite, number)

    def names_of(self, parent: str) -> list[str]:
        """Return the names of a topic's lite topics."""
        return self._lights.names_of(parent)

    def listen(self, on_published: OnPublished) -> None:
        """Have ``on_published`` called with the messages of lite topics of each commit, once they are visible."""
        self._lights.on_published = on_published
