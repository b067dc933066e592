"""The key index compared with the log: entries, missing entries, slots and chains, unknown geometry."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from pymq.offline.directory import open_directory
from pymq.offline.files import ReadOnlyFiles
from pymq.offline.verify import verify
from tests.golden_stores import unpack
from tests.offline.support import check, flip, only_finding, small_store, write_at

SLOTS = 500  # slots of the golden stores, with 2000 entries
ENTRIES_AT = 40 + 4 * SLOTS


@pytest.fixture
def golden(tmp_path: Path) -> tuple[Path, Path]:
    root, _ = unpack("store-clean", tmp_path)
    return root, next((root / "index").iterdir())


@pytest.mark.parametrize(
    ("at", "words"),
    [(3, "has no such key"), (11, "where no record starts"), (15, "s after the file's start"), (19, "before it")],
    ids=["hash", "offset", "time", "chain"],
)
def test_a_flipped_entry_is_named(golden: tuple[Path, Path], at: int, words: str) -> None:
    root, path = golden
    flip(path, ENTRIES_AT + 20 * 700 + at)
    report = check(root)
    found = [finding for finding in report.findings if words in finding.text]
    assert found
    assert {finding.kind for finding in report.findings} == {"index"}
    assert all(finding.path == str(path) for finding in found)
    assert "entry 700 " in found[0].text


def test_a_flipped_slot_is_named(golden: tuple[Path, Path]) -> None:
    root, path = golden
    raw = path.read_bytes()
    slot = next(n for n in range(SLOTS) if struct.unpack_from(">i", raw, 40 + 4 * n)[0])
    flip(path, 40 + 4 * slot + 3, 0x01)
    finding = only_finding(root)
    assert finding.position == 40 + 4 * slot
    assert f"slot {slot} names" in finding.text


def test_a_header_that_counts_too_few_entries_is_damage(golden: tuple[Path, Path]) -> None:
    root, path = golden
    count = struct.unpack_from(">i", path.read_bytes(), 36)[0]
    write_at(path, 36, struct.pack(">i", count - 5))
    assert not check(root).sound


@pytest.mark.parametrize("count", [-1, 2001])
def test_an_impossible_header_is_named(golden: tuple[Path, Path], count: int) -> None:
    root, path = golden
    write_at(path, 36, struct.pack(">i", count))
    texts = [finding.text for finding in check(root).findings]
    assert count == -1 or f"the header counts {count} entries of 2000" in texts


def test_wrong_used_slots_are_named(golden: tuple[Path, Path]) -> None:
    root, path = golden
    flip(path, 35, 0x01)
    assert "used slots" in only_finding(root).text


def test_a_key_without_an_entry_is_named(golden: tuple[Path, Path]) -> None:
    """An entry that names another record's key leaves its own without one."""
    root, path = golden
    raw = path.read_bytes()
    write_at(path, ENTRIES_AT + 20 * 300, raw[ENTRIES_AT + 20 * 301 : ENTRIES_AT + 20 * 301 + 12])
    assert any("is not in the index" in finding.text for finding in check(root).findings)


def test_without_index_files_there_is_a_note(golden: tuple[Path, Path]) -> None:
    root, _ = golden
    shutil.rmtree(root / "index")
    report = check(root)
    assert report.sound
    assert "there are no index files: messages can't be looked up by key" in report.notes


def test_several_files_are_one_row_of_entries(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    report = check(root)
    assert report.sound
    assert report.looked_at["index_files"] > 3
    assert report.looked_at["index_entries"] == 100


def test_keys_that_an_older_file_lost_are_a_note(tmp_path: Path) -> None:
    """RocketMQ deletes its newest index file after a crash, so a row of keys may be in no file."""
    root = small_store(tmp_path / "s")
    sorted((root / "index").iterdir())[2].unlink()
    report = check(root)
    assert report.sound
    assert any("are in no index file" in note for note in report.notes)


def test_unusual_sizes_need_the_configuration(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", index_slot_count=7, index_entry_count=21)
    report = check(root)
    assert report.sound
    assert any("--config" in note for note in report.notes)
    directory = open_directory(ReadOnlyFiles(), str(root), options={"maxHashSlotNum": "7", "maxIndexNum": "21"})
    report = verify(directory)
    directory.close()
    assert report.looked_at["index_entries"] == 100
    assert report.sound
