"""Digests of the log: they find damage that no CRC covers and locate a single flipped bit for repair."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.offline.repair import repair
from pymq.store.disk.fs import RealFiles
from tests.golden_stores import unpack
from tests.offline.support import check, flip, log_place, opened, records, small_store, snapshot, write_at


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_store(tmp_path / "s", digests_enabled=True)


def test_a_directory_with_digests_is_sound(root: Path) -> None:
    report = check(root)
    assert report.sound
    assert report.looked_at["digests"] >= 3


@pytest.mark.parametrize("at", [16, 41, 50, 66, 73, 80], ids=["flag", "born", "host", "host", "retries", "prepared"])
def test_a_bit_that_no_crc_covers_is_named(root: Path, at: int) -> None:
    path, position = log_place(root, records(root)[30].offset)
    flip(path, position + at, 0x04)
    report = check(root)
    assert report.counts == {"digest": 1}
    first = report.first_bad
    assert first is not None
    assert (first.path, first.position) == (str(path), position + at)
    assert "bit 2 of this byte is flipped" in first.text


def test_more_than_a_bit_is_a_bad_block(root: Path) -> None:
    offset = records(root)[30].offset
    path, position = log_place(root, offset)
    write_at(path, position + 40, b"\x01\x02\x03")
    report = check(root)
    assert report.counts == {"digest": 1}
    assert report.findings[0].position == position - position % 4096


def test_a_repair_turns_single_bits_back(root: Path, tmp_path: Path) -> None:
    whole = (root / "commitlog" / f"{0:020d}").read_bytes()
    victim = records(root)[5]
    path, position = log_place(root, victim.offset)
    flip(path, position + 95, 0x20)
    before = snapshot(root)
    with opened(root) as directory:
        report = repair(directory, RealFiles(), str(tmp_path / "new"), ManualClock())
    assert report.ranges == report.lost == []
    assert report.healed == [
        {"file": str(path), "position": position + 95, "physical_offset": victim.offset + 95, "bit": 5}
    ]
    assert (tmp_path / "new" / "commitlog" / f"{0:020d}").read_bytes() == whole
    assert snapshot(root) == before


def test_digests_do_not_count_without_a_checkpoint_of_pymq(root: Path) -> None:
    """Without PyMQ's block in the checkpoint another broker may have rewritten the newest segment."""
    newest = sorted((root / "commitlog").iterdir())[-1]
    (root / "checkpoint").unlink()
    flip(newest, 41)
    assert check(root).sound


def test_without_digests_nothing_is_compared(tmp_path: Path) -> None:
    golden, _ = unpack("store-clean", tmp_path)
    assert "digests" not in check(golden).looked_at


def test_a_damaged_side_file_proves_nothing(root: Path) -> None:
    for path in (root / "digests").iterdir():
        write_at(path, 512, b"\xff" * 600)
    assert check(root).sound
    shutil.rmtree(root / "digests")
    assert check(root).sound
