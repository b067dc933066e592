"""TimerLog: the append-only list of timer units in segments ``timerlog/<position>``. Java: TimerLog.

Each unit names the unit before it in the same slot of the wheel, so a slot is a chain that is read backwards.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pymq.store.disk.fs import File, Files, make_directory

# size, previous position, magic, write time, delay, physical offset, record size, topic hash, due after
UNIT: Final = struct.Struct(">iqiqiqiiq")
UNIT_BYTES: Final = UNIT.size
LINK: Final = struct.Struct(">iq")  # size, previous position
PACKED_FIELDS: Final = struct.Struct(">iqiqiiq")  # what follows them
BLANK: Final = struct.Struct(">iqi")  # rest of the segment, 0, magic
_BLANK_MAGIC: Final = 0xBBCCDDEE ^ (1880681586 + 8)
BLANK_MAGIC: Final = _BLANK_MAGIC - (1 << 32) if _BLANK_MAGIC >= 1 << 31 else _BLANK_MAGIC
NO_POSITION: Final = -1
MAGIC_DEFAULT, MAGIC_ROLL, MAGIC_DELETE = 1, 2, 4
_MAGIC_MAX: Final = 0xF
_READ_UNITS: Final = 1024  # of one read while walking a chain or the log


class TimerUnit(NamedTuple):
    """One unit. ``due_after_ms``: how long after its slot's begin it is due; RocketMQ writes 0, which is the end."""

    previous: int
    magic: int
    write_ms: int
    delay_ms: int
    physical_offset: int
    size_bytes: int
    topic_hash: int
    due_after_ms: int

    @property
    def slot_ms(self) -> int:
        """The slot's begin (Unix ms)."""
        return self.write_ms + self.delay_ms


# A unit without what links it to others: its slot (Unix ms), what it adds to the slot's messages (-1: it takes one
# back), and its fields from the magic on.
PackedUnit = tuple[int, int, bytes]


def pack_unit(unit: TimerUnit) -> PackedUnit:
    """Return a unit packed, without its previous position."""
    return unit.slot_ms, -1 if unit.magic & MAGIC_DELETE else 1, PACKED_FIELDS.pack(*unit[1:])


def unpack_unit(packed: PackedUnit) -> TimerUnit:
    """Return a packed unit, without a previous position."""
    return TimerUnit(NO_POSITION, *PACKED_FIELDS.unpack(packed[2]))


