"""Truncated bytes become zeros in place: the size stays, holes stay holes, a failure halfway does no harm."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pymq.store.disk.fs import Files, RealFiles
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.zeroing import first_nonzero, nonzero_bytes, zero_from

SIZE_BYTES = 1 << 20


@pytest.fixture(params=["memory", "real"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """Return (file system, path of a file)."""
    return (MemoryFiles(), "/f") if request.param == "memory" else (RealFiles(), str(tmp_path / "f"))


def test_everything_behind_a_truncation_is_zero(place: tuple[Files, str]) -> None:
    files, path = place
    file = files.open(path, create=True, size=SIZE_BYTES)
    for at in (0, 70_000, 300_000, SIZE_BYTES - 3):
        file.pwrite(at, b"abc")
    assert first_nonzero(file, 1) == 1 and first_nonzero(file, 3) == 70_000
    assert nonzero_bytes(file, 3) == SIZE_BYTES - 70_000
    assert nonzero_bytes(file, 300_002) == SIZE_BYTES - 300_002 and nonzero_bytes(file, SIZE_BYTES - 1) == 1
    assert zero_from(file, 70_001, SIZE_BYTES)
    assert first_nonzero(file, 70_001) is None and nonzero_bytes(file, 70_001) == 0
    assert nonzero_bytes(file, 3) == 1
    assert not zero_from(file, 70_001, SIZE_BYTES)
    assert file.pread(0, 3) == b"abc" and file.pread(70_000, 3) == b"a\0\0"
    assert file.size() == SIZE_BYTES
    file.close()


def test_zeroing_takes_no_disk_space(tmp_path: Path) -> None:
    file = RealFiles().open(str(tmp_path / "f"), create=True, size=SIZE_BYTES)
    for at in (0, 500_000):
        file.pwrite(at, b"x" * 5000)
    blocks = (tmp_path / "f").stat().st_blocks
    assert zero_from(file, 100, SIZE_BYTES)
    assert (tmp_path / "f").stat().st_blocks <= blocks
    file.close()


def test_a_truncation_that_fails_halfway_leaves_a_segment_that_opens() -> None:
    files = MemoryFiles()
    log = CommitLog(files, "/log", SIZE_BYTES, SIZE_BYTES)
    log.load()
    log.reserve(180_000)
    log.parts.append(b"record" * 30_000)
    log.commit(1)

    def full(call: str, path: str) -> None:
        if call in ("pwrite", "truncate"):
            raise OSError(errno.EFBIG, "File too large", path)

    files.fault = full
    with pytest.raises(OSError):
        log.truncate(100, 1)
    files.fault = None
    again = CommitLog(files, "/log", SIZE_BYTES, SIZE_BYTES)
    again.load()
    assert again.truncate(100, 1) > 0 and again.truncate(100, 1) == 0


def test_a_disk_without_room_for_zeros_truncates_and_grows() -> None:
    files = MemoryFiles()
    file = files.open("/f", create=True, size=SIZE_BYTES)
    file.pwrite(10, b"abc")

    def no_room(call: str, path: str) -> None:
        if call == "pwrite":
            raise OSError(errno.ENOSPC, "No space left on device", path)

    files.fault = no_room
    assert zero_from(file, 11, SIZE_BYTES)
    assert file.size() == SIZE_BYTES and file.pread(0, 20) == bytes(10) + b"a" + bytes(9)
