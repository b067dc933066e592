"""What a filter is given to look at in one go, and when it is given nothing."""

from __future__ import annotations

import numpy as np
import pytest

from pymq.model.record import decode_records
from pymq.store.consume_queue import FILLER, UNIT
from pymq.store.gathering import GATHERED_BYTES_MAX, GATHERED_COUNT_MIN, Gathered, gather
from pymq.store.memory_fs import MemoryFiles
from pymq.store.store import MessageStore
from tests.store.support import make_store, put


def filled(bodies: list[bytes]) -> tuple[MessageStore, bytes]:
    """A store with a queue, and the queue's units."""
    store = make_store(MemoryFiles(), segment_size_bytes=8 << 20, queue_file_size_bytes=20_000)
    store.open()
    for body in bodies:
        put(store, "T", 0, body)
    return store, bytes(store.queue_table.make("T", 0).read(0, len(bodies)))


def gathered_bodies(gathered: Gathered) -> list[bytes]:
    end = int(gathered.edges[-1])
    return [message.body for message in decode_records(bytes(gathered.records[:end]))]


def test_records_edges_and_windows() -> None:
    bodies = [b"x" * (number * 7 % 50) for number in range(60)]
    store, packed = filled(bodies)
    gathered = gather(store._windows, packed, 1 << 20)
    assert gathered is not None and gathered_bodies(gathered) == bodies
    for number in (0, 31, 59):
        physical_offset, size, _ = UNIT.unpack_from(packed, number * UNIT.size)
        data, start, end, doubts = gathered.window(number)
        assert start <= physical_offset and physical_offset + size <= end and doubts is None
        record = bytes(gathered.records[gathered.edges[number] : gathered.edges[number + 1]])
        assert data[physical_offset - start :][:size] == record


def test_no_more_bytes_than_the_limit() -> None:
    store, packed = filled([b"x" * 100_000] * 12)
    gathered = gather(store._windows, packed, 1 << 20)
    assert gathered is not None and len(gathered_bodies(gathered)) == GATHERED_BYTES_MAX // 100_100
    few, packed = filled([b"x" * (GATHERED_BYTES_MAX // (GATHERED_COUNT_MIN - 1))] * 8)
    assert gather(few._windows, packed, 1 << 20) is None


def test_too_few() -> None:
    store, packed = filled([b"x"] * GATHERED_COUNT_MIN)
    assert gather(store._windows, packed, 1 << 20) is not None
    assert gather(store._windows, packed[: -UNIT.size], 1 << 20) is None


@pytest.mark.parametrize(
    "unit", [FILLER, UNIT.pack(0, 5, 0), UNIT.pack(0, 100, 0), UNIT.pack(1 << 40, 100, 0), UNIT.pack(-100, 100, 0)]
)
def test_odd_units_are_left_to_a_closer_look(unit: bytes) -> None:
    """No record, smaller than any, out of order, behind the log, before it."""
    store, packed = filled([b"x"] * 30)
    odd = packed[: UNIT.size * 10] + unit + packed[UNIT.size * 11 :]
    gathered = gather(store._windows, odd, 1 << 20)
    assert gathered is None or len(gathered.edges) - 1 <= 10  # those before it


def test_damage_is_left_to_a_closer_look() -> None:
    store, packed = filled([b"x" * 200] * 60)
    assert store.digests is not None
    store.digests.work()
    segment = store.log.segments[0]
    segment.file.pwrite(5000, bytes([segment.file.pread(5000, 1)[0] ^ 1]))
    assert gather(store._windows, packed, 1 << 20) is None


def test_edges_are_those_of_the_units() -> None:
    store, packed = filled([b"x" * number for number in range(20)])
    gathered = gather(store._windows, packed, 1 << 20)
    assert gathered is not None
    assert np.diff(gathered.edges).tolist() == [size for _, size, _ in UNIT.iter_unpack(packed)]