class TimerLog:
    """Positions count on from segment to segment. Segments have their full size from the start, filled with zeros."""

    def __init__(self, files: Files, directory: str, segment_bytes: int) -> None:
        assert segment_bytes >= UNIT_BYTES + BLANK.size
        self._files = files
        self._directory = directory
        self.segment_bytes = segment_bytes
        self._open: dict[int, File] = {}
        self._starts: list[int] = []
        self._window = (0, b"")
        self.end = 0
        self.synced_end = 0

    def load(self, durable_end: int, physical_end: int) -> None:
        """Open the segments. Units are taken from ``durable_end`` on for as long as they are whole and of a record
        below ``physical_end``, the commit log's end: a power loss may keep a unit and take its record.

        What follows the last such unit is set to zero: an older crash's units must not be met again. Raises OSError.
        """
        names = [name for name in self._files.listdir(self._directory) if len(name) == 20 and name.isdigit()]
        self._starts = sorted(map(int, names))
        self._fit_sizes()
        contiguous = len(self._starts)
        for number in range(1, len(self._starts)):
            if self._starts[number] != self._starts[number - 1] + self.segment_bytes:
                contiguous = number
                break
        self._drop_segments(self._starts[contiguous:])
        begin = self.begin
        self.end = min(max(durable_end, begin), self._starts[-1] + self.segment_bytes) if self._starts else 0
        self.synced_end = self.end
        for position, unit in self.units(self.end, whole=True):
            if unit.physical_offset + unit.size_bytes > physical_end:
                break
            self.end = position + UNIT_BYTES
        self._clear_behind_end()

    @property
    def begin(self) -> int:
        """The position of the oldest unit that is kept."""
        return self._starts[0] if self._starts else 0

    def append(self, units: Sequence[bytes]) -> None:
        """Write units as they stand in the log. One may name as its previous one the position that an earlier one gets.

        Raises OSError; then none counts.
        """
        end, done = self.end, 0
        while done < len(units):
            fitting = self._fitting_count(end)
            if not fitting:
                end = self._close_segment(end)
                continue
            some = b"".join(units[done : done + fitting])
            self._write(end, some)
            done += fitting
            end += len(some)
        self.end = end

    def next_positions(self, count: int) -> list[int]:
        """Return where :meth:`append` puts the next ``count`` units."""
        positions: list[int] = []
        end = self.end
        while len(positions) < count:
            fitting = min(self._fitting_count(end), count - len(positions))
            positions += range(end, end + fitting * UNIT_BYTES, UNIT_BYTES)
            end = self._segment_of(end) + self.segment_bytes
        return positions

    def _fitting_count(self, end: int) -> int:
        """Return how many units fit into the segment behind ``end``, with a blank behind them."""
        return max(self._room(end) - BLANK.size, 0) // UNIT_BYTES

    def unit(self, position: int) -> TimerUnit | None:
        """Return the unit at a position, None when none is kept there. Raises OSError."""
        if not self.begin <= position <= self.end - UNIT_BYTES:
            return None
        start, data = self._window
        if not start <= position <= start + len(data) - UNIT_BYTES:
            segment = self._segment_of(position)
            # Chains are walked backwards: what lies before the unit is asked for next.
            start = max(segment, position - (_READ_UNITS - 1) * UNIT_BYTES)
            data = self._file(segment).pread(start - segment, position + UNIT_BYTES - start)
            self._window = (start, data)
        size, *fields = UNIT.unpack_from(data, position - start)
        return TimerUnit(*fields) if size == UNIT_BYTES else None

    def units(self, position: int, *, whole: bool = False) -> Iterator[tuple[int, TimerUnit]]:
        """Yield (position, unit) from a position on, to the end, or with ``whole`` to the last whole unit."""
        for start in self._starts:
            if start + self.segment_bytes <= position:
                continue
            at = max(position - start, 0)
            while start + at < self.end or whole:
                piece = self._file(start).pread(at, min(_READ_UNITS * UNIT_BYTES, self.segment_bytes - at))
                known = len(piece) // UNIT_BYTES
                for number in range(known):
                    size, *fields = UNIT.unpack_from(piece, number * UNIT_BYTES)
                    unit = TimerUnit(*fields)
                    if size != UNIT_BYTES or not 0 < unit.magic <= _MAGIC_MAX or (not whole and start + at >= self.end):
                        known = -1
                        break
                    yield start + at, unit
                    at += UNIT_BYTES
                if known <= 0:
                    break
            if not self._is_closed(start, at):
                return

    def sync(self) -> int:
        """Bring what was written to the disk; return where that ends. Safe from another thread. Raises OSError."""
        end = self.end
        for start in [start for start in list(self._starts) if start + self.segment_bytes > self.synced_end]:
            self._file(start).sync()
        self.synced_end = end
        return end

    def drop_before(self, physical_min_offset: int) -> int:
        """Remove the oldest segments whose units all refer to records below an offset; returns how many."""
        doomed = []
        for start in self._starts[:-1]:
            last = self._last_unit(start)
            if last is None or last.physical_offset >= physical_min_offset:
                break
            doomed.append(start)
        self._drop_segments(doomed)
        return len(doomed)

    def clear(self) -> None:
        """Remove everything: positions begin at 0 again."""
        self._drop_segments(list(self._starts))
        self.end = self.synced_end = 0

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _last_unit(self, start: int) -> TimerUnit | None:
        usable = self.segment_bytes - BLANK.size
        return self.unit(start + usable // UNIT_BYTES * UNIT_BYTES - UNIT_BYTES)

    def _is_closed(self, start: int, at: int) -> bool:
        if at + BLANK.size > self.segment_bytes:
            return True
        _, _, magic = BLANK.unpack(self._file(start).pread(at, BLANK.size))
        return bool(magic == BLANK_MAGIC)

    def _fit_sizes(self) -> None:
        """Take the first segment's size, and give it to those that a crash left without it."""
        while self._starts and self._file(self._starts[0]).size() <= UNIT_BYTES + BLANK.size:
            self._drop_segments(self._starts[:1])
        for start in self._starts:
            file = self._file(start)
            if start == self._starts[0]:
                self.segment_bytes = file.size()
            elif file.size() < self.segment_bytes:
                file.truncate(self.segment_bytes)

    def _clear_behind_end(self) -> None:
        if not self._starts:
            return
        last = self._segment_of(self.end) if self.end > self.begin else self._starts[0]
        self._drop_segments([start for start in self._starts if start > last])
        if last in self._starts:
            file = self._file(last)
            if file.next_data(self.end - last) is not None:
                file.truncate(self.end - last)
                file.truncate(self.segment_bytes)

    def _segment_of(self, position: int) -> int:
        return position // self.segment_bytes * self.segment_bytes

    def _room(self, end: int) -> int:
        return self.segment_bytes - end % self.segment_bytes

    def _close_segment(self, end: int) -> int:
        room = self._room(end)
        if room < self.segment_bytes:
            self._write(end, BLANK.pack(room, 0, BLANK_MAGIC))
            end += room
        return end

    def _write(self, at: int, data: bytes | bytearray) -> None:
        if not data:
            return
        self._window = (0, b"")
        segment = self._segment_of(at)
        if segment not in self._starts:
            make_directory(self._files, self._directory)
            self._files.open(self._path(segment), create=True, size=self.segment_bytes).close()
            self._files.sync_dir(self._directory)
            self._starts.append(segment)
        self._file(segment).pwrite(at - segment, data)

    def _file(self, start: int) -> File:
        file = self._open.get(start)
        if file is None:
            file = self._open[start] = self._files.open(self._path(start))
        return file

    def _drop_segments(self, starts: list[int]) -> None:
        self._window = (0, b"")
        for start in starts:
            file = self._open.pop(start, None)
            if file is not None:
                file.close()
            self._starts.remove(start)
            self._files.remove(self._path(start))

    def _path(self, start: int) -> str:
        return f"{self._directory}/{start:020d}"
