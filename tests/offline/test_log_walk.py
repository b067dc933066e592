"""Walking a log: windows, blank records, damage with its first bad byte, and the log's end."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.model.draft import Draft
from pymq.model.record import encode_record
from pymq.offline.log_walk import RECORD_BYTES_MAX, WINDOW_BYTES, Block, Damaged, LogEnd, Step, walk
from pymq.store.disk.fs import RealFiles
from tests.golden_stores import unpack
from tests.offline.support import flip, log_place, opened, records, small_store, write_at
from tests.store.support import make_store, put


def steps(root: Path, start: int | None = None) -> list[Step]:
    with opened(root) as directory:
        return list(walk(directory.log, start))


def damage_of(root: Path) -> Damaged:
    found = [step for step in steps(root) if isinstance(step, Damaged)]
    assert len(found) == 1
    return found[0]


def test_every_record_comes_once_in_order_over_all_segments(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    found = records(root)
    assert len(found) == 100
    assert [record.offset for record in found] == sorted(record.offset for record in found)
    end = steps(root)[-1]
    assert end == LogEnd(found[-1].offset + found[-1].size, None, "only zeros follow")


def test_a_walk_starts_at_any_offset(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    middle = records(root)[50].offset
    first = steps(root, middle)[0]
    assert isinstance(first, Block)
    assert first.records[0].offset == middle


def test_a_record_longer_than_the_window_is_read_whole(tmp_path: Path) -> None:
    store = make_store(RealFiles(), ManualClock(), str(tmp_path / "s"), segment_size_bytes=16 << 20)
    store.open()
    for size in (10, WINDOW_BYTES + 5, 20, WINDOW_BYTES - 200, 30):
        put(store, "orders", 0, b"x" * size)
    store.close()
    assert [step for step in steps(tmp_path / "s") if isinstance(step, Damaged)] == []
    assert len(records(tmp_path / "s")) == 5


@pytest.mark.parametrize(
    ("at", "mask", "bad_at", "words"),
    [
        (0, 0x40, 0, "size"),
        (3, 0x01, None, "add up"),
        (4, 0x01, 4, "magic"),
        (8, 0x01, 88, "CRC"),
        (28, 0x01, 28, "physical offset"),
        (39, 0x10, None, ""),
        (84, 0x80, 84, "body length"),
        (87, 0x01, None, "add up"),
        (90, 0x01, 88, "CRC"),
    ],
)
def test_a_flipped_byte_is_named_and_only_its_record_is_left_out(
    tmp_path: Path, at: int, mask: int, bad_at: int | None, words: str
) -> None:
    root = small_store(tmp_path / "s")
    whole = records(root)
    victim = whole[40]
    path, position = log_place(root, victim.offset)
    flip(path, position + at, mask)
    damage = damage_of(root)
    assert (damage.start, damage.end) == (victim.offset, victim.offset + victim.size)
    assert words in damage.reason
    if bad_at is not None:
        assert damage.at == victim.offset + bad_at
    assert records(root) == [record for record in whole if record is not victim]


def test_a_size_beyond_the_limit_is_damage_and_not_read(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", segment_size_bytes=RECORD_BYTES_MAX + 4096)
    victim = records(root)[3]
    write_at(*log_place(root, victim.offset), struct.pack(">i", RECORD_BYTES_MAX + 1))
    damage = damage_of(root)
    assert (damage.start, damage.at) == (victim.offset, victim.offset)
    assert str(RECORD_BYTES_MAX) in damage.reason


def test_a_damaged_blank_ends_at_the_next_segment(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    whole = records(root)
    last = max((record for record in whole if record.offset < 4096), key=lambda record: record.offset)
    flip(root / "commitlog" / f"{0:020d}", last.offset + last.size + 2)
    damage = damage_of(root)
    assert (damage.start, damage.end) == (last.offset + last.size, 4096)
    assert "blank" in damage.reason
    assert records(root) == whole


def test_a_missing_segment_is_one_damaged_range(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    whole = records(root)
    (root / "commitlog" / f"{4096:020d}").unlink()
    damage = damage_of(root)
    assert (damage.start, damage.end) == (4096, 8192)
    assert records(root) == [record for record in whole if not 4096 <= record.offset < 8192]


def test_a_short_segment_reads_as_zeros(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    whole = records(root)
    with (root / "commitlog" / f"{4096:020d}").open("r+b") as file:
        file.truncate(2000)
    damage = damage_of(root)
    assert damage.end == 8192
    assert 4096 < damage.start <= 4096 + 2000
    assert records(root) == [record for record in whole if not damage.start <= record.offset < 8192]


def test_remains_of_a_longer_log_are_not_records(tmp_path: Path) -> None:
    """RocketMQ truncates a log by moving its end only: older records may follow the new end."""
    root = small_store(tmp_path / "s", 10)
    last = records(root)[-1]
    end = last.offset + last.size
    path, position = log_place(root, end)
    old = encode_record(
        topic=b"orders",
        queue_id=0,
        queue_offset=7,
        physical_offset=end + 40,
        body=b"old",
        properties=b"",
        flag=0,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=bytes(8),
        store_timestamp_ms=last.store_ms - 1,
        store_host=bytes(8),
    )
    write_at(path, position, b"remains" + bytes(33) + old)
    tail = steps(root)[-1]
    assert isinstance(tail, LogEnd)
    assert (tail.offset, tail.remains_at) == (end, end)


def test_the_torn_tail_of_a_real_broker_ends_the_log(tmp_path: Path) -> None:
    root, manifest = unpack("store-torn", tmp_path)
    tail = steps(root)[-1]
    assert isinstance(tail, LogEnd)
    assert tail.offset == manifest["afterRecovery"]["commitLogMaxOffset"]
    assert tail.remains_at is not None


def test_the_crc_over_the_whole_record_is_checked(tmp_path: Path) -> None:
    from zlib import crc32

    properties = b"TAGS\x01a\x02" + b"__CRC32#\x01" + b"0" * 10 + b"\x02"
    store = make_store(RealFiles(), ManualClock(), str(tmp_path / "s"))
    store.open()
    for _ in range(3):
        store.stage("orders", 0, Draft(b"b", properties, 1, bytes(8), 97))
    store.commit()
    store.close()
    path = tmp_path / "s" / "commitlog" / f"{0:020d}"
    raw = bytearray(path.read_bytes())
    size = struct.unpack_from(">i", raw)[0]
    for number in range(3):
        covered = bytes(raw[number * size : (number + 1) * size - 20])
        digits = f"{crc32(covered) & 0x7FFFFFFF:010d}"[::-1].encode()
        raw[(number + 1) * size - 11 : (number + 1) * size - 1] = digits
    path.write_bytes(raw)
    assert len(records(tmp_path / "s")) == 3
    flip(path, size + 45)  # the born timestamp, which nothing else covers
    assert "__CRC32#" in damage_of(tmp_path / "s").reason
