"""A commit log's segment files, read in pieces of bounded size. A bad sector is recorded and reads as zeros."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from pymq.errors import NotFoundError, StoreError
from pymq.offline.numbered_files import numbered_files
from pymq.store.disk.fs import Files
from pymq.store.log.cold_file import ColdFile, ColdFiles

SECTOR_BYTES = 4096
SEGMENT_SIZE_BYTES = 1 << 30  # RocketMQ's default
SEGMENT_SIZE_BYTES_MAX = 2**31 - 1  # RocketMQ's mappedFileSizeCommitLog is an int
_SEARCH_BYTES = 1 << 20
EMPTY_LAST_SEGMENT = "is empty: created right before the stop; the next start removes it"


class SegmentBytes(Protocol):
    """The source of a segment's bytes: a file, a compressed file, or a part of a file."""

    def pread(self, at: int, size: int) -> bytes: ...

    def pread_into(self, at: int, room: memoryview) -> int: ...

    def will_read(self, at: int, size: int) -> None: ...

    def next_data(self, at: int) -> int | None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class SegmentFile:
    """One file of the log. ``start`` is the physical offset of its first byte; all segments have the same ``size``."""

    path: str
    start: int
    size: int
    file: SegmentBytes
    unreadable: list[tuple[int, int]] = field(default_factory=list)  # (position, size) of sectors that failed with EIO
    patches: dict[int, int] = field(default_factory=dict)  # position -> bits to flip in the bytes read

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def is_cold(self) -> bool:
        """True when the segment is compressed."""
        return isinstance(self.file, ColdFile)

    def read(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes from position ``at``, fewer only at the segment's end.

        Bytes that can't be read, or that a truncated file lacks, come as zeros.
        """
        size = min(size, self.size - at)
        try:
            raw = self.file.pread(at, size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raw = b"".join(self._sector(start, at, size) for start in _sector_starts(at, size))
        if self.patches:
            raw = self._patched(raw, at)
        return raw if len(raw) == size else raw.ljust(size, b"\0")

    def read_into(self, at: int, room: memoryview) -> None:
        """Read as many bytes as :meth:`read` with the size of ``room``, without a copy where it can be; the rest of
        ``room`` becomes zeros.
        """
        end = 0
        if not self.patches and len(room) <= self.size - at:
            with suppress(OSError):  # the reading by sectors says what it is
                end = self.file.pread_into(at, room)
        if end < len(room):
            raw = self.read(at, len(room))
            room[: len(raw)] = raw
            room[len(raw) :] = bytes(len(room) - len(raw))

    def will_read(self, at: int, size: int) -> None:
        """Say that these bytes are read soon, in pieces: a device then reads them as one."""
        self.file.will_read(at, size)

    def _patched(self, raw: bytes, at: int) -> bytes:
        result = bytearray(raw)
        for position, mask in self.patches.items():
            if at <= position < at + len(raw):
                result[position - at] ^= mask
        return bytes(result)

    def _sector(self, start: int, at: int, size: int) -> bytes:
        begin, end = max(start, at), min(start + SECTOR_BYTES, at + size)
        try:
            return self.file.pread(begin, end - begin)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            if (start, SECTOR_BYTES) not in self.unreadable:
                self.unreadable.append((start, SECTOR_BYTES))
            return bytes(end - begin)

    def first_nonzero(self, at: int) -> int | None:
        """Return the position of the first nonzero byte from ``at`` on, None when there is none. Skips holes."""
        position = self.file.next_data(at)
        while position is not None and position < self.size:
            chunk = self.read(position, _SEARCH_BYTES)
            rest = chunk.lstrip(b"\0")
            if rest:
                return position + len(chunk) - len(rest)
            position = self.file.next_data(position + len(chunk)) if chunk else None
        return None


def _sector_starts(at: int, size: int) -> range:
    return range(at - at % SECTOR_BYTES, at + size, SECTOR_BYTES)


@dataclass(slots=True)
class LogFiles:
    """A log's segments, oldest first.

    ``gaps`` are physical ranges without a file; ``odd`` are files that aren't segments.
    """

    directory: str
    segment_size: int
    segments: list[SegmentFile]
    gaps: list[tuple[int, int]]
    odd: list[tuple[str, str]]  # (path, what is wrong with it)
    empty: list[int] = field(default_factory=list)  # starts of segments that have a file of no bytes
    vouched_end: int = 0  # by the checkpoint, the log was on the disk up to this physical offset

    @property
    def start(self) -> int:
        return self.segments[0].start if self.segments else 0

    @property
    def end_of_files(self) -> int:
        return self.segments[-1].end if self.segments else 0

    def find(self, offset: int) -> SegmentFile | None:
        """Return the segment that holds a physical offset, None without one."""
        for segment in reversed(self.segments):
            if segment.start <= offset:
                return segment if offset < segment.end else None
        return None

    def place(self, offset: int) -> tuple[str, int | None]:
        """Return (path, position) of a physical offset, or the directory where there is no file."""
        segment = self.find(offset) or (self.find(offset - 1) if offset > self.start else None)
        return (segment.path, offset - segment.start) if segment else (self.directory, None)

    def close(self) -> None:
        for segment in self.segments:
            segment.file.close()


def open_log(files: Files, directory: str, cold: ColdFiles | None = None) -> LogFiles:
    """Open every segment; its size is the file's own. ``cold`` finds compressed segments, if there may be any.

    Raises NotFoundError when all files are empty, OSError.
    """
    plain = set(numbered_files(files, directory))
    compressed = set(cold.starts()) - plain if cold is not None else set()
    opened: list[SegmentFile] = []
    odd: list[tuple[str, str]] = []
    for start in sorted(plain | compressed):
        if start in plain:
            file = files.open(f"{directory}/{start:020d}")
        else:
            assert cold is not None
            try:
                file = cold.open(start)
            except StoreError as error:
                odd.append((cold.path(start), str(error)))
                continue
        opened.append(SegmentFile(file.path, start, file.size(), file))
    sizes = [segment.size for segment in opened if segment.size]
    possible = [size for size in sizes if size <= SEGMENT_SIZE_BYTES_MAX]
    if not sizes:
        for segment in opened:
            segment.file.close()
        if not opened:
            return LogFiles(directory, 0, [], [], [])
        raise NotFoundError(f"{directory} holds no segment with data: this log is gone")
    usual = max(set(possible), key=possible.count) if possible else SEGMENT_SIZE_BYTES
    segments = []
    for segment in opened:
        if segment.size > SEGMENT_SIZE_BYTES_MAX:
            what = f"has {segment.size} bytes, the limit is {SEGMENT_SIZE_BYTES_MAX}: {usual} of them are read"
            odd.append((segment.path, what))
        elif segment.size != usual:
            what = f"has {segment.size} bytes where the other segments have {usual}"
            if segment.size == 0 and segment is opened[-1]:
                what = EMPTY_LAST_SEGMENT
            odd.append((segment.path, what))
        if segment.start % usual or not segment.size:
            segment.file.close()
            continue
        segment.size = usual
        segments.append(segment)
    gaps = [(one.end, after.start) for one, after in pairwise(segments) if one.end != after.start]
    empty = [segment.start for segment in opened if not segment.size and segment.start % usual == 0]
    return LogFiles(directory, usual, segments, gaps, odd, empty)
