"""Segments of a log: bad sectors read as zeros and are noted, odd sizes and gaps are reported."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pymq.offline.files import ReadOnlyFiles
from pymq.offline.log_files import SECTOR_BYTES, SegmentFile, open_log
from pymq.store.disk.fs import RealFile, RealFiles
from pymq.store.disk.memory_fs import MemoryFiles
from tests.offline.support import small_store


class BadSectorFile(RealFile):
    """A file with one unreadable sector."""

    __slots__ = ()
    bad_at = 2 * SECTOR_BYTES

    def pread(self, at: int, size: int) -> bytes:
        if at < self.bad_at + SECTOR_BYTES and self.bad_at < at + size:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        return super().pread(at, size)

    def pread_into(self, at: int, room: memoryview) -> int:
        data = self.pread(at, len(room))
        room[: len(data)] = data
        return len(data)


def test_a_bad_sector_affects_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"x" * 5 * SECTOR_BYTES)
    file = BadSectorFile(str(path), os.open(path, os.O_RDONLY))
    segment = SegmentFile(str(path), 0, 5 * SECTOR_BYTES, file)
    raw = segment.read(100, 5 * SECTOR_BYTES)
    bad = 2 * SECTOR_BYTES - 100
    assert raw == b"x" * bad + bytes(SECTOR_BYTES) + b"x" * (2 * SECTOR_BYTES)
    assert segment.unreadable == [(2 * SECTOR_BYTES, SECTOR_BYTES)]
    assert segment.read(0, 10) == b"x" * 10
    assert into(segment, 100, 5 * SECTOR_BYTES) == raw + bytes(100)
    file.close()


def into(segment: SegmentFile, at: int, size: int) -> bytes:
    room = bytearray(b"?" * size)
    segment.read_into(at, memoryview(room))
    return bytes(room)


@given(st.integers(0, 90), st.integers(0, 90), st.sampled_from([{}, {40: 7, 79: 1}]), st.booleans())
def test_reading_into_memory_is_reading(at: int, size: int, patches: dict[int, int], is_real: bool) -> None:
    """The file of a segment of 80 bytes has 60."""
    with tempfile.TemporaryDirectory() as directory:
        files = RealFiles() if is_real else MemoryFiles()
        files.makedirs(directory)
        file = files.open(f"{directory}/segment", create=True)
        file.pwrite(0, bytes(range(60)))
        segment = SegmentFile(file.path, 0, 80, file, patches=patches)
        at = min(at, segment.size)
        segment.will_read(at, size)
        assert into(segment, at, size) == segment.read(at, size).ljust(size, b"\0")
        file.close()


def test_sizes_gaps_and_unexpected_files_are_reported(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    directory = root / "commitlog"
    (directory / f"{4096:020d}").unlink()
    with (directory / f"{8192:020d}").open("r+b") as file:
        file.truncate(100)
    (directory / f"{1 << 20:020d}").touch()
    (directory / "readme").touch()
    log = open_log(ReadOnlyFiles(), str(directory))
    assert log.segment_size == 4096
    assert log.gaps == [(4096, 8192)]
    assert [(Path(path).name, text.split()[1]) for path, text in log.odd] == [
        (f"{8192:020d}", "100"),
        (f"{1 << 20:020d}", "empty:"),
    ]
    assert log.find(5000) is None
    assert log.place(9000)[1] == 9000 - 8192
    log.close()
