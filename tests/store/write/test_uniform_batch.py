"""Batches of equal entries have the same bytes whether columns or the loop encodes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.model.draft import Draft
from pymq.model.hosts import pack_host
from pymq.model.record import decode_records, encode_batch_entry
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.index.keyed_records import KeyRows
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_files import QueueFiles
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore
from pymq.store.write.uniform_batch import COUNT_MIN, BatchPlace, encode_uniform

HOST = pack_host("127.0.0.1", 10911)
SHARED = b"UNIQ_KEY\x01ABC\x02WAIT\x01true\x02"


def place() -> BatchPlace:
    queue = ConsumeQueue(QueueFiles(MemoryFiles(), "/s/consumequeue", 20_000, 1), "T", 3)
    queue.next_offset = 7
    return BatchPlace(queue, physical_offset=1000, store_ms=6, store_host=HOST)


def stage(entries: bytes, *, by_columns: bool) -> tuple[Any, bytes, bytes, Any]:
    """Return (result, bytes staged for the log, units staged for the queue, keys for the index)."""
    settings = StoreSettings(
        segment_size_bytes=1 << 20, queue_file_size_bytes=20_000, index_slot_count=10, index_entry_count=100
    )
    store = MessageStore(root="/s", files=MemoryFiles(), clock=ManualClock(), settings=settings, store_host=HOST)
    store.open()
    # The first record makes the segment that the short ways need.
    store.stage("T", 3, Draft(b"first", b"", 5, HOST))
    store.commit()
    stager = store.plain_stager()
    queue = stager.queue("T", 3)
    assert queue is not None
    store.set_bulk_ready(by_columns)
    result = stager.stage_batch(queue, Draft(entries, SHARED, 5, HOST), 32767, (b"DELAY\x01",))
    rows = KeyRows()
    keys = store._appender.staged.keys
    for record in zip(keys.topics, keys.properties, keys.offsets, keys.times_ms, strict=True):
        rows.add_record(*record)
    found = list(zip(rows.topics, rows.keys, rows.offsets, rows.times_ms, strict=True))
    return result, b"".join(store._log.parts), b"".join(queue.staged), found


@pytest.mark.parametrize("count", [1, COUNT_MIN - 1, COUNT_MIN, 32, 500])
@pytest.mark.parametrize(
    "own", [b"", b"UNIQ_KEY\x01x\x02", b"a\x01b\x02c\x01d\x02", b"TAGS\x01A\x02", b"a\x01b\x02TAGS\x01ABC\x02"]
)
@pytest.mark.parametrize("body_size", [0, 1, 128])
def test_equal_entries_give_the_same_bytes_as_the_loop(count: int, own: bytes, body_size: int) -> None:
    entries = b"".join(encode_batch_entry(bytes([i % 256]) * body_size, own, flag=i) for i in range(count))
    columns = stage(entries, by_columns=True)
    loop = stage(entries, by_columns=False)
    assert columns == loop
    assert [message.flag for message in decode_records(columns[1])] == list(range(count))


def with_numbers(template: bytes) -> bytes:
    """Return a batch whose entries' properties differ in a number of three digits."""
    return b"".join(encode_batch_entry(b"body%03d" % i, template.replace(b"###", b"%03d" % i)) for i in range(200))


@pytest.mark.parametrize(
    ("template", "is_told_once"),
    [
        (b"UNIQ_KEY\x01A###\x02WAIT\x01true\x02TAGS\x01TagA\x02", True),
        (b"TAGS\x01TagA\x02KEYS\x01order\x02UNIQ_KEY\x01###\x02", True),
        (b"KEYS\x01order###\x02UNIQ_KEY\x01###\x02", False),
        (b"TAGS\x01Tag###\x02UNIQ_KEY\x01x\x02", False),
        (b"XUNIQ_KEY\x01###\x02TAGS\x01A\x02", False),
        (b"TAGS\x01UNIQ_KEY\x01###\x02", False),
        (b"UNIQ_KEY\x01-###\x02", False),
    ],
)
def test_properties_that_differ_only_in_the_unique_key_are_parsed_once(template: bytes, is_told_once: bool) -> None:
    entries = with_numbers(template)
    encoded = encode_uniform(Draft(entries, SHARED, 5, HOST), place())
    if encoded is not None:
        assert (len(encoded.own) == encoded.own_size) == is_told_once
    assert stage(entries, by_columns=True) == stage(entries, by_columns=False)


@pytest.mark.parametrize("word", [b"DELAY\x01", b"XDELAY\x01"])
@pytest.mark.parametrize("number", [0, 100, 199])
def test_an_unusual_word_is_found_in_any_entry(word: bytes, number: int) -> None:
    usual = b"UNIQ_KEY\x01A###\x02" + b"D" * (len(word) - 1) + b"\x011\x02"
    owns = [usual.replace(b"###", b"%03d" % i) for i in range(200)]
    owns[number] = owns[number].replace(b"D" * (len(word) - 1) + b"\x01", word)
    entries = b"".join(encode_batch_entry(b"body", own) for own in owns)
    assert stage(entries, by_columns=True)[0] is None
    assert stage(entries, by_columns=False)[0] is None


def test_entries_of_different_sizes_are_left_to_the_loop() -> None:
    one = encode_batch_entry(b"body", b"a\x01b\x02")
    assert encode_uniform(Draft(one * COUNT_MIN, SHARED, 5, HOST), place()) is not None
    for entries in (
        one * (COUNT_MIN - 1),
        one * COUNT_MIN + encode_batch_entry(b"body2", b"a\x01b\x02"),
        one * COUNT_MIN + encode_batch_entry(b"bodya", b"\x01b\x02"),
        encode_batch_entry(b"body", b"a\x01b") * COUNT_MIN,
        one * COUNT_MIN + b"\0",
        b"\0" * 22 * COUNT_MIN,
        b"\xff" * 22 * COUNT_MIN,
        b"",
    ):
        assert encode_uniform(Draft(entries, SHARED, 5, HOST), place()) is None
    assert encode_uniform(Draft(one * COUNT_MIN, b"x" * 32767, 5, HOST), place()) is None


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_flipped_byte_never_makes_other_records_than_the_loop(data: st.DataObject) -> None:
    own = data.draw(
        st.sampled_from(
            [b"a\x01b\x02", b"KEYS\x01k\x02UNIQ_KEY\x01u\x02", b"TAGS\x01AB\x02", b"a\x01TAGS\x02", b"XTAGS\x01a\x02"]
        )
    )
    raw = bytearray(encode_batch_entry(b"body", own) * COUNT_MIN)
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    columns = stage(bytes(raw), by_columns=True)
    loop = stage(bytes(raw), by_columns=False)
    assert columns == loop
