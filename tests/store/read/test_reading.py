"""Pulls: RocketMQ's table of statuses, limits, tag filters, and damage that never becomes a wrong message."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pymq.errors import CorruptRecordError, NotFoundError
from pymq.model.javahash import tags_code
from pymq.model.record import MalformedRecordError, decode_records
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.read import reading, windows
from pymq.store.read.reading import PREFILTERED_FACTOR, GetStatus, Pace
from pymq.store.read.record_batch import RECORD_BATCH_COUNT_MIN
from pymq.store.store import GetResult, MessageStore
from tests.store.support import bodies, make_store, put, read_all


def filled(count: int, **settings: Any) -> MessageStore:
    store = make_store(MemoryFiles(), **settings)
    store.open()
    for body in bodies(count):
        put(store, "T", 0, body, tags="AB"[int(body[5:]) % 2])
    return store


def offsets(result: GetResult) -> list[int]:
    return [message.queue_offset for message in decode_records(b"".join(result.chunks))]


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (0, GetStatus.FOUND, 5),
        (4, GetStatus.FOUND, 5),
        (5, GetStatus.OFFSET_OVERFLOW_ONE, 5),
        (6, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
    ],
)
def test_status_and_next_offset(offset: int, status: GetStatus, next_offset: int) -> None:
    result = filled(5).get("T", 0, offset, 32, 1 << 20)
    assert (result.status, result.next_offset, result.max_offset) == (status, next_offset, 5)


def test_a_queue_that_never_had_a_message() -> None:
    store = filled(1)
    assert store.get("T", 7, 0, 32, 1 << 20).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    store._queues.make("T", 8)
    assert store.get("T", 8, 3, 32, 1 << 20).status is GetStatus.NO_MESSAGE_IN_QUEUE


def test_count_and_bytes_are_limits_and_the_first_message_always_comes() -> None:
    store = filled(9)
    assert offsets(store.get("T", 0, 2, 3, 1 << 20)) == [2, 3, 4]
    size = store.get("T", 0, 0, 1, 1 << 20).size_bytes
    assert offsets(store.get("T", 0, 0, 32, 3 * size)) == [0, 1, 2]
    assert offsets(store.get("T", 0, 0, 32, 1)) == [0]


def test_old_data_is_served_in_small_portions() -> None:
    store = filled(20, in_memory_bytes=200, transfer_count_on_disk=2)
    result = store.get("T", 0, 0, 9, 1 << 20)
    assert (offsets(result), result.suggest_slave) == ([0, 1], True)
    assert not store.get("T", 0, 19, 9, 1 << 20).suggest_slave


def test_adjacent_records_come_as_one_slice() -> None:
    result = filled(8).get("T", 0, 0, 8, 1 << 20)
    assert (len(result.chunks), result.count) == (1, 8)


def test_a_tag_filter_looks_at_codes_alone() -> None:
    store = filled(9)
    result = store.get("T", 0, 0, 3, 1 << 20, frozenset({tags_code("B")}))
    assert offsets(result) == [1, 3, 5]
    assert result.next_offset == 7  # behind the last unit read
    nothing = store.get("T", 0, 0, 3, 1 << 20, frozenset({4711}))
    assert (nothing.status, nothing.next_offset, nothing.count) == (GetStatus.NO_MATCHED_MESSAGE, 9, 0)


def test_a_filtered_scan_is_bounded() -> None:
    store = filled(30, filter_scan_bytes=100, queue_file_size_bytes=2000)
    result = store.get("T", 0, 0, 1, 1 << 20, frozenset({4711}))
    assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 5)


def test_a_record_that_accept_can_t_parse_is_damage() -> None:
    store = filled(4)

    def accept(record: memoryview) -> bool:
        if b"body-2" in bytes(record):
            raise MalformedRecordError("odd")
        return True

    result = store.get("T", 0, 0, 9, 1 << 20, accept=accept)
    assert offsets(result) == [0, 1] and result.next_offset == 2
    with pytest.raises(CorruptRecordError, match="offset 2 is corrupt"):
        store.get("T", 0, 2, 9, 1 << 20, accept=accept)
    assert offsets(store.get("T", 0, 3, 9, 1 << 20, accept=accept)) == [3]


class Finding:
    """A prefilter that keeps the records that contain a text, and notes its arguments."""

    def __init__(self, wanted: bytes, count: int = 100) -> None:
        self.wanted = wanted
        self.asked_count = count
        self.seen: list[list[int]] = []
        self.accepted: list[int] = []

    def count(self, wanted: int) -> int:
        return self.asked_count

    def __call__(self, records: bytes | bytearray, edges: NDArray[np.int64]) -> list[int]:
        parts = [bytes(records[begin:end]) for begin, end in pairwise(edges.tolist())]
        self.seen.append([message.queue_offset for message in decode_records(b"".join(parts))])
        return [number for number, part in enumerate(parts) if self.wanted in part]

    def accept(self, record: memoryview) -> bool:
        self.accepted += [message.queue_offset for message in decode_records(bytes(record))]
        return self.wanted in bytes(record)

    def read(self, store: MessageStore, offset: int, count: int = 9) -> GetResult:
        return store.get("T", 0, offset, count, 1 << 20, accept=self.accept, prefilter=self)


def test_a_prefilter_leaves_few_records_to_parse() -> None:
    store = filled(40, queue_file_size_bytes=2000)
    finding = Finding(b"body-23")
    result = finding.read(store, 5)
    assert (offsets(result), result.next_offset) == ([23], 40)
    assert (finding.seen, finding.accepted) == ([[*range(5, 40)]], [23])
    nothing = Finding(b"body-3 ").read(store, 5)
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 40)


def test_a_prefilter_gets_as_many_records_as_it_asks_for() -> None:
    store = filled(40, queue_file_size_bytes=2000)
    finding = Finding(b"body-", count=16)
    assert offsets(finding.read(store, 0, count=3)) == [0, 1, 2]
    assert finding.seen == [[*range(16)]]
    finding = Finding(b"body-39", count=16)
    assert offsets(finding.read(store, 0)) == [39]
    assert finding.seen == [[*range(16)], [*range(16, 32)], [*range(32, 40)]]


@pytest.mark.parametrize("topics", ["TTU", "TU", "TUUUUUUUUUUU"])
def test_a_prefilter_gets_only_the_queue_s_records(topics: str) -> None:
    store = make_store(MemoryFiles(), queue_file_size_bytes=2000, segment_size_bytes=1 << 20)
    store.open()
    for number in range(480):
        put(store, topics[number % len(topics)], 0, b"body-%d-" % number)
    count = store.max_offset("T", 0)
    finding = Finding(b"-%d-" % (22 * len(topics)))
    result = finding.read(store, 0)
    assert [message.body for message in decode_records(b"".join(result.chunks))] == [b"body-%d-" % (22 * len(topics))]
    assert len(finding.accepted) == 1 and [*chain(*finding.seen)] == list(range(min(count, result.next_offset)))


def test_a_prefilter_across_a_segment_s_end() -> None:
    """Records of two segments are not batched but read one by one."""
    store = filled(120, queue_file_size_bytes=4000)
    assert len(store._log.segments) > 2
    for number in (0, 37, 119):
        finding = Finding(b"body-%d" % number, count=40)
        found = finding.read(store, 0, count=120)
        assert number in offsets(found) and found.next_offset == 120
        assert offsets(found) == [at for at in range(120) if b"body-%d" % number in b"body-%d" % at]


def test_a_prefilter_that_abstains_changes_nothing() -> None:
    store = filled(20, queue_file_size_bytes=2000)
    finding = Finding(b"body-", count=0)
    assert offsets(finding.read(store, 0, count=20)) == list(range(20)) and not finding.seen


def test_few_records_are_not_prefiltered() -> None:
    finding = Finding(b"body-5")
    assert offsets(finding.read(filled(RECORD_BATCH_COUNT_MIN - 1), 0)) == [5] and not finding.seen
    assert offsets(finding.read(filled(RECORD_BATCH_COUNT_MIN), 0)) == [5] and finding.seen


def test_tags_are_not_prefiltered() -> None:
    finding = Finding(b"body-5")
    store = filled(20, queue_file_size_bytes=2000)
    result = store.get("T", 0, 0, 9, 1 << 20, frozenset({tags_code("B")}), accept=finding.accept, prefilter=finding)
    assert offsets(result) == [5] and not finding.seen


def test_a_prefiltered_read_covers_more_units() -> None:
    store = filled(100, queue_file_size_bytes=4000, filter_scan_bytes=200)
    assert Finding(b"none", count=16).read(store, 0).next_offset == 10 * PREFILTERED_FACTOR
    assert Finding(b"none", count=0).read(store, 0).next_offset == 10


def test_what_a_prefilter_left_is_cached() -> None:
    store = filled(40, queue_file_size_bytes=2000)
    finding = Finding(b"body-23")
    assert offsets(finding.read(store, 0)) == [23]
    looked = len(finding.seen)
    assert offsets(finding.read(store, 0)) == [23]
    assert len(finding.seen) == looked and finding.accepted == [23, 23]
    put(store, "T", 0, b"body-23 again")
    assert offsets(finding.read(store, 0)) == [23, 40]  # the new one is read by itself
    other = Finding(b"body-7")
    assert offsets(other.read(store, 0)) == [7] and other.seen


def test_reads_from_other_offsets_share_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "STEP_COUNT", 16)
    store = filled(64, queue_file_size_bytes=2000)
    finding = Finding(b"body-50")
    assert offsets(finding.read(store, 0)) == [50]
    assert finding.seen == [[*range(at, at + 16)] for at in (0, 16, 32, 48)]
    finding.seen.clear()
    assert offsets(finding.read(store, 5)) == [50]
    assert finding.seen == [[*range(5, 16)]]


def test_a_deleted_topic_leaves_nothing_in_the_cache() -> None:
    store = filled(40, queue_file_size_bytes=2000)
    finding = Finding(b"body-23")
    assert offsets(finding.read(store, 0)) == [23]
    store.delete_topics("T")
    for number in range(40):
        put(store, "T", 0, b"body-%d" % (39 - number))
    assert offsets(finding.read(store, 0)) == [16]


def test_the_prefilter_cache_notices_damage_and_deletion() -> None:
    store = filled(40, queue_file_size_bytes=2000, segment_size_bytes=1 << 20)
    finding = Finding(b"body-23")
    finding.read(store, 0)
    damage(store, 23, 24)
    with pytest.raises(CorruptRecordError, match="offset 23 is corrupt"):
        finding.read(store, 0)
    assert finding.read(store, 24).next_offset == 40


def test_damage_stops_a_prefiltered_read() -> None:
    store = filled(40, queue_file_size_bytes=2000, segment_size_bytes=1 << 20)
    damage(store, 20, 24)  # its queue offset
    finding = Finding(b"body-")
    assert offsets(finding.read(store, 0, count=40)) == list(range(20))
    with pytest.raises(CorruptRecordError, match="offset 20 is corrupt"):
        finding.read(store, 20)


def test_accept_gets_whole_records() -> None:
    result = filled(6).get("T", 0, 0, 9, 1 << 20, accept=lambda record: b"body-4" in bytes(record))
    assert offsets(result) == [4]


def damage(store: MessageStore, queue_offset: int, at: int) -> int:
    physical_offset = store._queues.make("T", 0).unit(queue_offset)[0]
    segment = store._log.find(physical_offset)
    assert segment is not None
    place = physical_offset - segment.start + at
    segment.file.pwrite(place, bytes([segment.file.pread(place, 1)[0] ^ 0x10]))
    return physical_offset


@pytest.mark.parametrize("at", [3, 4, 7, 15, 27, 35])
@pytest.mark.parametrize("codes", [None, frozenset({tags_code("A"), tags_code("B")})])
def test_a_damaged_record_is_refused_and_its_neighbors_are_served(at: int, codes: frozenset[int] | None) -> None:
    store = filled(6)
    physical_offset = damage(store, 3, at)
    assert offsets(store.get("T", 0, 0, 32, 1 << 20, codes)) == [0, 1, 2]
    with pytest.raises(CorruptRecordError, match=f"offset 3 is corrupt at {physical_offset}"):
        store.get("T", 0, 3, 32, 1 << 20, codes)
    assert offsets(store.get("T", 0, 4, 32, 1 << 20, codes)) == [4, 5]


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 400), min_size=1, max_size=30),
    first_count=st.integers(1, 31),
    probe_count=st.integers(1, 31),
    count_max=st.integers(1, 32),
    bytes_max=st.integers(1, 8000),
    damaged=st.integers(0, 60),
)
def test_a_read_that_looks_at_few_units_first_finds_the_same(
    lengths: list[int], first_count: int, probe_count: int, count_max: int, bytes_max: int, damaged: int
) -> None:
    store = make_store(MemoryFiles(), segment_size_bytes=8000)
    store.open()
    for number, length in enumerate(lengths):
        put(store, "T" if number % 5 else "Other", 0, b"x" * length)
    last = store.max_offset("T", 0)
    if damaged < last:
        damage(store, damaged, 27)
    with pytest.MonkeyPatch.context() as patch:
        for offset in range(last):
            found = []
            for first, probe in ((len(lengths), len(lengths)), (first_count, probe_count)):
                patch.setattr(reading, "FIRST_COUNT", first)
                patch.setattr(windows, "RUN_PROBE_COUNT", probe)
                try:
                    result = store.get("T", 0, offset, count_max, bytes_max)
                except CorruptRecordError as error:
                    found.append(error.args)
                    continue
                found.append((result.status, result.next_offset, result.count, b"".join(result.chunks)))
            assert found[0] == found[1]


@pytest.mark.parametrize("bit", range(20 * 8))
def test_a_flipped_bit_of_a_unit_costs_no_message(bit: int) -> None:
    store = filled(6)
    for body in bodies(6):
        put(store, "Other", 0, body)
    store._queues.write_tails()
    queue = store._queues.make("T", 0)
    file = store._queues._queue_files.get(f"{queue.directory}/{0:020d}")
    at = 2 * 20 + bit // 8
    file.pwrite(at, bytes([file.pread(at, 1)[0] ^ (1 << bit % 8)]))
    results = [store.get("T", 0, start, 32, 1 << 20) for start in (0, 3)]
    found = {m.queue_offset: m for result in results for m in decode_records(b"".join(result.chunks))}
    assert sorted(found) == [0, 1, 2, 3, 4, 5]
    assert {m.topic for m in found.values()} == {"T"}


def test_record_at_checks_position() -> None:
    store = filled(2)
    size = len(store.record_at(0))
    assert decode_records(store.record_at(size))[0].body == b"body-1"
    with pytest.raises(CorruptRecordError):
        store.record_at(1)
    with pytest.raises(NotFoundError):
        store.record_at(store.physical_max_offset)


def test_units_are_read_across_the_file_and_the_tail() -> None:
    store = make_store(MemoryFiles(), queue_file_size_bytes=2000)
    store.open()
    for i, body in enumerate(bodies(40)):
        put(store, "T", 0, body)
        if i == 24:
            store._queues.write_tails()
    assert offsets(store.get("T", 0, 20, 10, 1 << 20)) == list(range(20, 30))
    assert [m.body for m in read_all(store, "T", 0)] == list(bodies(40))


def test_a_read_whose_time_is_over_ends_after_a_step_and_says_where() -> None:
    store, looked = filled(30, queue_file_size_bytes=2000), 0

    def accept(record: memoryview) -> bool:
        nonlocal looked
        looked += 1
        return False

    result = store.get("T", 0, 3, 32, 1 << 20, accept=accept, pace=Pace(4, lambda: looked >= 8))
    assert (looked, result.next_offset, result.status) == (8, 11, GetStatus.NO_MATCHED_MESSAGE)
    found = store.get("T", 0, 11, 32, 1 << 20, accept=lambda record: True, pace=Pace(4, lambda: True))
    assert (found.count, found.next_offset, found.status) == (4, 15, GetStatus.FOUND)
