"""The record batch that a prefilter gets, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from pymq.model.layout import BLANK_UNIT, UNIT
from pymq.model.record import decode_records
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.read.record_batch import RECORD_BATCH_BYTES_MAX, RECORD_BATCH_COUNT_MIN, RecordBatch, read_record_batch
from pymq.store.store import MessageStore
from tests.store.support import make_store, put


def filled(bodies: list[bytes]) -> tuple[MessageStore, bytes]:
    """Return a store with a queue, and the queue's units."""
    store = make_store(MemoryFiles(), segment_size_bytes=8 << 20, queue_file_size_bytes=20_000)
    store.open()
    for body in bodies:
        put(store, "T", 0, body)
    return store, bytes(store._queues.make("T", 0).read(0, len(bodies)))


def gathered_bodies(batch: RecordBatch) -> list[bytes]:
    end = int(batch.edges[-1])
    return [message.body for message in decode_records(bytes(batch.records[:end]))]


def test_records_edges_and_windows() -> None:
    bodies = [b"x" * (number * 7 % 50) for number in range(60)]
    store, packed = filled(bodies)
    batch = read_record_batch(store._windows, packed, 1 << 20)
    assert batch is not None and gathered_bodies(batch) == bodies
    for number in (0, 31, 59):
        physical_offset, size, _ = UNIT.unpack_from(packed, number * UNIT.size)
        data, start, end, doubts = batch.window(number)
        assert start <= physical_offset and physical_offset + size <= end and doubts is None
        record = bytes(batch.records[batch.edges[number] : batch.edges[number + 1]])
        assert data[physical_offset - start :][:size] == record


def test_no_more_bytes_than_the_limit() -> None:
    store, packed = filled([b"x" * 100_000] * 12)
    batch = read_record_batch(store._windows, packed, 1 << 20)
    assert batch is not None and len(gathered_bodies(batch)) == RECORD_BATCH_BYTES_MAX // 100_100
    few, packed = filled([b"x" * (RECORD_BATCH_BYTES_MAX // (RECORD_BATCH_COUNT_MIN - 1))] * 8)
    assert read_record_batch(few._windows, packed, 1 << 20) is None


def test_too_few() -> None:
    store, packed = filled([b"x"] * RECORD_BATCH_COUNT_MIN)
    assert read_record_batch(store._windows, packed, 1 << 20) is not None
    assert read_record_batch(store._windows, packed[: -UNIT.size], 1 << 20) is None


@pytest.mark.parametrize(
    "unit", [BLANK_UNIT, UNIT.pack(0, 5, 0), UNIT.pack(0, 100, 0), UNIT.pack(1 << 40, 100, 0), UNIT.pack(-100, 100, 0)]
)
def test_odd_units_are_not_batched(unit: bytes) -> None:
    """The units lead to no record, are too small, out of order, behind the log or before it."""
    store, packed = filled([b"x"] * 30)
    odd = packed[: UNIT.size * 10] + unit + packed[UNIT.size * 11 :]
    batch = read_record_batch(store._windows, odd, 1 << 20)
    assert batch is None or len(batch.edges) - 1 <= 10  # those before it


def test_damaged_records_are_not_batched() -> None:
    store, packed = filled([b"x" * 200] * 60)
    assert store._digests is not None
    store._digests.work()
    segment = store._log.segments[0]
    segment.file.pwrite(5000, bytes([segment.file.pread(5000, 1)[0] ^ 1]))
    assert read_record_batch(store._windows, packed, 1 << 20) is None


def test_edges_are_those_of_the_units() -> None:
    store, packed = filled([b"x" * number for number in range(20)])
    batch = read_record_batch(store._windows, packed, 1 << 20)
    assert batch is not None
    assert np.diff(batch.edges).tolist() == [size for _, size, _ in UNIT.iter_unpack(packed)]
