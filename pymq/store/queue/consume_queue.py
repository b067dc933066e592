"""ConsumeQueue: one queue of one topic, made of units of 20 bytes that point into the commit log.

The log is the truth, and recovery makes units again from it. So a send writes nothing here: new units wait in a tail in
memory and reach the queue's files in bulk. Readers see files and tail as one.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import ClassVar
from zlib import crc32

from pymq.model.layout import (
    BLANK_UNIT,
    BLANK_UNIT_SIZE,
    I16,
    I64,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_OVERHEAD_BYTES,
    TOPIC_LENGTH_BYTES,
    TOPIC_V1_SIZE_MAX_BYTES,
    UNIT,
    UNIT_SIZE_BYTES,
)
from pymq.store.disk.fs import Begin, File
from pymq.store.log.log_record import Scanned
from pymq.store.log.zeroing import zero_from
from pymq.store.queue.queue_files import QueueFiles
from pymq.store.queue.unit_sums import UnitSums

_FIRST_FILE = f"/{0:020d}"
_BLANK_UNITS_READ = 1024  # units read at a time while skipping blank units


@lru_cache(maxsize=64)  # a topic's queues are made one after the other, and share these objects
def _of_topic(topic: str) -> tuple[bytes, int, int]:
    """Return the bytes between a record's body and its properties' length, the record's magic and its overhead."""
    raw = topic.encode()
    is_long = len(raw) > TOPIC_V1_SIZE_MAX_BYTES
    part = (I16.pack(len(raw)) if is_long else bytes((len(raw),))) + raw
    return part, MAGIC_V2 if is_long else MAGIC_V1, RECORD_OVERHEAD_BYTES - TOPIC_LENGTH_BYTES + len(part)


