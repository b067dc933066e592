"""Verification of a whole directory: damage is found and named, sound ones pass, no file is changed."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from pymq.offline.findings import FINDINGS_MAX, KINDS, Report
from tests.golden_stores import unpack
from tests.offline.support import GOLDEN_NAMES, check, flip, log_place, opened, records, small_store, snapshot, write_at


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_directories_of_a_real_broker_are_sound(name: str, tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    before = snapshot(root)
    report = check(root)
    assert report.findings == []
    assert report.looked_at["records"] == manifest["messageCount"]
    assert report.looked_at["index_entries"] > manifest["messageCount"]
    assert report.log_end == manifest["afterRecovery"]["commitLogMaxOffset"]
    assert report.clean == (name == "store-clean")
    assert snapshot(root) == before


def test_a_torn_tail_is_reported_with_its_offset_and_loss(tmp_path: Path) -> None:
    root, _ = unpack("store-torn", tmp_path)
    notes = "\n".join(check(root).notes)
    assert "00000000000000327680 at 33001 (offset 360681): torn tail" in notes
    assert "TopicPlain queue 1: the next start drops 1 units" in notes
    assert "the index has 2 entries that lead beyond the log" in notes


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_directory_of_pymq_is_sound(clean: bool, tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", clean=clean)
    before = snapshot(root)
    report = check(root)
    assert report.findings == []
    assert report.looked_at["records"] == 100
    assert snapshot(root) == before


def test_after_a_kill_the_report_names_what_a_start_adds(tmp_path: Path) -> None:
    notes = "\n".join(check(small_store(tmp_path / "s", 20, clean=False)).notes)
    assert "orders queue 0: the next start adds" in notes
    assert "keys of records from" in notes


def test_the_first_bad_byte_is_the_one_with_the_lowest_offset(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    found = records(root)
    for victim in (found[70], found[20], found[45]):
        path, position = log_place(root, victim.offset)
        flip(path, position + 90)
    report = check(root)
    first = report.first_bad
    assert first is not None
    path, position = log_place(root, found[20].offset)
    assert (first.path, first.position, first.physical_offset) == (str(path), position + 88, found[20].offset + 88)
    assert report.counts == {"log": 3}
    expected = {(r.topic, r.queue_id, r.queue_offset, r.offset) for r in (found[20], found[45], found[70])}
    assert {(m.topic, m.queue_id, m.queue_offset, m.physical_offset) for m in report.lost} == expected


def test_damage_below_the_checkpoint_is_not_a_torn_tail(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    last = records(root)[-1]
    path, position = log_place(root, last.offset)
    flip(path, position + 90)
    report = check(root)
    assert report.first_bad is not None
    assert report.first_bad.physical_offset == last.offset
    assert "but the log was on the disk up to" in report.first_bad.text
    assert report.lost_count == 1


def test_a_missing_segment_counts_its_messages_as_lost(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    gone = [record for record in records(root) if 4096 <= record.offset < 8192]
    (root / "commitlog" / f"{4096:020d}").unlink()
    report = check(root)
    assert "missing" in report.findings[0].text
    assert report.lost_count == len(gone) > 5


def test_a_segment_of_another_size_is_named(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    path = root / "commitlog" / f"{4096:020d}"
    with path.open("r+b") as file:
        file.truncate(4000)
    assert any(one.path == str(path) and "4000 bytes" in one.text for one in check(root).findings)


def test_store_times_that_go_back_are_a_note(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    path, position = log_place(root, records(root)[10].offset)
    flip(path, position + 57)  # the store timestamp's second byte
    report = check(root)
    assert any("goes back at 1 record" in note for note in report.notes)


@pytest.mark.slow
def test_every_flipped_bit_in_covered_bytes_is_found(tmp_path: Path) -> None:
    """This leaves out head fields that only a whole-record CRC covers; docs/storage.md lists them."""
    root, _ = unpack("store-clean", tmp_path)
    rng = random.Random(7)
    found = [record for record in records(root) if record.size < 2000]
    places: list[tuple[Path, int]] = []
    for record in rng.sample(found, 12):
        path, position = log_place(root, record.offset)
        places += [(path, position + at) for at in (rng.randrange(36), rng.randrange(84, 90))]
    queue = root / "consumequeue" / "TopicPlain" / "0" / f"{0:020d}"
    places += [(queue, rng.randrange(60 * 20)) for _ in range(12)]
    index = next((root / "index").iterdir())
    places += [(index, 40 + 4 * 500 + 20 + rng.randrange(1000 * 20)) for _ in range(12)]
    missed = []
    for path, position in places:
        mask = 1 << rng.randrange(8)
        flip(path, position, mask)
        # The store ignores the user's flag, bytes 16 to 19 of a record.
        if check(root).sound:
            missed.append((path.name, position))
        flip(path, position, mask)
    flags = [place for place in missed if _in_flag(root, found, place)]
    assert [place for place in missed if place not in flags] == []
    assert check(root).sound


def _in_flag(root: Path, found: list, place: tuple[str, int]) -> bool:
    name, position = place
    if len(name) != 20:
        return False
    offset = int(name) + position
    return any(record.offset + 16 <= offset < record.offset + 20 for record in found)


def test_many_findings_are_counted_and_few_are_listed(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 3 * FINDINGS_MAX, queue_file_size_bytes=4000)
    for queue in (root / "consumequeue" / "orders").iterdir():
        write_at(queue / f"{0:020d}", 0, b"\x01" * 20 * (FINDINGS_MAX // 2 + 10))
    report = check(root)
    assert report.counts == {"queue": FINDINGS_MAX + 20}
    assert len(report.findings) == FINDINGS_MAX


def test_the_report_is_json(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    path, position = log_place(root, records(root)[5].offset)
    flip(path, position + 90)
    shown = json.loads(json.dumps(check(root).as_json()))
    assert shown["sound"] is False
    assert set(shown["damage"]) == set(KINDS)
    assert shown["first_bad"] == shown["findings"][0]
    assert shown["lost_count"] == len(shown["lost"]) == 1


def test_an_empty_log_is_sound(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 0)
    report = check(root)
    assert report.sound
    assert report.log_end == 0
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()
    assert check(root).sound


def test_a_report_without_findings_has_no_first_bad_byte() -> None:
    assert Report("/s", clean=True).first_bad is None


def test_the_log_may_lie_elsewhere(tmp_path: Path) -> None:
    from pymq.offline.directory import open_directory
    from pymq.offline.files import ReadOnlyFiles
    from pymq.offline.verify import verify

    root = small_store(tmp_path / "s")
    (root / "commitlog").rename(tmp_path / "log")
    directory = open_directory(ReadOnlyFiles(), str(root), str(tmp_path / "log"))
    report = verify(directory)
    directory.close()
    assert report.findings == []
    assert report.looked_at["records"] == 100
    with opened(root) as without:
        assert without.log.segments == []
