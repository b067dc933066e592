"""Proves that look-ups reach all entries of an index file that a start found on the disk.

RocketMQ's format has no checksum. But each entry is named exactly once: by its slot, or by the next newer entry of its
chain. So slots and links add up to 1 + 2 + … + n, and an emptied one is missing from the sum. Physical offsets ascend.
Times ascend too unless a clock was set back, so where they don't, entries are compared with their records.

A file is proven once, before the first look-up in it. Its bytes are read in pieces, between which clients are served.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise

from pymq.errors import StoreUnavailableError, UnreadableError
from pymq.model.layout import (
    INDEX_ENTRY,
    INDEX_HEADER_SIZE_BYTES,
    INDEX_SLOT,
    INDEX_SLOT_SIZE_BYTES,
)
from pymq.store.index.index_file import DamagedEntryError, IndexFile

# What one look-up reads at most to prove files: with numpy 0.3 to 0.6 s of CPU time, in slices. Then it is refused, and
# the store's ticks go on.
PROOF_BYTES_MAX = 1 << 30
ENTRIES_A_PIECE = 1 << 13  # 160 KiB: 0.1 ms with numpy, 1 to 2 ms without
SLOTS_A_PIECE = 1 << 14  # 64 KiB
_PLAIN_COUNT_MAX = 1 << 17  # entries that are read in 50 ms without numpy
_TIME_CHECK_COUNT_MAX = 64  # records that the proof of one file reads

Proof = Generator[int, None, None]  # yields how many bytes a piece had
StoreMs = Callable[[int], int]  # the store time of the record at a physical offset in ms, -1 when it can't be read


class Prover:
    """Proves index files for all look-ups together. ``may_use_numpy()``: False while loading it would block."""

    def __init__(self, store_ms: StoreMs, may_use_numpy: Callable[[], bool]) -> None:
        self._store_ms = store_ms
        self._may_use_numpy = may_use_numpy
        self._refused: IndexFile | None = None  # what a look-up was refused for
        self.is_numpy_wanted = False  # a proof takes long without it

    def prove_in_steps(self, file: IndexFile, bytes_max: int) -> Generator[None, None, int]:
        """Prove a file, and return how many of ``bytes_max`` are left. Yields after each piece.

        Raises DamagedEntryError for a file that is not as it was written, StoreUnavailableError when more than
        ``bytes_max`` would be read, UnreadableError when the disk fails.
        """
        while not file.is_proven and not file.is_closed:
            if bytes_max <= 0:
                self._refused = file
                raise StoreUnavailableError(
                    f"the key index was not used since the start, and {file.path} is compared with itself first: try "
                    "again, or look messages up by id"
                )
            bytes_max -= self._prove_some(file)
            yield
        return bytes_max

    def work(self, bytes_max: int) -> None:
        """Go on with the file that the last look-up was refused for. Raises as :meth:`prove_in_steps`."""
        file = self._refused
        while file is not None and bytes_max > 0:
            if file.is_proven or file.is_closed:
                self._refused = file = None
            else:
                bytes_max -= self._prove_some(file)

    def _prove_some(self, file: IndexFile) -> int:
        if file.proof is None:
            file.proof = self._proof(file)
        try:
            return next(file.proof)
        except StopIteration:
            file.is_proven, file.proof = True, None
            return 0
        except (DamagedEntryError, OSError) as error:
            file.proof = self._refused = None  # the next look-up begins it again
            if isinstance(error, OSError):
                raise UnreadableError(
                    f"{file.path} can't be read: {error.strerror} (errno {error.errno}); look messages up by id, and "
                    "check the disk"
                ) from error
            raise

    def _proof(self, file: IndexFile) -> Proof:
        self.is_numpy_wanted |= file.count > _PLAIN_COUNT_MAX and not self._may_use_numpy()
        limit = file.count  # entries that are inserted meanwhile were never on the disk alone
        named = yield from self._named_by_slots(file, limit)
        named += yield from self._named_by_entries(file, limit)
        if named != limit * (limit - 1) // 2:
            raise DamagedEntryError(file, f"slots and links do not name each of {limit - 1} entries once")

    def _named_by_slots(self, file: IndexFile, limit: int) -> Generator[int, None, int]:
        """Return the sum of all slots, as they were before entries from number ``limit`` on were inserted."""
        named, at = 0, 0
        zeros = bytes(SLOTS_A_PIECE * INDEX_SLOT_SIZE_BYTES)
        while at < file.slot_count:
            data_at = file.next_data(INDEX_HEADER_SIZE_BYTES + at * INDEX_SLOT_SIZE_BYTES)
            if data_at is None:
                break
            at = max(at, (data_at - INDEX_HEADER_SIZE_BYTES) // INDEX_SLOT_SIZE_BYTES)
            if at >= file.slot_count:
                break
            raw = file.raw_slots(at, SLOTS_A_PIECE)
            if raw != zeros[: len(raw)]:
                below, later = (_slots if self._may_use_numpy() else _slots_plain)(raw, limit)
                named += below + sum(_named_before(file, number, limit) for number in later)
            at += SLOTS_A_PIECE
            yield len(raw)
        return named

    def _named_by_entries(self, file: IndexFile, limit: int) -> Generator[int, None, int]:
        """Return the sum of the links of all entries below number ``limit``."""
        named, checks_left = 0, _TIME_CHECK_COUNT_MAX
        for first in range(1, limit, ENTRIES_A_PIECE):
            # One more than counts, so that it is compared with its neighbor.
            raw = file.raw_entries(first, min(first + ENTRIES_A_PIECE + 1, limit))
            links, is_ascending, doubts = (_entries if self._may_use_numpy() else _entries_plain)(raw)
            named += links
            if not is_ascending:
                raise DamagedEntryError(file, f"offsets go back among the {ENTRIES_A_PIECE} entries from {first} on")
            for number in doubts[:checks_left]:
                file.check_time(first + number, self._store_ms)
            checks_left -= len(doubts[:checks_left])
            yield len(raw)
        return named


def _named_before(file: IndexFile, number: int, limit: int) -> int:
    """Return what a slot that names ``number`` named before entries from ``limit`` on were inserted."""
    if number >= file.count:
        return 0  # a broker died between the slot and the count
    while number >= limit:
        before = file.entry(number)[3]
        if before >= number:
            return 0
        number = before
    return number


# -- pieces, with and without numpy -----------------------------------------------------------------------------------


def _slots(raw: bytes, limit: int) -> tuple[int, list[int]]:
    """(sum of the slots that name entries below ``limit``, the others)."""
    import numpy as np  # noqa: PLC0415

    from pymq.model.layout_dtypes import INDEX_SLOTS  # noqa: PLC0415 - it needs numpy

    numbers = np.frombuffer(raw, INDEX_SLOTS).astype(np.int64)
    is_later = numbers >= limit
    return int(numbers[~is_later].sum()), numbers[is_later].tolist()


def _slots_plain(raw: bytes, limit: int) -> tuple[int, list[int]]:
    numbers = [number for (number,) in INDEX_SLOT.iter_unpack(raw) if number]
    later = [number for number in numbers if number >= limit]
    return sum(numbers) - sum(later), later


def _entries(raw: bytes) -> tuple[int, bool, list[int]]:
    """(sum of the links, whether physical offsets ascend, numbers of entries whose times do not).

    Of more than a piece the last entry is the next piece's first, and its link counts there.
    """
    import numpy as np  # noqa: PLC0415

    from pymq.model.layout_dtypes import INDEX_ENTRIES  # noqa: PLC0415 - it needs numpy

    entries = np.frombuffer(raw, INDEX_ENTRIES)
    offsets, times_s = entries["offset"].astype(np.int64), entries["diff"].astype(np.int64)
    back = np.flatnonzero(times_s[1:] < times_s[:-1])
    doubts = sorted({*back.tolist(), *(back + 1).tolist()})
    links = int(entries["before"][:ENTRIES_A_PIECE].astype(np.int64).sum())
    return links, bool((offsets[1:] >= offsets[:-1]).all()), doubts


def _entries_plain(raw: bytes) -> tuple[int, bool, list[int]]:
    entries: list[tuple[int, int, int, int]] = list(INDEX_ENTRY.iter_unpack(raw))
    is_ascending = all(one[1] <= other[1] for one, other in pairwise(entries))
    doubts = {number + more for number in _back(entries) for more in (0, 1)}
    return sum(entry[3] for entry in entries[:ENTRIES_A_PIECE]), is_ascending, sorted(doubts)


def _back(entries: list[tuple[int, int, int, int]]) -> Iterator[int]:
    return (number for number, (one, other) in enumerate(pairwise(entries)) if other[2] < one[2])
