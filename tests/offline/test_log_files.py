"""Segments of a log: bad sectors read as zeros and are noted, odd sizes and gaps are reported."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pymq.offline.files import ReadOnlyFiles
from pymq.offline.log_files import SECTOR_BYTES, SegmentFile, open_log
from pymq.store.disk.fs import RealFile
from tests.offline.support import small_store


class BadSectorFile(RealFile):
    """A file with one unreadable sector."""

    __slots__ = ()
    bad_at = 2 * SECTOR_BYTES

    def pread(self, at: int, size: int) -> bytes:
        if at < self.bad_at + SECTOR_BYTES and self.bad_at < at + size:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        return super().pread(at, size)


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
