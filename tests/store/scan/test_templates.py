"""Records that fit a template are read as the plain scanner reads them, and all others are recognized."""

from __future__ import annotations

from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.model.javahash import index_key_hash
from pymq.model.names import SCHEDULE_TOPIC
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.dispatch.bulk_dispatch import append_units, record_keys
from pymq.store.index.keyed_records import KeyRows
from pymq.store.log.log_record import unit_tags_code
from pymq.store.scan import scanner as scan
from pymq.store.scan.bulk import scan_bulk
from pymq.store.scan.columns import Records
from pymq.store.scan.templates import template_of
from pymq.store.settings import StoreSettings
from tests.store.scan.test_bulk import LOG, spread, store_of
from tests.store.support import BORN, make_store

COUNT = 40
# Names of properties, with the sizes of their values.
TEMPLATES = st.lists(
    st.tuples(st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "DELAY", "A", "MYKEYS"]), st.integers(0, 9)), max_size=4
)
LETTERS = st.sampled_from([*"ab =9", "\x01", "ä"])


@st.composite
def templated(draw: st.DrawFn) -> list[tuple[str, int, bytes, bytes, int, bytes]]:
    """Messages that mostly fit one template: some have letters of several bytes, some differ."""
    template, topic = draw(TEMPLATES), draw(st.sampled_from(["T", "Topic", SCHEDULE_TOPIC]))
    end = draw(st.sampled_from(["", "\x02"]))
    odd_from = draw(st.sampled_from([COUNT, COUNT, COUNT - 9, 20]))
    letters = cycle(draw(st.lists(LETTERS if draw(st.booleans()) else st.sampled_from("xyz"), min_size=5, max_size=7)))
    bodies = cycle(draw(st.lists(st.binary(max_size=30), min_size=1, max_size=5)))
    messages = []
    for number in range(COUNT):
        pairs = [f"{name}\x01{''.join(next(letters) for _ in range(size))}" for name, size in template]
        is_odd = number >= odd_from and number % 3 == 0
        properties = (("odd\x01" if is_odd else "") + "\x02".join(pairs) + end).encode()
        messages.append((topic, number % 3, next(bodies), properties, 0, BORN))
    return messages


@pytest.mark.slow
@settings(deadline=None)
@given(templated(), st.data())
def test_templated_records_equal_records_read_one_by_one(messages: list, data: st.DataObject) -> None:
    store, files = store_of(messages, 1)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, store.physical_max_offset - 1))
        files.nodes[LOG].data[at] ^= 1 << data.draw(st.integers(0, 7))
    check_crc = data.draw(st.booleans())
    in_bulk = spread(scan_bulk(store._log, 0, check_crc=check_crc))
    assert in_bulk == list(scan.scan(store._log, 0, check_crc=check_crc))


@pytest.mark.slow
@settings(deadline=None)
@given(templated())
def test_units_and_keys_of_templated_records_equal_the_plain_scanner_s(messages: list) -> None:
    store, _ = store_of(messages, 1)
    for part in scan_bulk(store._log, 0, check_crc=True):
        if not isinstance(part, Records):
            continue
        rows, records = KeyRows(), spread([part])
        for record in records:
            rows.add_record(record.topic, record.properties, record.offset, record.store_ms)
        hashes = [
            index_key_hash(topic, key.decode("utf-8", "replace"))
            for topic, key in zip(rows.topics, rows.keys, strict=True)
        ]
        assert [column.tolist() for column in record_keys(part)] == [hashes, rows.offsets, rows.times_ms]
        for queue, _ in append_units(part, make_store(MemoryFiles())._queues).grown:
            own = [record for record in records if record.queue_id == queue.queue_id]
            units = [queue.unit(number) for number in range(queue.max_offset)]
            assert units == [(r.offset, r.size, unit_tags_code(r, StoreSettings())) for r in own]


def test_messages_of_one_producer_are_templated() -> None:
    messages = [
        (
            "T",
            0,
            bytes(number % 50),
            b"UNIQ_KEY\x01%032d\x02WAIT\x01true\x02TAGS\x01Tag%c\x02" % (number, 65 + number % 5),
        )
        for number in range(COUNT)
    ]
    store, _ = store_of([(*message, 0, BORN) for message in messages], 1)
    records, end = list(scan_bulk(store._log, 0, check_crc=True))
    assert isinstance(records, Records)
    assert records.templated is not None
    assert records.properties == [properties for *_, properties in messages]
    assert records.select(records.queue_offsets[::7]).properties == records.properties[::7]
    assert end.offset == store.physical_max_offset


@pytest.mark.parametrize("odd_count", [9, 11])
def test_a_few_odd_records_are_parsed_one_by_one_many_are_not(odd_count: int) -> None:
    """Few means at most a quarter."""
    common, odd = ("T", 0, b"body", b"A\x01b\x02", 0, BORN), ("Other", 0, b"body", b"A\x01b\x02", 0, BORN)
    store, _ = store_of([*[common] * (COUNT - odd_count), *[odd] * odd_count], 1)
    parts = [part for part in scan_bulk(store._log, 0, check_crc=True) if isinstance(part, Records)]
    assert [part.templated is not None for part in parts] == [odd_count == 9]


@pytest.mark.parametrize(
    ("properties", "is_usable"),
    [
        (b"A\x01b\x02", True),
        (b"", True),
        (b"no end", True),
        (b"A\x01\x02\x02", True),
        (b"A\x01b\x01c\x02", False),  # a value with a separator in it
        (b"A\x01nul\x7f\x02", False),  # a NUL, see store_of
    ],
)
def test_a_template_needs_values_without_separators(properties: bytes, is_usable: bool) -> None:
    store, _ = store_of([("T", 0, b"body", properties, 0, BORN)], 1)
    piece = bytes(store.read_log(0, store.physical_max_offset))
    assert (template_of(piece, 0, len(piece), 0) is not None) == is_usable
