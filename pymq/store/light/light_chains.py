"""LightChains: looks into the chains of entries that light queues are (:mod:`pymq.store.light.entry_files`)."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from pymq.errors import StoreError
from pymq.store.light.entry_files import FAR_RANKS, NO_ENTRY, EntryFiles, LightEntry


class LightChains:
    """The reading half of :class:`~pymq.store.light.light_queues.LightQueues`. It changes nothing."""

    def __init__(self, entries: EntryFiles, deleted_end: Callable[[str], int]) -> None:
        """``deleted_end``: records of a topic below this physical offset are deleted."""
        self._entries = entries
        self._deleted_end = deleted_end
        self._numbers: dict[str, dict[str, int]] = {}  # by parent and lite topic
        self._newest = array("q")  # by number: the newest entry
        self.covered = 0  # records below this physical offset have their entries

    def _note_damage(self, text: str) -> None:
        """Take note of an entry that can't be read."""

    def newest(self, parent: str, lite: str) -> LightEntry | None:
        """Return the newest entry of a lite topic; None without one. Raises StoreError, OSError."""
        queue = self._numbers.get(parent, {}).get(lite)
        return None if queue is None else self._find(self._newest[queue])

    def oldest(self, parent: str, lite: str, log_begin: int) -> LightEntry | None:
        """Return the oldest entry whose record is still there; None without one. Raises StoreError, OSError."""
        return self.first_where(parent, lite, log_begin, lambda entry: True)

    def first_where(
        self, parent: str, lite: str, log_begin: int, is_wanted: Callable[[LightEntry], bool]
    ) -> LightEntry | None:
        """Return the first entry that ``is_wanted``, which must hold for all entries behind it; None without one.

        Raises StoreError, OSError.
        """
        low = max(log_begin, self._deleted_end(parent))
        entry = self.newest(parent, lite)
        if entry is None or entry.physical_offset < low or not is_wanted(entry):
            return None
        return self._first_where(entry, lambda earlier: earlier.physical_offset >= low and is_wanted(earlier))

    def entries(self, parent: str, lite: str, offset: int, count: int, log_begin: int) -> list[LightEntry]:
        """Return up to ``count`` entries from ``offset`` on, in order. Raises StoreError, OSError."""
        newest = self.newest(parent, lite)
        if newest is None or newest.queue_offset < offset or count < 1:
            return []
        low = max(log_begin, self._deleted_end(parent))
        last = newest
        if newest.queue_offset - offset >= count:
            first = self.first_where(parent, lite, log_begin, lambda entry: entry.queue_offset >= offset)
            if first is None:
                return []
            rank = first.rank + count - 1
            if rank < newest.rank:
                last = self._first_where(newest, lambda entry: entry.rank >= rank)
        found = []
        each: LightEntry | None = last
        while each is not None and each.physical_offset >= low and each.queue_offset >= offset:
            found.append(each)
            each = self._find(each.previous) if each.rank else None
        return found[::-1]

    def _first_where(self, entry: LightEntry, is_wanted: Callable[[LightEntry], bool]) -> LightEntry:
        """Go back in the chain from ``entry`` as long as earlier entries are wanted."""
        while entry.rank:
            for number in (entry.far, entry.previous):
                earlier = self._find(number)
                if earlier is not None and is_wanted(earlier):
                    entry = earlier
                    break
            else:
                break
        return entry

    def first_since(self, store_ms: int) -> tuple[int, int]:
        """Return the number of the first entry that was stored at this time or later, and its record's physical offset.

        Raises StoreError, OSError.
        """
        number = self._first_number(lambda entry: entry.store_ms >= store_ms)
        entry = self._find(number) if number < self._entries.end else None
        return number, self.covered if entry is None else entry.physical_offset

    def _first_from(self, physical_offset: int) -> int:
        """Return the number of the first entry of a record from this physical offset on. Raises StoreError, OSError."""
        return self._first_number(lambda entry: entry.physical_offset >= physical_offset)

    def _first_number(self, is_wanted: Callable[[LightEntry], bool]) -> int:
        """Return the number of the first entry that ``is_wanted``, as all behind it are. Raises StoreError, OSError."""
        low, high = self._entries.begin, self._entries.end
        while low < high:
            middle = (low + high) // 2
            entry = self._find(middle)
            if entry is None or not is_wanted(entry):
                low = middle + 1
            else:
                high = middle
        return low

    def _far_from(self, number: int) -> tuple[int, int]:
        """Return the far entry, and its rank, of an entry behind entry ``number``. Raises StoreError, OSError."""
        before = self._find(number)
        while before is not None and before.rank % FAR_RANKS:
            number = before.previous
            before = self._find(number)
        if before is None:
            return NO_ENTRY, 0
        beyond = self._find(before.far)
        if beyond is not None and before.rank - before.far_rank == before.far_rank - beyond.far_rank:
            return beyond.far, beyond.far_rank
        return number, before.rank

    def _find(self, number: int) -> LightEntry | None:
        """Return an entry; None for one that is gone. Raises StoreError for a damaged one, OSError."""
        try:
            return self._entries.find(number)
        except (StoreError, OSError) as error:
            self._note_damage(str(error))
            raise
