"""The files of a log or queue that a broker adds to while they are listed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pymq.offline.numbered_files import numbered_files
from pymq.offline.unit_files import UnitFiles
from pymq.store.disk.fs import RealFiles

FILE_BYTES = 100
UNIT = np.dtype([("size", ">i4")])


class GrowingFiles(RealFiles):
    """The broker adds two files during each listing, which shows only the second of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0

    def listdir(self, path: str) -> list[str]:
        listed = super().listdir(path)
        unseen, seen = (f"{(self.count + number) * FILE_BYTES:020d}" for number in range(2))
        for name in (unseen, seen):
            (self.directory / name).write_bytes(np.ones(FILE_BYTES // UNIT.itemsize, UNIT).tobytes())
        self.count += 2
        return [*listed, seen]


def test_a_file_that_one_listing_misses_is_listed(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    assert numbered_files(GrowingFiles(tmp_path), str(tmp_path)) == [0, FILE_BYTES]


def test_no_numbered_files(tmp_path: Path) -> None:
    (tmp_path / "1").touch()
    assert numbered_files(RealFiles(), str(tmp_path)) == []


def test_units_before_a_file_that_a_listing_misses_are_there(tmp_path: Path) -> None:
    """They were taken for a gap, and readers of a running broker's files for lost messages."""
    units = UnitFiles(GrowingFiles(tmp_path), str(tmp_path), UNIT)
    assert (units.begin, units.end, units.used_end()) == (0, 50, 50)
    units.close()
