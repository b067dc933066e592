"""Queues compared with the log: each kind of wrong unit, and the culprit when unit and record disagree."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.model.layout import BLANK_UNIT, UNIT
from pymq.offline.repair import repair
from pymq.store.disk.checkpoint import CheckpointFile
from pymq.store.disk.fs import RealFiles
from tests.golden_stores import unpack
from tests.offline.support import check, flip, log_place, only_finding, opened, records, small_store, write_at
from tests.store.support import make_store, put

UNITS_PER_FILE = 10  # tests.store.support: files of 200 bytes


def unit_place(root: Path, topic: str, queue_id: int, offset: int) -> tuple[Path, int]:
    start = offset - offset % UNITS_PER_FILE
    return root / "consumequeue" / topic / str(queue_id) / f"{start * 20:020d}", (offset - start) * 20


@pytest.mark.parametrize(
    ("at", "words"),
    [(7, "leads to"), (11, "bytes, but its record"), (19, "tags code")],
    ids=["offset", "size", "tags code"],
)
def test_a_flipped_unit_is_named(tmp_path: Path, at: int, words: str) -> None:
    root = small_store(tmp_path / "s")
    path, position = unit_place(root, "orders", 1, 13)
    flip(path, position + at)
    finding = only_finding(root)
    assert finding.kind == "queue"
    assert finding.path == str(path)
    assert finding.position is not None
    assert position <= finding.position <= position + at
    assert finding.text.startswith("unit 13 of orders queue 1 ")
    assert words in finding.text


@pytest.mark.parametrize(
    ("unit", "words"),
    [(bytes(20), "is empty"), (BLANK_UNIT, "says that its record is gone")],
    ids=["zeros", "blank record"],
)
def test_a_unit_that_misses_its_record_is_named(tmp_path: Path, unit: bytes, words: str) -> None:
    root = small_store(tmp_path / "s")
    write_at(*unit_place(root, "orders", 0, 4), unit)
    assert words in only_finding(root).text


def test_an_address_of_an_extension_needs_extensions(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    path, position = unit_place(root, "orders", 1, 13)
    flip(path, position + 12, 0x80)
    assert "tags code -" in only_finding(root).text
    (root / "consumequeue_ext").mkdir()
    assert check(root).sound


def test_units_behind_the_last_record_are_damage_after_a_clean_stop(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    last = max(record.queue_offset for record in records(root) if (record.topic, record.queue_id) == ("payments", 0))
    path, position = unit_place(root, "payments", 0, last + 1)
    write_at(path, position, UNIT.pack(1 << 30, 100, 0))
    finding = only_finding(root)
    assert (finding.path, finding.position) == (str(path), position)
    assert "the log ends at" in finding.text


def test_missing_units_are_damage_after_a_clean_stop(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    files = sorted((root / "consumequeue" / "orders" / "0").iterdir())
    files[-1].unlink()
    finding = only_finding(root)
    assert finding.kind == "queue"
    assert f"from offset {(len(files) - 1) * UNITS_PER_FILE} on" in finding.text


def test_a_queue_without_files_is_damage_unless_its_topic_was_deleted(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    shutil.rmtree(root / "consumequeue" / "payments" / "0")
    assert "payments queue 0 has no files" in only_finding(root).text
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"orders":{}}}')
    shutil.rmtree(root / "consumequeue" / "payments" / "1")
    report = check(root)
    assert report.sound
    assert any("34 records of topic payments are from before its deletion" in note for note in report.notes)


def test_queues_removed_by_a_recovery_are_not_damage(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    shutil.rmtree(root / "consumequeue")
    assert not check(root).sound
    file = CheckpointFile(RealFiles(), str(root / "checkpoint"))
    before = file.load()
    assert before.durable is not None
    file.save(replace(before, durable=replace(before.durable, queue_offset=0, unit_count=0)))
    report = check(root)
    assert report.sound
    assert any("payments queue 0 has no files: the next start rebuilds its" in note for note in report.notes)


def test_records_older_than_a_recreated_topic_are_not_damage(tmp_path: Path) -> None:
    store = make_store(RealFiles(), ManualClock(), str(tmp_path / "s"))
    store.open()
    for number in range(8):
        put(store, "orders", 0, b"old %d" % number)
    store.delete_topics("orders")
    for number in range(3):
        put(store, "orders", 0, b"new %d" % number)
    store.close()
    report = check(tmp_path / "s")
    assert report.sound
    assert any("8 records of orders queue 0 are from before its topic" in note for note in report.notes)


def test_a_topic_recreated_with_fewer_queues_is_repaired_without_the_old(tmp_path: Path) -> None:
    root = tmp_path / "s"
    store = make_store(RealFiles(), ManualClock(), str(root))
    store.open()
    for number in range(9):
        put(store, "orders", number % 3, b"old %d" % number)
    store.delete_topics("orders")
    put(store, "orders", 1, b"new")
    store.close()
    report = check(root)
    assert report.sound
    assert any("6 records of topic orders are from before its deletion" in note for note in report.notes)
    with opened(root) as directory:
        repaired = repair(directory, RealFiles(), str(tmp_path / "copy"), ManualClock())
    assert (repaired.message_count, repaired.lost) == (1, [])
    assert check(tmp_path / "copy").sound


@pytest.mark.parametrize("at", [15, 27], ids=["queue id", "queue offset"])
def test_a_record_with_a_wrong_offset_is_blamed_not_its_queue(tmp_path: Path, at: int) -> None:
    root = small_store(tmp_path / "s")
    victim = next(record for record in records(root) if (record.topic, record.queue_offset) == ("orders", 7))
    path, position = log_place(root, victim.offset)
    flip(path, position + at)
    report = check(root)
    kinds = {finding.kind for finding in report.findings if finding.physical_offset == victim.offset}
    assert kinds == {"record"}
    assert [(m.topic, m.queue_id, m.queue_offset) for m in report.lost] == [("orders", victim.queue_id, 7)]


def test_a_record_that_repeats_an_offset_is_named(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 30)
    victim = next(record for record in records(root) if (record.topic, record.queue_offset) == ("orders", 6))
    path, position = log_place(root, victim.offset)
    write_at(path, position + 20, struct.pack(">q", 2))
    assert any("has queue offset 2" in finding.text for finding in check(root).findings)


def test_blank_units_are_a_note(tmp_path: Path) -> None:
    root, _ = unpack("store-clean", tmp_path)
    path = root / "consumequeue" / "TopicBatch" / "0" / f"{0:020d}"
    raw = path.read_bytes()
    write_at(path, 30 * 20, BLANK_UNIT)
    report = check(root)
    assert report.sound
    assert "TopicBatch queue 0: 1 offsets stand for records that are gone" in report.notes
    write_at(path, 0, raw)


def test_an_illegal_topic_name_is_never_a_path(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 10)
    victim = next(record for record in records(root) if record.topic == "orders")
    path, position = log_place(root, victim.offset)
    raw = path.read_bytes()
    at = raw.index(b"\x06orders", position)
    write_at(path, at + 1, b"../etc")
    assert any("character outside" in finding.text for finding in check(root).findings)


def test_a_file_that_holds_no_whole_units_is_named(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 60)
    path = sorted((root / "consumequeue" / "orders" / "0").iterdir())[0]
    with path.open("r+b") as file:
        file.truncate(190)
    assert any(finding.path == str(path) and "not whole units" in finding.text for finding in check(root).findings)
