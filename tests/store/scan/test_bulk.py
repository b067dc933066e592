"""Reading the log in columns gives the same as reading it record by record, for any bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError
from pymq.model.draft import Draft
from pymq.model.javahash import index_key_hash
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.properties import find_property
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.dispatch.bulk_dispatch import append_units, record_keys
from pymq.store.index.bulk_keys import Properties
from pymq.store.index.keyed_records import KeyRows
from pymq.store.log.log_record import Scanned, has_index_entries, unit_tags_code
from pymq.store.scan import bulk as bulk_scan
from pymq.store.scan import fast_scanner
from pymq.store.scan import scanner as scan
from pymq.store.scan.bulk import scan_bulk
from pymq.store.scan.columns import Records
from pymq.store.scan.scanner import End
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore
from tests.store.support import BORN, ROOT, everything, found_by_key, make_store

LOG = f"{ROOT}/commitlog/{0:020d}"
SEGMENT_BYTES = 1 << 14
NAMES = ["T", "Other", SCHEDULE_TOPIC, "%RETRY%" + "g" * 150]  # the last one makes version 2 records
PROPERTIES = st.lists(
    st.tuples(
        st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "DELAY", "A", "MYKEYS", ""]),
        st.sampled_from(["", "a", "2", "a b  c", "TAGS\x01x", "ä", "nul\x7f", "x" * 40]),
    ),
    max_size=4,
).map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode())
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.integers(0, 2),
        st.binary(max_size=60),
        st.one_of(PROPERTIES, st.just(b"UNIQ_KEY\x01key\x02TAGS\x01A\x02"), st.just(b"TAGS\x01no end")),
        st.sampled_from([0, 0, 0, 0x4, 0x8, 0xC]),  # transaction states
        st.sampled_from([BORN, BORN, BORN, bytes(20)]),
    ),
    max_size=60,
)


def store_of(
    messages: list[tuple[str, int, bytes, bytes, int, bytes]], copies: int
) -> tuple[MessageStore, MemoryFiles]:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock, segment_size_bytes=SEGMENT_BYTES, index_enabled=False)
    store.open()
    for topic, queue_id, body, properties, sys_flag, host in messages * copies:
        store.stage(topic, queue_id, Draft(body, properties, 5, host, 0, sys_flag=sys_flag))
        clock.advance(7)
    store.commit()
    for path, node in files.nodes.items():
        if "/commitlog/" in path:  # a NUL, which only another broker writes
            node.data[:] = node.data.replace(b"nul\x7f\x02", b"nul\0\x02")
    return store, files


def spread(parts: Any) -> list[Any]:
    """Return columns as single records."""
    found: list[Any] = []
    for part in parts:
        found += [part.at(i) for i in range(len(part))] if isinstance(part, Records) else [part]
    return found


@pytest.mark.slow
@settings(deadline=None)
@given(MESSAGES, st.integers(1, 12), st.data())
def test_columns_equal_the_plain_scanner(messages: list, copies: int, data: st.DataObject) -> None:
    store, files = store_of(messages, copies)
    for _ in range(data.draw(st.integers(0, 3)) if store.physical_max_offset else 0):
        at = data.draw(st.integers(0, min(store.physical_max_offset, SEGMENT_BYTES) - 1))
        files.nodes[LOG].data[at] ^= 1 << data.draw(st.integers(0, 7))
    check_crc = data.draw(st.booleans())
    torn_from = data.draw(st.sampled_from([None, 0, 500]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_scan, "PIECE_BYTES", data.draw(st.sampled_from([300, 2000, 1 << 20])))
        bulk = spread(scan_bulk(store._log, 0, check_crc=check_crc, torn_from=torn_from))
    plain = list(scan.scan(store._log, 0, check_crc=check_crc, torn_from=torn_from))
    assert bulk[:-1] == plain[:-1]
    assert bulk[-1].offset == plain[-1].offset


@pytest.mark.parametrize("host", [BORN, bytes(20)])
def test_every_flipped_bit_of_a_record_is_found_by_both_scanners(host: bytes) -> None:
    store, files = store_of([("T", 0, b"body", b"UNIQ_KEY\x01k\x02", 0, host)], 20)
    size = store.physical_max_offset // 20
    in_columns = 0
    for bit in range(8 * size):
        files.nodes[LOG].data[9 * size + bit // 8] ^= 1 << bit % 8
        parts = list(scan_bulk(store._log, 0, check_crc=True))
        in_columns += any(isinstance(part, Records) for part in parts)
        assert spread(parts) == list(scan.scan(store._log, 0, check_crc=True))
        files.nodes[LOG].data[9 * size + bit // 8] ^= 1 << bit % 8
    assert in_columns == 8 * size  # the neighbors of the damaged record


@pytest.mark.slow
@settings(deadline=None)
@given(MESSAGES.filter(bool))
def test_keys_and_tags_equal_the_plain_scanner_s(messages: list) -> None:
    store, _ = store_of(messages, 10)
    settings_ = StoreSettings()
    for part in scan_bulk(store._log, 0, check_crc=True):
        if not isinstance(part, Records):
            continue
        rows = KeyRows()
        for record in spread([part]):
            if has_index_entries(record.sys_flag):
                rows.add_record(record.topic, record.properties, record.offset, record.store_ms)
        hashes = [
            index_key_hash(topic, key.decode("utf-8", "replace"))
            for topic, key in zip(rows.topics, rows.keys, strict=True)
        ]
        assert [column.tolist() for column in record_keys(part)] == [hashes, rows.offsets, rows.times_ms]
        made = make_store(MemoryFiles())._queues
        appended = append_units(part, made)
        for queue, _ in appended.grown:
            own = [r for r in spread([part]) if (r.topic, r.queue_id) == (queue.topic, queue.queue_id)]
            own = [r for r in own if not r.sys_flag & 4]
            units = [queue.unit(i) for i in range(queue.max_offset)]
            assert units == [(r.offset, r.size, unit_tags_code(r, settings_)) for r in own]


def test_properties_are_found_per_record() -> None:
    joined = Properties(
        [
            b"A\x01b\x02",
            b"",
            b"K\x01one\x02K\x01two\x02",
            b"XK\x01no\x02",
            b"K\x01one\x02K\x01\x02",
            b"K\x01",
            b"K\x01last",
        ]
    )
    found = joined.find(b"K")
    assert dict(zip(found.owners.tolist(), joined.values(found), strict=True)) == {2: b"two", 4: b"one", 6: b"last"}


@pytest.mark.parametrize(
    "properties",
    [
        [b"K\x01one\x02", b"K\x01two\x02"],
        [b"A\x01b\x02K\x01one", b"A\x01c\x02K\x01two"],
        [b"A\x01b\x02K\x01one\x02", b"K\x01two\x02A\x01b\x02"],  # equal sizes, other places
        [b"K\x01one\x02K\x01two\x02", b"A\x01one\x02A\x01two\x02"],  # as many as records, all in the first
        [b"K\x01a\x02B\x01\x02", b"K\x01aaaaa\x02"],
        [b"K\x01\x02B\x01", b"K\x01\x02B\x01"],  # empty values
        [b"K\x01a\x02\x02", b"K\x01aa\x02"],
    ],
)
def test_equal_sizes_do_not_prove_equal_positions(properties: list[bytes]) -> None:
    joined = Properties(properties)
    found = joined.find(b"K")
    wanted = {
        place: value for place, each in enumerate(properties) if (value := find_property(each, b"K")) not in (None, b"")
    }
    assert dict(zip(found.owners.tolist(), joined.values(found), strict=True)) == wanted


def found_or_damaged(store: MessageStore, key: str) -> list[bytes] | str:
    try:
        return found_by_key(store, "T", key)
    except CorruptRecordError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(20))
def test_a_rebuild_in_columns_makes_the_same_store(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares queue and index files byte for byte, also for a log with damaged places."""
    chance = random.Random(seed)
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock, segment_size_bytes=SEGMENT_BYTES)
    store.open()
    for i in range(400):
        properties = b"UNIQ_KEY\x01U%d\x02" % i + chance.choice([b"", b"TAGS\x01A\x02", b"KEYS\x01a b%d\x02" % i])
        topic = chance.choice(["T", "T", "T", "Other", SCHEDULE_TOPIC])
        store.stage(
            topic,
            chance.randrange(3),
            Draft(b"%d" % i, properties, 5, BORN, 0, sys_flag=chance.choice([0, 0, 0, 0, 4, 12])),
        )
        if i % 50 == 7:
            store.commit()
            clock.advance(1000)
    store.commit()
    store.close()
    for name in ("consumequeue", "index"):
        files.remove_tree(f"{ROOT}/{name}")
    for _ in range(chance.randrange(4)):
        files.nodes[LOG].data[chance.randrange(SEGMENT_BYTES)] ^= 1 << chance.randrange(8)
    before = {path: bytes(node.data) for path, node in files.nodes.items()}
    results = []
    for plain_bytes in (1 << 30, 0):
        files = MemoryFiles()
        for path, content in before.items():
            files.makedirs(path.rpartition("/")[0])
            files.open(path, create=True).pwrite(0, content)
        monkeypatch.setattr(fast_scanner, "PLAIN_BYTES_MAX", plain_bytes)
        # Digests would refuse damage outside bodies, which neither scanner can find.
        store = make_store(files, ManualClock(), segment_size_bytes=SEGMENT_BYTES, digests_enabled=False)
        report = store.open()
        contents = everything(store) if not report.damaged else {}
        keys = [found_or_damaged(store, f"U{i}") for i in range(400)]
        store.close()
        results.append((report, contents, keys, {path: bytes(node.data) for path, node in files.nodes.items()}))
    assert results[0] == results[1]
    assert results[0][0].records_scanned > 0


def test_a_short_walk_does_not_load_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = store_of([("T", 0, b"body", b"", 0, BORN)], 50)
    size = store.physical_max_offset // 50
    monkeypatch.setattr(fast_scanner, "PLAIN_BYTES_MAX", 20 * size)
    kinds = [type(part) for part in fast_scanner.scan_fast(store._log, 0, check_crc=True)]
    assert kinds == [Scanned] * 20 + [Records, End]
