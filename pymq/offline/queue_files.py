"""Reads one consume queue's files as units. A file's size is its own length."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.model.layout import BLANK_UNIT_SIZE, PLACEHOLDER_CODE, UNIT, UNIT_SIZE_BYTES
from pymq.store.disk.fs import File, Files

_CHUNK_BYTES = 1 << 20
_SEARCH_COUNT = 4096


@dataclass(slots=True)
class _QueueFile:
    path: str
    first: int  # offset of its first unit
    count: int  # units it has room for


class QueueFilesReader:
    """Units ``base`` to ``end`` (exclusive): from the oldest file's first unit to the last that is not all zeros."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        queue_id: int,
        file_size_bytes: int | None = None,
        unit_size_bytes: int = UNIT_SIZE_BYTES,
    ) -> None:
        """``file_size_bytes``: the size that files should have, None for each its own."""
        self.unit_size_bytes = unit_size_bytes
        self._wanted_bytes = file_size_bytes
        self.has_gap = False  # a file is missing, short, or has a wrong name
        self._run_at = 0  # the first file behind the last gap
        self._files = files
        self.directory = directory
        self.topic = topic
        self.queue_id = queue_id
        self.odd: list[tuple[str, str]] = []
        self._list: list[_QueueFile] = []
        self._open: tuple[str, File] | None = None
        names = [name for name in files.listdir(directory) if len(name) == 20 and name.isdigit()]
        for name in names:
            self._add(f"{directory}/{name}", int(name), is_newest=name == names[-1])
        self.base = self._list[0].first if self._list else 0
        self.end = self._find_end()

    @property
    def file_count(self) -> int:
        return len(self._list)

    @property
    def file_size_bytes(self) -> int:
        return self._list[0].count * self.unit_size_bytes if self._list else 0

    def _add(self, path: str, start: int, *, is_newest: bool) -> None:
        file = self._files.open(path)
        size = file.size()
        file.close()
        wanted = self._wanted_bytes
        if wanted is not None and size != wanted and not (is_newest and not size):
            if not size % self.unit_size_bytes:
                self.odd.append((path, f"has {size} bytes, a file of a queue has {wanted} here"))
            self.has_gap = self.has_gap or size < wanted
        if wanted is not None and start % wanted:
            self.has_gap = True
        if start % self.unit_size_bytes or size % self.unit_size_bytes:
            self.odd.append(
                (path, f"starts at byte {start} and has {size} bytes: not whole units of {self.unit_size_bytes}")
            )
        one = _QueueFile(path, start // self.unit_size_bytes, (wanted or size) // self.unit_size_bytes)
        before = self._list[-1] if self._list else None
        if before is not None and before.first + before.count != one.first:
            self._run_at = len(self._list)
            self.odd.append(
                (path, f"begins with unit {one.first}, but the file before it ends at {before.first + before.count}")
            )
        self._list.append(one)

    def _find_end(self) -> int:
        for one in reversed(self._list):
            last = self._last_nonzero(one)
            if last is not None:
                return one.first + last + 1
        return self.base

    def _last_nonzero(self, one: _QueueFile) -> int | None:
        file = self._file(one.path)
        at = file.next_data(0)
        last = None
        while at is not None and at < one.count * self.unit_size_bytes:
            at -= at % self.unit_size_bytes
            chunk = file.pread(at, _CHUNK_BYTES // self.unit_size_bytes * self.unit_size_bytes)
            kept = len(chunk.rstrip(b"\0"))
            if kept:
                last = (at + kept - 1) // self.unit_size_bytes
            at = file.next_data(at + len(chunk)) if chunk else None
        return last

    def _file(self, path: str) -> File:
        if self._open is None or self._open[0] != path:
            self.close()
            self._open = path, self._files.open(path)
        return self._open[1]

    def read(self, offset: int, count: int) -> bytes:
        """Return ``count`` units from ``offset`` on; zeros where there is no file."""
        parts = []
        while count > 0:
            one = next((f for f in self._list if f.first <= offset < f.first + f.count), None)
            if one is None:
                after = min((f.first for f in self._list if f.first > offset), default=offset + count)
                taken = min(count, after - offset)
                parts.append(bytes(taken * self.unit_size_bytes))
            else:
                taken = min(count, one.first + one.count - offset)
                size = taken * self.unit_size_bytes
                found = self._file(one.path).pread((offset - one.first) * self.unit_size_bytes, size)
                parts.append(found.ljust(size, b"\0"))
            offset += taken
            count -= taken
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def unit(self, offset: int) -> tuple[int, int, int]:
        """Return (physical offset, size, tags code); zeros where there is no unit."""
        raw = self.read(offset, 1)
        return UNIT.unpack_from(raw) if len(raw) == self.unit_size_bytes else (0, 0, 0)

    def end_gap(self, log_start: int) -> None:
        """Leave out files before a gap when the file behind it begins below ``log_start``: their deletion did not end.

        Otherwise a file is missing.
        """
        if self._run_at and not self.has_gap:
            rest = self._list[self._run_at :]
            physical_offset, size, _ = self.unit(rest[0].first)
            if size > 0 and 0 <= physical_offset < log_start:
                self._list, self.odd, self._run_at = rest, [], 0
                self.base = rest[0].first
            else:
                self.has_gap = True

    def samples(self) -> list[list[int]]:
        """Return the first, a middle and the last queue offset of each file's units."""
        found = []
        for one in self._list:
            end = min(one.first + one.count, self.end)
            if one.first < end:
                found.append(sorted({one.first, (one.first + end) // 2, end - 1}))
        return found

    def place(self, offset: int) -> tuple[str, int | None]:
        """Return (path, position) of a unit, or the directory where there is no file."""
        for one in self._list:
            if one.first <= offset < one.first + one.count:
                return one.path, (offset - one.first) * self.unit_size_bytes
        return self.directory, None

    def first_in_log(self, log_start: int, after: int = -1) -> int:
        """Return the first unit that stands for a record at or above ``log_start``; :attr:`end` when there is none.

        Units up to ``after`` don't count.
        """
        for offset in range(max(self.base, after + 1), self.end, _SEARCH_COUNT):
            units = self.read(offset, min(_SEARCH_COUNT, self.end - offset))
            for at in range(len(units) // self.unit_size_bytes):
                physical_offset, size, _ = UNIT.unpack_from(units, at * self.unit_size_bytes)
                if physical_offset >= log_start and 0 < size < BLANK_UNIT_SIZE:
                    return offset + at
        return self.end

    def is_before_log(self, offset: int, log_start: int) -> bool:
        """True when the first unit from ``offset`` on that stands for a record leads below ``log_start``."""
        for at in range(offset, self.end):
            physical_offset, size, _ = self.unit(at)
            if 0 < size < BLANK_UNIT_SIZE:
                return 0 <= physical_offset < log_start
        return False

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


def is_blank(size: int, tags_code: int) -> bool:
    """True for a unit that stands for no record."""
    return size == BLANK_UNIT_SIZE or tags_code == PLACEHOLDER_CODE
