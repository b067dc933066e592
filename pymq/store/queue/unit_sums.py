"""UnitSums: a CRC-32 of every block of units in one queue's files, so that a damaged unit is noticed before it is used.

A unit has no checksum of its own. Its record proves place and size, but a read that leaves out units by their tags code
does not look at the record. So the checksums are made while units are written, kept in one small file for all queues
(:mod:`pymq.store.queue.sums_file`), and compared when a block is used.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple
from zlib import crc32

from pymq.model.layout import UNIT_SIZE_BYTES

BLOCK_UNITS = 250  # divides the 300,000 units of a file of the default size
UNKNOWN = 0  # one block in four billion has this sum: its units are compared with the log instead


class Blocks(NamedTuple):
    """How blocks divide queue files: they are numbered through all files, and the last one of a file may be shorter."""

    units_per_file: int
    blocks_per_file: int
    unit_size_bytes: int = UNIT_SIZE_BYTES

    @classmethod
    def of(cls, file_size_bytes: int, unit_size_bytes: int = UNIT_SIZE_BYTES) -> Blocks:
        units = file_size_bytes // unit_size_bytes
        return cls(units, -(-units // BLOCK_UNITS), unit_size_bytes)

    def at(self, offset: int) -> int:
        """The block of a queue offset."""
        file, place = divmod(offset, self.units_per_file)
        return file * self.blocks_per_file + place // BLOCK_UNITS

    def bounds(self, block: int) -> tuple[int, int]:
        """The first queue offset of a block, and the one behind its last."""
        file, number = divmod(block, self.blocks_per_file)
        start = file * self.units_per_file + number * BLOCK_UNITS
        return start, min(start + BLOCK_UNITS, (file + 1) * self.units_per_file)


class UnitSums:
    """The sums of one queue. ``end`` is the queue offset where the units in files end.

    ``open_sum`` is the sum of the units of the block that ``end`` divides, None when it is not known. ``checked`` holds
    full blocks that were compared, ``checked_end`` the value of ``end`` when the divided one was.
    """

    __slots__ = ("_sums", "blocks", "checked", "checked_end", "end", "first", "open_sum")

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self._sums = array("I")
        self.first = 0  # the block of the first sum
        self.end = 0
        self.open_sum: int | None = 0
        self.checked: set[int] = set()
        self.checked_end = 0

    def load(self, first: int, sums: array[int], end: int, open_sum: int | None) -> None:
        """Take over what was saved."""
        self.first, self._sums, self.end, self.open_sum = first, sums, end, open_sum

    def saved(self) -> tuple[int, bytes, int, int | None]:
        """What :meth:`load` takes, the sums packed."""
        return self.first, self._sums.tobytes(), self.end, self.open_sum

    @property
    def count(self) -> int:
        return len(self._sums)

    def extend(self, offset: int, units: bytes | bytearray) -> None:
        """Note units that were written behind all others, from queue offset ``offset`` on."""
        if offset != self.end:
            self.cut(offset)
        at, unit_size = 0, self.blocks.unit_size_bytes
        while at < len(units):
            block = self.blocks.at(self.end)
            start, stop = self.blocks.bounds(block)
            size = min(len(units) - at, (stop - self.end) * unit_size)
            if self.end == start:
                self.open_sum = 0
            if self.open_sum is not None:
                self.open_sum = crc32(units[at : at + size], self.open_sum)
            self.end += size // unit_size
            at += size
            if self.end == stop:
                self.put(block, UNKNOWN if self.open_sum is None else self.open_sum)
                self.open_sum = 0

    def put(self, block: int, value: int) -> None:
        """Set the sum of a full block."""
        if not self._sums:
            self.first = block
        if block < self.first:
            self._sums = array("I", bytes(4 * (self.first - block))) + self._sums
            self.first = block
        missing = block - self.first - len(self._sums) + 1
        if missing > 0:
            self._sums.frombytes(bytes(4 * missing))
        self._sums[block - self.first] = value

    def of(self, block: int, start: int, end: int) -> int | None:
        """The sum of the units from ``start``, a block's begin, to ``end``; None when it is not known."""
        if end == self.blocks.bounds(block)[1]:
            number = block - self.first
            value = self._sums[number] if 0 <= number < len(self._sums) else UNKNOWN
            return None if value == UNKNOWN else value
        return self.open_sum if end == self.end and start < end else None

    def note_checked(self, block: int, start: int, end: int, value: int) -> None:
        """The units from ``start`` to ``end`` of the block are as the log says, and have this sum."""
        if end == self.blocks.bounds(block)[1]:
            self.put(block, value)
            self.checked.add(block)
        elif end == self.end:
            self.open_sum, self.checked_end = value, end

    def is_checked(self, block: int) -> bool:
        return block in self.checked or (self.checked_end == self.end and block == self.blocks.at(self.end))

    def distrust(self, offset: int) -> None:
        """Compare the block of a queue offset again at its next use."""
        self.checked.discard(self.blocks.at(offset))
        self.checked_end = 0

    def distrust_all(self) -> None:
        """Compare every block again at its next use."""
        self.checked.clear()
        self.checked_end = 0

    def cut(self, offset: int) -> None:
        """Forget what lies behind a queue offset. It becomes the end."""
        if offset != self.end:
            block = self.blocks.at(offset)
            start, _ = self.blocks.bounds(block)
            del self._sums[max(block - self.first, 0) :]
            self.checked = {number for number in self.checked if number < block}
            self.checked_end = 0
            self.end, self.open_sum = offset, 0 if offset == start else None

    def drop_before(self, offset: int) -> None:
        """Forget the blocks before a queue offset, the begin of a file."""
        gone = min(self.blocks.at(offset) - self.first, len(self._sums))
        if gone > 0:
            del self._sums[:gone]
            self.first += gone
            self.checked = {number for number in self.checked if number >= self.first}
