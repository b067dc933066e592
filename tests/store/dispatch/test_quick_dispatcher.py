"""QuickDispatcher gives the same as the plain dispatcher for any records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.model.properties import find_property
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.dispatch import quick_dispatcher as quick_feed
from pymq.store.dispatch.queue_dispatcher import QueueDispatcher
from pymq.store.dispatch.quick_dispatcher import QuickDispatcher
from pymq.store.index.keyed_records import KeyedRecords
from pymq.store.log.log_record import Scanned, has_index_entries
from pymq.store.scan.scanner import scan
from pymq.store.store import MessageStore
from tests.store.scan.test_bulk import MESSAGES, store_of
from tests.store.support import make_store

TAGS = [
    b"TAGS\x01A\x02",
    b"TAGS\x01A",
    b"TAGS\x01AB",
    b"TAGS\x01\xc3\xa4\x02",
    b"XTAGS\x01B\x02",
    b"TAGS\x01A\x02TAGS\x01\x02",
    b"TAGS\x01\x02",
    b"TAGS\x01A\x02X\x01TAGS\x01B\x02",
]


def fed(master: MessageStore) -> tuple[MessageStore, QueueDispatcher]:
    """Return a store with the same log, of which nothing is dispatched yet."""
    slave = make_store(MemoryFiles(), segment_size_bytes=1 << 20)
    slave.open()
    follower = slave.follow()
    follower.append(0, bytes(master.read_log(0, 1 << 20)))
    dispatcher = QueueDispatcher(
        slave._log, slave._queues, slave.settings, on_grown=lambda queue, first: None, on_gap=lambda text: None,
        on_damage=lambda start, end, why: None, note=lambda text: None,
    )  # fmt: skip
    return slave, dispatcher


def units(store: MessageStore) -> dict[tuple[str, int], bytes]:
    return {(queue.topic, queue.queue_id): bytes(queue.tail) for queue in store._queues}


def compare(master: MessageStore, cut: int) -> None:
    piece = bytes(master.read_log(0, 1 << 20))
    piece = piece[: len(piece) - cut]
    quick, dispatcher = fed(master)
    keys = KeyedRecords()
    taken = QuickDispatcher(quick._queues, quick._lights, dispatcher, lambda queue, first: None).take(
        piece, 0, keys, check_crc=True
    )
    plain, plain_dispatcher = fed(master)
    wanted, records = KeyedRecords(), []
    for record in scan(plain._log, 0, check_crc=True, stop=len(piece)):
        if isinstance(record, Scanned):
            plain_dispatcher.take(record)
            records.append(record)
            if has_index_entries(record.sys_flag):
                wanted.add(record.topic, record.properties, record.offset, record.store_ms)
    assert units(quick) == units(plain)
    assert dispatcher.unit_count == plain_dispatcher.unit_count
    assert [getattr(keys, name) for name in KeyedRecords.__slots__] == [
        getattr(wanted, name) for name in KeyedRecords.__slots__
    ]
    assert (taken.size, taken.record_count) == (sum(record.size for record in records), len(records))
    times = [record.store_ms for record in records]
    assert [taken.before_ms, taken.newest_ms][2 - min(len(times), 2) :] == times[-2:]


@settings(deadline=None)
@given(MESSAGES, st.integers(1, 2), st.integers(0, 200))
def test_any_records(messages: list, copies: int, cut: int) -> None:
    master, _ = store_of(messages, copies)
    compare(master, min(cut, len(master.read_log(0, 1 << 20))))


@pytest.mark.parametrize("properties", TAGS)
def test_tags_wherever_they_stand(properties: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bytes(8)
    ways = [properties, b"TAGS\x01A\x02", properties]
    master, _ = store_of([("T", 0, b"", each, 0, host) for each in ways], 2)
    compare(master, 0)
    monkeypatch.setattr(quick_feed, "_TAG_CODES_MAX", 0)
    compare(master, 0)
    assert find_property(properties, b"TAGS") in (b"A", b"AB", "ä".encode(), b"B", None, b"")


@pytest.mark.parametrize("at", [3, 4, 12, 20, 31, 39, 56, 87, 90, 91, 92])
def test_a_flipped_bit_is_left_to_the_plain_dispatcher(at: int) -> None:
    """Flips bits in each field of the second record's head, its topic and its lengths."""
    for bit in range(8):
        master, files = store_of([("T", n % 2, b"x", b"A\x01b\x02", 0, bytes(8)) for n in range(6)], 1)
        size = len(master.read_log(0, 1 << 20)) // 6
        files.nodes[next(path for path in files.nodes if "/commitlog/" in path)].data[size + at] ^= 1 << bit
        compare(master, 0)
