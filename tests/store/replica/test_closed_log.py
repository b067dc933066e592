"""ClosedLog: where a stopped broker's log ends, and digests of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pymq.errors import NotFoundError
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.closed_log import STEP_BYTES, ClosedLog
from tests.store.support import ROOT, make_store, put

SEGMENT_BYTES = 2 * STEP_BYTES


def test_it_reads_what_the_open_store_reads() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    segment_bytes = store.settings.segment_size_bytes
    for number in range(1000):
        put(store, "T", 0, b"message %d" % number)
    start, end = store.physical_min_offset, store.physical_max_offset
    size = min(100, end % segment_bytes)
    expected = store.tail_digest(end, size)
    store.close()
    log = ClosedLog(files, ROOT, segment_bytes)
    assert (log.start, log.tail_digest(end, size)) == (start, expected)
    assert end - 16 <= log.end <= end, "a record may end with zeros"


@pytest.mark.parametrize("size", [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, SEGMENT_BYTES])
def test_the_end_is_behind_the_last_byte_that_is_not_zero(size: int) -> None:
    files = MemoryFiles()
    files.makedirs("/d/commitlog")
    for start, length in ((0, SEGMENT_BYTES), (SEGMENT_BYTES, size)):
        with_zeros = files.open(f"/d/commitlog/{start:020d}", create=True, size=SEGMENT_BYTES)
        with_zeros.pwrite(0, b"x" * length)
        with_zeros.close()
    assert ClosedLog(files, "/d", SEGMENT_BYTES).end == SEGMENT_BYTES + size


def test_no_directory_is_an_empty_log() -> None:
    log = ClosedLog(MemoryFiles(), "/d", SEGMENT_BYTES)
    assert (log.start, log.end) == (0, 0)
    with pytest.raises(NotFoundError):
        log.tail_digest(100, 100)


def test_of_a_segment_longer_than_possible_its_own_size_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.write_bytes(b"x" * 100)
    os.truncate(path, 1 << 43)  # in steps of 1 MiB, its holes alone would take half a minute
    assert ClosedLog(RealFiles(), str(tmp_path), SEGMENT_BYTES).end == 100