class ConsumeQueue:
    """Units ``min_offset`` to ``max_offset`` (exclusive). Offsets count units; files are named by bytes.

    :class:`~pymq.store.queue.batch_queue.BatchUnits` is the kind with larger units.
    """

    unit_size_bytes: ClassVar[int] = UNIT_SIZE_BYTES
    holds_batches: ClassVar[bool] = False  # see pymq.store.queue.batch_queue.BatchQueue

    __slots__ = (
        "_files",
        "_units_per_file",
        "base_offset",
        "base_place",
        "directory",
        "known_end",
        "last_physical_offset",
        "magic",
        "max_offset",
        "min_offset",
        "next_offset",
        "oldest_offset",
        "overhead_bytes",
        "queue_id",
        "raised_to",
        "staged",
        "sums",
        "tail",
        "tail_offset",
        "topic",
        "topic_part",
    )

    def __init__(self, files: QueueFiles, topic: str, queue_id: int) -> None:
        self._files = files
        self._units_per_file = files.file_size_bytes // self.unit_size_bytes
        self.topic = topic
        self.queue_id = queue_id
        self.directory = files.directory(topic, queue_id)
        self.topic_part, self.magic, self.overhead_bytes = _of_topic(topic)
        self.base_offset = 0  # first unit of the oldest file
        self.base_place = -1  # where a start saw the first unit point, when its sum proved it
        self.oldest_offset = 0  # no file begins below, not even one that a lost file makes unreachable
        self.min_offset = 0
        self.raised_to = -1  # the log's minimum that min_offset was raised to; -1: it has to be found again
        self.max_offset = 0  # the end of the visible units
        self.next_offset = 0  # the end of all units, staged and unconfirmed ones too
        self.last_physical_offset = -1  # of the newest unit
        self.staged: list[bytes] = []  # units of the running commit
        self.tail = bytearray()  # visible units not yet in a file
        self.tail_offset = 0
        self.sums = UnitSums(files.blocks)  # of the units in files
        self.known_end = 0  # lower offsets were given to messages, whatever is left of the files

    # -- appending ----------------------------------------------------------------------------------------------

    def take_staged(self) -> bytes:
        """Return the staged units, whose records are in the log now; :meth:`publish` makes them visible."""
        units = self.staged[0] if len(self.staged) == 1 else b"".join(self.staged)
        self.staged = []
        return units

    def publish(self, units: bytes) -> None:
        """Make units visible, in the order they were taken."""
        self.tail += units
        self.max_offset += len(units) // self.unit_size_bytes
        self.last_physical_offset = I64.unpack_from(units, len(units) - self.unit_size_bytes)[0]

    @staticmethod
    def listed(units: bytes) -> bytes:
        """The units as they are: one for each message."""
        return units

    def drop_staged(self) -> None:
        # Not simply max_offset: units that were taken and wait to be published keep their offsets.
        self.next_offset -= sum(map(len, self.staged)) // self.unit_size_bytes
        self.staged = []

    def append(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Add one visible unit at the end, for recovery and followers."""
        self.tail += UNIT.pack(physical_offset, size, tags_code)
        self.max_offset += 1
        self.next_offset = self.max_offset
        self.last_physical_offset = physical_offset

    def append_record(self, record: Scanned, tags_code: int) -> None:
        """Do as :meth:`append` for a record of the log."""
        self.append(record.offset, record.size, tags_code)

    @staticmethod
    def packed_unit(record: Scanned, tags_code: int) -> bytes:
        """The unit that leads to a record."""
        return UNIT.pack(record.offset, record.size, tags_code)

    def append_units(self, units: bytes) -> None:
        """Do as :meth:`append` for packed units."""
        self.publish(units)
        self.next_offset = self.max_offset

    def start_at(self, offset: int) -> None:
        """Let an empty queue begin at ``offset``: the units before it in its file become blank units.

        At a file's begin another file of blank units comes before it. So a queue whose oldest file begins with the unit
        of a record that is still in the log has lost a file.
        """
        assert self.min_offset == self.max_offset and not self.tail
        self.base_offset = max(offset - 1, 0) // self._units_per_file * self._units_per_file
        self.tail_offset = self.base_offset
        self.tail += BLANK_UNIT * (offset - self.base_offset)
        self.min_offset = self.max_offset = self.next_offset = offset
        self.raised_to = -1

    def skip_to(self, offset: int) -> None:
        """Add blank units up to ``offset``, for records that are lost: later units keep their offsets."""
        self.tail += BLANK_UNIT * (offset - self.max_offset)
        self.max_offset = self.next_offset = offset
        self.raised_to = -1

    def write_tail(self) -> None:
        """Move the tail into the files. Raises OSError; then the tail keeps what was not written."""
        tail = self.tail
        while tail:
            path, at = self._place(self.tail_offset)
            size = min(len(tail), self._files.file_size_bytes - at)
            try:
                self._files.get(path, create=True, is_new=not at).pwrite(at, bytes(tail[:size]))
            except OSError as error:
                error.filename = error.filename or path
                raise
            self._files.unsynced.add(path)
            self.sums.extend(self.tail_offset, tail[:size])
            del tail[:size]
            self.tail_offset += size // self.unit_size_bytes

    def _place(self, offset: int) -> tuple[str, int]:
        at = offset * self.unit_size_bytes
        start = at - at % self._files.file_size_bytes
        return f"{self.directory}/{start:020d}", at - start

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, offset: int, count: int) -> bytes | bytearray:
        """Visible units from ``offset`` on: at most ``count``, at most to the end of one file."""
        end = min(offset + count, self.max_offset)
        if offset >= end:
            return b""
        in_tail = offset - self.tail_offset
        if in_tail >= 0:
            return self.tail[in_tail * self.unit_size_bytes : (end - self.tail_offset) * self.unit_size_bytes]
        path, at = self._place(offset)
        size = min((min(end, self.tail_offset) - offset) * self.unit_size_bytes, self._files.file_size_bytes - at)
        if self._files.guard is not None:
            self._check(offset, offset + size // self.unit_size_bytes)
        try:
            units = self._files.get(path).pread(at, size)
        except FileNotFoundError:
            return b""
        if end > self.tail_offset and len(units) == size and at + size < self._files.file_size_bytes:
            units += self.tail[: (end - self.tail_offset) * self.unit_size_bytes]
        return units

    def _check(self, first: int, end: int) -> None:
        """Compare the blocks of a range of one file with their sums. A block that differs is mended from the log.

        Raises UnreadableError while that is not done, OSError.
        """
        sums = self.sums
        for block in range(sums.blocks.at(first), sums.blocks.at(end - 1) + 1):
            if not sums.is_checked(block):
                start, stop = sums.blocks.bounds(block)
                self._check_block(block, start, min(stop, self.tail_offset))

    def _check_block(self, block: int, start: int, end: int) -> None:
        sums, guard = self.sums, self._files.guard
        assert guard is not None
        units, wanted = self.stored(start, end), sums.of(block, start, end)
        if wanted is None or crc32(units) != wanted:
            guard.mend(self, start, end)
            units = self.stored(start, end)
        sums.note_checked(block, start, end, crc32(units))

    def stored(self, start: int, end: int) -> bytes:
        """The units of a range of one file as they are, unchecked; zeros where the file is short or missing."""
        path, at = self._place(start)
        size = (end - start) * self.unit_size_bytes
        try:
            return self._files.get(path).pread(at, size).ljust(size, b"\0")
        except FileNotFoundError:
            return bytes(size)

    def overwrite(self, start: int, units: bytes | bytearray) -> None:
        """Replace units that are in files. Raises OSError."""
        at = 0
        while at < len(units):
            path, position = self._place(start + at // self.unit_size_bytes)
            size = min(len(units) - at, self._files.file_size_bytes - position)
            self._files.get(path, create=True).pwrite(position, bytes(units[at : at + size]))
            self._files.unsynced.add(path)
            at += size

    def unit(self, offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tags code) of one unit; (-1, 0, 0) when there is none."""
        raw = self.read(offset, 1)
        return UNIT.unpack_from(raw) if len(raw) == self.unit_size_bytes else (-1, 0, 0)

    def offset_of(self, number: int) -> int:
        """The queue offset of a unit, by its number: the same here, where each message has a unit."""
        return number

    def physical_offset_from(self, offset: int) -> int:
        """Where the first message from ``offset`` on begins in the log; -1 when there is none. Raises OSError."""
        place, size, _ = self.unit(offset)
        if size == BLANK_UNIT_SIZE:
            place, _, _ = self.unit(self.skip_blank_units(offset, self.max_offset))
        return place

    def count_from(self, physical_offset: int) -> int:
        """The number of visible messages whose records begin at ``physical_offset`` of the log or later.

        A binary search over the units; nothing of the log is read. Placeholder units and blank units of lost records
        count as messages. Raises OSError.
        """
        if self.last_physical_offset < physical_offset:
            return 0
        low, high = self.min_offset, self.max_offset
        while low < high:
            middle = (low + high) // 2
            if self.unit(middle)[0] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return self.max_offset - low

    def end_below(self, physical_offset: int) -> int:
        """The end of the units that lead below a physical offset; those that lead elsewhere must be in the tail."""
        if self.last_physical_offset < physical_offset:
            return self.max_offset
        low, high = 0, len(self.tail) // self.unit_size_bytes
        while low < high:
            middle = (low + high) // 2
            if I64.unpack_from(self.tail, middle * self.unit_size_bytes)[0] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return self.tail_offset + low

    @property
    def file_size_bytes(self) -> int:
        return self._files.file_size_bytes

    @property
    def units_per_file(self) -> int:
        return self._units_per_file

    @property
    def units(self) -> ConsumeQueue:
        """What the queue's files hold: itself."""
        return self

    def tail_from(self, offset: int) -> bytes:
        """The units of messages from ``offset`` on that are not yet in a file."""
        return bytes(self.tail[max(offset - self.tail_offset, 0) * self.unit_size_bytes :])

    # -- opening, truncating, cleaning --------------------------------------------------------------------------

    def file_starts(self) -> list[int]:
        """The position of the first byte of every file, oldest first."""
        return [int(name) for name in self._files.files.listdir(self.directory) if len(name) == 20 and name.isdigit()]

    def open_files(self, starts: list[int] | None = None) -> list[int]:
        """Take the files as they are; :attr:`max_offset` becomes the end of the newest one. Returns their starts.

        ``starts``: of all files, when the caller knows them.
        """
        starts = self.file_starts() if starts is None else starts
        if starts:
            self.base_offset = self.min_offset = starts[0] // self.unit_size_bytes
            end = starts[-1] // self.unit_size_bytes + self._units_per_file
            self.max_offset = self.next_offset = self.tail_offset = end
            self.tail.clear()
        return starts

    def file(self, start: int) -> File:
        """The file that begins at a position. Raises FileNotFoundError."""
        return self._files.get(f"{self.directory}/{start:020d}")

    def begin_of_first_file(self, size: int, *, is_alone: bool) -> Begin | None:
        """Return the first ``size`` bytes of the file that begins with offset 0; None without it.

        None also with a second file behind it, unless the caller knows that it ``is_alone``. Raises OSError.
        """
        files = self._files
        if not is_alone and files.files.exists(f"{self.directory}/{files.file_size_bytes:020d}"):
            return None
        try:
            return files.files.begin_of(self.directory + _FIRST_FILE, size)
        except FileNotFoundError:
            return None

    def fit_sizes(self, starts: list[int]) -> list[int]:
        """Give each file the size of a queue file; return the starts of those that were shorter.

        Bytes behind the size are no units.
        """
        short = []
        for start in starts:
            file = self.file(start)
            size = file.size()
            if size != self._files.file_size_bytes:
                if size < self._files.file_size_bytes:
                    short.append(start)
                file.truncate(self._files.file_size_bytes)
                self._files.unsynced.add(f"{self.directory}/{start:020d}")
        return short

    def end_with(self, offset: int, all_starts: list[int]) -> None:
        """Make ``offset`` the queue's end, and drop what lies behind. ``all_starts``: of its files.

        A lost file makes those before it unreachable: the queue begins after it.
        """
        starts = [start for start in all_starts if start < offset * self.unit_size_bytes]
        at = len(starts) - 1
        while at > 0 and starts[at - 1] + self._files.file_size_bytes == starts[at]:
            at -= 1
        self.base_offset = self.min_offset = starts[at] // self.unit_size_bytes if starts else 0
        self.truncate(offset, all_starts)

    def reset(self) -> None:
        """Drop all units. The queue begins at offset 0 again, unless :meth:`start_at` follows."""
        self.truncate(0)
        self.base_offset = self.oldest_offset = self.min_offset = self.known_end = 0

    def set_end(self, offset: int) -> None:
        """Make ``offset`` the end of what is in memory; files stay as they are."""
        self.max_offset = self.next_offset = self.tail_offset = offset
        self.min_offset = min(self.min_offset, offset)
        self.raised_to = -1
        self.tail.clear()
        self.sums.cut(offset)

    def truncate(self, offset: int, starts: list[int] | None = None) -> None:
        """Drop units from ``offset`` on. Their bytes become zeros, so that no stale unit is read later.

        ``starts``: of all files, when the caller knows them.
        """
        self.set_end(offset)
        path, at = self._place(offset)
        for start in reversed(self.file_starts() if starts is None else starts):
            end = offset * self.unit_size_bytes
            if start >= end:
                self._remove(f"{self.directory}/{start:020d}")
            elif start == end - at and zero_from(self._files.get(path), at, self._files.file_size_bytes):
                self._files.unsynced.add(path)
        self.last_physical_offset = self._last_place(offset)

    def _last_place(self, end: int) -> int:
        """Return where the last unit below ``end`` that is not blank points; -1 without one."""
        count = 1  # blank units are rare, and come in long runs
        while end > self.base_offset:
            in_file = (end - 1) % self._units_per_file + 1
            first = max(end - min(count, in_file), self.base_offset)
            units = self.read(first, end - first)
            for at in range(len(units) - self.unit_size_bytes, -1, -self.unit_size_bytes):
                if units[at : at + UNIT_SIZE_BYTES] != BLANK_UNIT:
                    return int(I64.unpack_from(units, at)[0])
            end, count = first, _BLANK_UNITS_READ
        return -1

    def _remove(self, path: str) -> None:
        self._files.forget(path)
        self._files.files.remove(path)
        # A checkpoint must not vouch for a queue whose dropped file a power loss could bring back.
        self._files.unsynced_directories.add(self.directory)

    def find_begin(self, log_min_offset: int) -> None:
        """Find :attr:`min_offset` as if no reader had seen one yet. Units are compared before they are used."""
        if self._is_begin_proven(log_min_offset):
            self.min_offset, self.raised_to = self.base_offset, log_min_offset
            return
        if self.max_offset > self.base_offset:
            self.last_physical_offset = self.unit(self.max_offset - 1)[0]
        self.min_offset, self.raised_to = min(self.base_offset, self.max_offset), -1
        self.raise_min(log_min_offset)

    def _is_begin_proven(self, log_min_offset: int) -> bool:
        """True when the start compared first and last block already, and the first unit's record is in the log."""
        if not log_min_offset <= self.base_place or self.tail or self.base_offset >= self.max_offset:
            return False
        blocks, sums = self.sums.blocks, self.sums
        return sums.is_checked(blocks.at(self.base_offset)) and sums.is_checked(blocks.at(self.max_offset - 1))

    def raise_min(self, log_min_offset: int) -> None:
        """Move :attr:`min_offset` up to the first unit whose record is still in the log, or to the end without one.

        It never moves back. A binary search; a blank unit has no place in the log, so the unit behind it counts.
        Nothing is read when it was raised so far before, as a start does for all queues: later units have later places.
        """
        if log_min_offset <= self.raised_to:
            return
        if self.min_offset < self.max_offset and 0 < self.last_physical_offset < log_min_offset:
            self.min_offset, self.raised_to = self.max_offset, log_min_offset
            return
        low, high = self.min_offset, self.max_offset
        first = high
        while low < high:
            middle = (low + high) // 2
            real = self.skip_blank_units(middle, high)
            if real < high and self.unit(real)[0] < log_min_offset:
                low = real + 1
            else:
                first = real if real < high else first
                high = middle
        self.min_offset, self.raised_to = first, log_min_offset

    def skip_blank_units(self, offset: int, end: int) -> int:
        """Return where the first unit from ``offset`` on is that is not blank; ``end`` if all before it are blank."""
        count = 1  # blank units are rare, and come in long runs
        while offset < end:
            units = self.read(offset, min(count, end - offset))
            if not units:
                return offset  # a file that was deleted by hand
            for at in range(0, len(units), self.unit_size_bytes):
                if units[at : at + UNIT_SIZE_BYTES] != BLANK_UNIT:
                    return offset + at // self.unit_size_bytes
            offset += len(units) // self.unit_size_bytes
            count = _BLANK_UNITS_READ
        return end

    def drop_old_files(self, count_max: int) -> int:
        """Remove at most ``count_max`` leading files whose units lie below :attr:`min_offset`; return their number.

        A file is removed only when the next file, too, begins below the minimum. That file's first unit was on the disk
        before its record was deleted from the log, so the queue's end is known whatever a power loss leaves of the
        newer units.
        """
        if self.min_offset <= self.oldest_offset + self._units_per_file:
            return 0
        starts = self.file_starts()
        removed = 0
        for start, after in pairwise(starts):
            if after // self.unit_size_bytes >= self.min_offset or removed == count_max:
                break
            self._remove(f"{self.directory}/{start:020d}")
            self.base_offset = max(self.base_offset, after // self.unit_size_bytes)
            self.sums.drop_before(self.base_offset)
            removed += 1
        if starts:
            self.oldest_offset = starts[removed] // self.unit_size_bytes
        return removed
