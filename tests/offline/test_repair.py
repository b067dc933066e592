"""Repair: the copy opens and keeps every readable message in its place; the report names the losses."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.errors import UsageError
from pymq.model.layout import PLACEHOLDER_CODE
from pymq.offline.blank_records import BLANK_RECORD_TOPIC
from pymq.offline.files import ReadOnlyFiles
from pymq.offline.repair import RepairReport, repair
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore, StoreSettings
from tests.golden_stores import unpack
from tests.offline.support import GOLDEN_NAMES, check, flip, log_place, opened, records, small_store, snapshot, write_at
from tests.store.support import found_by_key, make_store, put, read_all

GOLDEN_SETTINGS = StoreSettings(
    segment_size_bytes=65536, queue_file_size_bytes=2000, index_slot_count=500, index_entry_count=2000
)
Place = tuple[str, int, int]


SMALL_OPTIONS = {"mappedFileSizeConsumeQueue": "200", "maxHashSlotNum": "5", "maxIndexNum": "20"}


def mend(root: Path, target: Path, options: dict[str, str] | None = None) -> RepairReport:
    """Repair, and check that the source is unchanged and the copy sound."""
    before = snapshot(root)
    with opened(root, options) as directory:
        report = repair(directory, RealFiles(), str(target), ManualClock(1_800_000_000_000))
    assert snapshot(root) == before
    assert check(target).findings == []
    assert not (target / "abort").exists()
    return report


def lost_places(report: RepairReport) -> set[Place]:
    return {
        (one["topic"], one["queue_id"], offset)
        for one in report.lost
        for offset in range(one["from_offset"], one["to_offset"] + 1)
    }


def messages(store: MessageStore) -> dict[Place, tuple[bytes, int]]:
    """Return body and physical offset of every message that a pull returns."""
    return {
        (topic, queue_id, message.queue_offset): (message.body, message.physical_offset)
        for topic, queue_id in store.queues()
        for message in read_all(store, topic, queue_id)
    }


def served(root: Path, settings: StoreSettings | None = None) -> dict[Place, tuple[bytes, int]]:
    """Return the messages of a copy of the directory, so that the original stays unchanged."""
    copy = root.with_name(root.name + "-served")
    shutil.copytree(root, copy)
    if settings is None:
        store = make_store(RealFiles(), ManualClock(), str(copy), index_slot_count=5)
    else:
        store = MessageStore(root=str(copy), files=RealFiles(), clock=ManualClock(1_800_000_000_000), settings=settings)
    store.open()
    found = messages(store)
    store.close()
    shutil.rmtree(copy)
    return found


def damage(root: Path, offset: int, at: int = 90) -> None:
    path, position = log_place(root, offset)
    flip(path, position + at)


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_sound_directory_is_copied_completely(name: str, tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    report = mend(root, tmp_path / "new")
    assert report.ranges == report.lost == []
    assert report.message_count == manifest["messageCount"]
    found = served(tmp_path / "new", GOLDEN_SETTINGS)
    expected = {(m["topic"], m["queueId"], m["queueOffset"]): m["commitLogOffset"] for m in manifest["messages"]}
    assert {place: physical for place, (_, physical) in found.items()} == expected
    assert (tmp_path / "new" / "config" / "consumerOffset.json").read_bytes() == (
        root / "config" / "consumerOffset.json"
    ).read_bytes()


def test_lost_messages_are_named_and_the_rest_stays_in_place(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    before = served(root)
    found = records(root)
    victims = [found[0], found[1], found[30], found[60], found[-1]]
    for victim in victims:
        damage(root, victim.offset)
    report = mend(root, tmp_path / "new")
    places = {(one.topic, one.queue_id, one.queue_offset) for one in victims}
    assert lost_places(report) == places
    assert report.lost_count == 5
    assert report.message_count == 95
    ranges = {(one["physical_offset"], one["bytes"]) for one in report.ranges}
    assert ranges == {
        (found[0].offset, found[0].size + found[1].size),
        (found[30].offset, found[30].size),
        (found[60].offset, found[60].size),
        (found[-1].offset, 4096 - found[-1].offset % 4096),  # by the checkpoint the log did not end before it
    }
    assert served(tmp_path / "new") == {place: one for place, one in before.items() if place not in places}


def test_new_messages_never_reuse_a_lost_offset(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    last = [record for record in records(root) if (record.topic, record.queue_id) == ("orders", 1)][-1]
    damage(root, last.offset)
    mend(root, tmp_path / "new")
    store = make_store(RealFiles(), ManualClock(1_800_000_000_000), str(tmp_path / "new"), index_slot_count=5)
    store.open()
    assert store.max_offset("orders", 1) == last.queue_offset + 1
    assert put(store, "orders", 1, b"next", keys="next-key").queue_offset == last.queue_offset + 1
    assert found_by_key(store, "orders", "next-key") == [b"next"]
    assert found_by_key(store, "orders", "key-50") == [b"body-50 " * 8]
    store.close()
    assert check(tmp_path / "new").sound


def test_a_missing_segment_costs_only_its_messages(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    before = served(root)
    gone = {(r.topic, r.queue_id, r.queue_offset) for r in records(root) if 4096 <= r.offset < 8192}
    (root / "commitlog" / f"{4096:020d}").unlink()
    report = mend(root, tmp_path / "new")
    assert lost_places(report) == gone
    assert served(tmp_path / "new") == {place: one for place, one in before.items() if place not in gone}


def test_a_torn_directory_loses_its_torn_message_silently(tmp_path: Path) -> None:
    """Repair drops it as a start does: it is beyond the checkpoint and its offset is free."""
    root, _ = unpack("store-torn", tmp_path)
    assert mend(root, tmp_path / "new").lost_count == 0


@pytest.mark.parametrize("part", ["consumequeue", "index", "checkpoint"])
def test_derived_files_may_be_missing(part: str, tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    before = served(root)
    shutil.rmtree(root / part) if (root / part).is_dir() else (root / part).unlink()
    # The configuration gives sizes that no file shows any more.
    report = mend(root, tmp_path / "new", SMALL_OPTIONS)
    assert report.lost_count == 0
    assert served(tmp_path / "new") == before


def test_a_record_its_queue_does_not_list_is_left_out(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    victim = next(record for record in records(root) if (record.topic, record.queue_offset) == ("orders", 7))
    damage(root, victim.offset, 27)  # its queue offset
    report = mend(root, tmp_path / "new")
    assert lost_places(report) == {("orders", victim.queue_id, 7)}


def test_damaged_units_cost_nothing(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    before = served(root)
    for path in (root / "consumequeue" / "orders" / "0").iterdir():
        flip(path, 47)
    report = mend(root, tmp_path / "new")
    assert report.found.counts["queue"] > 2
    assert report.lost_count == 0
    assert served(tmp_path / "new") == before


def test_a_bad_table_comes_from_its_backup(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    path = root / "config" / "topics.json"
    good = path.read_bytes()
    path.with_name("topics.json.bak").write_bytes(good)
    path.write_bytes(b"\0" * 50)
    (root / "config" / "consumerOffset.json").write_text("{")
    report = mend(root, tmp_path / "new")
    assert (tmp_path / "new" / "config" / "topics.json").read_bytes() == good
    assert not (tmp_path / "new" / "config" / "consumerOffset.json").exists()
    assert any("its backup replaces it" in note for note in report.notes)
    assert any("starts with an empty one" in note for note in report.notes)


def test_a_queue_without_messages_keeps_its_end(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    old = [record for record in records(root) if record.topic == "payments"]
    for segment in sorted((root / "commitlog").iterdir())[:-1]:
        segment.unlink()
    start = int(next((root / "commitlog").iterdir()).name)
    damaged = [record for record in old if record.offset >= start]
    for record in damaged:
        damage(root, record.offset)
    mend(root, tmp_path / "new")
    store = make_store(RealFiles(), ManualClock(), str(tmp_path / "new"), index_slot_count=5)
    store.open()
    for queue_id in (0, 1):
        end = max(record.queue_offset for record in old if record.queue_id == queue_id) + 1
        assert store.max_offset("payments", queue_id) == end
        assert read_all(store, "payments", queue_id) == []
    store.close()


def test_other_files_of_the_directory_are_copied(tmp_path: Path) -> None:
    root, _ = unpack("store-clean", tmp_path)
    mend(root, tmp_path / "new")
    timers = sorted(path.name for path in (root / "timerlog").iterdir())
    assert sorted(path.name for path in (tmp_path / "new" / "timerlog").iterdir()) == timers
    assert (tmp_path / "new" / "timerwheel").read_bytes() == (root / "timerwheel").read_bytes()


def test_the_report_is_exact_json(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    victim = records(root)[30]
    damage(root, victim.offset)
    shown: dict[str, Any] = mend(root, tmp_path / "new").as_json()
    path, position = log_place(root, victim.offset)
    assert shown["lost_ranges"] == [
        {
            "file": str(path),
            "position": position,
            "physical_offset": victim.offset,
            "bytes": victim.size,
            "reason": shown["lost_ranges"][0]["reason"],
        }
    ]
    place = {"topic": victim.topic, "queue_id": victim.queue_id}
    offsets = {"from_offset": victim.queue_offset, "to_offset": victim.queue_offset, "count": 1}
    assert shown["lost_messages"] == [place | offsets]
    assert (shown["messages_kept"], shown["messages_lost"]) == (99, 1)


def test_a_second_repair_finds_nothing_to_mend(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    damage(root, records(root)[3].offset)
    mend(root, tmp_path / "new")
    again = mend(tmp_path / "new", tmp_path / "newer")
    assert again.ranges == again.lost == []
    assert BLANK_RECORD_TOPIC in (tmp_path / "newer" / "commitlog" / f"{0:020d}").read_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_costs_exactly_what_is_reported(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    root = small_store(tmp_path / "s")
    before = served(root)
    for segment in rng.sample(sorted((root / "commitlog").iterdir()), 3):
        at = rng.randrange(3500)
        write_at(segment, at, rng.randbytes(rng.choice((1, 4, 300))))
    report = mend(root, tmp_path / "new")
    lost = lost_places(report)
    found = served(tmp_path / "new")
    assert set(found) == set(before) - lost
    # Bytes that no CRC covers may differ; bodies and offsets may not.
    assert {place: before[place] for place in found} == found
    assert len(lost) <= 12


@pytest.mark.parametrize("inside", ["", "/config", "/new"])
def test_the_target_must_be_elsewhere_and_empty(inside: str, tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    with opened(root) as directory, pytest.raises(UsageError, match="lies inside"):
        repair(directory, RealFiles(), f"{root}{inside}", ManualClock())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with opened(root) as directory, pytest.raises(UsageError, match="exists already"):
        repair(directory, RealFiles(), str(tmp_path / "full"), ManualClock())


def test_reading_tools_cannot_write(tmp_path: Path) -> None:
    files = ReadOnlyFiles()
    for change in (files.makedirs, files.remove, files.remove_tree):
        with pytest.raises(AssertionError):
            change(str(tmp_path))
    with pytest.raises(AssertionError):
        files.open(str(tmp_path / "x"), create=True)
    with pytest.raises(AssertionError):
        files.replace(str(tmp_path / "a"), str(tmp_path / "b"))


def test_lost_offsets_of_the_first_segment_have_placeholders(tmp_path: Path) -> None:
    """RocketMQ would skip good messages behind a blank record there; PyMQ treats both as blank."""
    sizes: dict[str, Any] = {"segment_size_bytes": 1 << 20, "queue_file_size_bytes": 2000}
    root = small_store(tmp_path / "s", **sizes)
    found = [record for record in records(root) if (record.topic, record.queue_id) == ("orders", 1)]
    victims = [found[0], found[1], found[10], found[11], found[-1]]
    for victim in victims:
        damage(root, victim.offset)
    mend(root, tmp_path / "new")
    store = make_store(RealFiles(), ManualClock(), str(tmp_path / "new"), index_slot_count=5, **sizes)
    store.open()
    queue = store._queues.get("orders", 1)
    assert queue is not None
    neighbors = {0: 2, 1: 2, 10: 12, 11: 12, len(found) - 1: len(found) - 2}
    for offset, neighbor in neighbors.items():
        assert queue.unit(offset) == (found[neighbor].offset, found[neighbor].size, PLACEHOLDER_CODE)
    left = [record.queue_offset for record in found if record not in victims]
    assert [message.queue_offset for message in read_all(store, "orders", 1)] == left
    for accept in (None, lambda _: True):
        result = store.get("orders", 1, 9, 32, 1 << 20, accept=accept)
        assert (result.count, result.next_offset) == (len(found) - 12, len(found))
    assert store.get("orders", 1, 10, 1, 1 << 20).next_offset == 11
    assert put(store, "orders", 1, b"next").queue_offset == len(found)
    store.close()
    assert any("5 offsets stand for records that are gone" in note for note in check(tmp_path / "new").notes)
