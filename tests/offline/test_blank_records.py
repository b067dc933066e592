"""Blank records in place of damage: exact sizes, valid records, chains that readers skip."""

from __future__ import annotations

import pytest

from pymq.model.layout import BLANK_SIZE_BYTES, MAGIC_BLANK, RECORD_START
from pymq.model.record import decode_record
from pymq.offline.blank_records import BLANK_RECORD_BYTES_MAX, BLANK_RECORD_BYTES_MIN, blank_record, fill
from pymq.store.log.log_record import has_index_entries, has_queue_unit, parse_record


@pytest.mark.parametrize("size", [BLANK_RECORD_BYTES_MIN, 93, 101, 102, 103, 150, 5000, BLANK_RECORD_BYTES_MAX])
def test_a_blank_record_has_the_exact_size_and_is_in_no_queue(size: int) -> None:
    raw = blank_record(777, size, 123, (777, 777 + size))
    assert len(raw) == size
    record = parse_record(memoryview(raw), 0, 777, True)
    assert record is not None
    assert not has_queue_unit(record.sys_flag)
    assert not has_index_entries(record.sys_flag)
    assert record.store_ms == 123


def test_the_body_of_a_blank_record_names_the_range() -> None:
    message = decode_record(blank_record(1000, 300, 1, (1000, 1300)), check_crc=True)
    assert message.topic == "PYMQ_REPAIR"
    assert message.body.strip() == b'{"lost_from": 1000, "lost_to": 1300}'


@pytest.mark.parametrize(
    "size",
    [
        BLANK_RECORD_BYTES_MIN,
        BLANK_RECORD_BYTES_MAX,
        BLANK_RECORD_BYTES_MAX + 1,
        BLANK_RECORD_BYTES_MAX + BLANK_RECORD_BYTES_MIN - 1,
        BLANK_RECORD_BYTES_MAX + BLANK_RECORD_BYTES_MIN,
        3 * BLANK_RECORD_BYTES_MAX + 7,
    ],
)
def test_blank_records_cover_a_range_without_a_gap(size: int) -> None:
    at = 4096
    for offset, raw in fill(at, at + size, 1 << 30, 5):
        assert offset == at
        assert parse_record(memoryview(raw), 0, offset, True) is not None
        at += len(raw)
    assert at == 4096 + size


@pytest.mark.parametrize("left", [BLANK_SIZE_BYTES, 50, BLANK_RECORD_BYTES_MIN + 7, BLANK_RECORD_BYTES_MIN + 8, 4096])
def test_a_range_at_a_segments_end_ends_with_a_blank(left: int) -> None:
    parts = fill(8192 - left, 8192, 8192, 5)
    offset, raw = parts[-1]
    assert RECORD_START.unpack(raw) == (8192 - offset, MAGIC_BLANK)
    assert len(parts) == (2 if left >= BLANK_RECORD_BYTES_MIN + BLANK_SIZE_BYTES else 1)
    if len(parts) == 2:
        assert parts[0][0] + len(parts[0][1]) == offset
