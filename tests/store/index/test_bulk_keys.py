"""Keys found in bulk equal those found plainly, also where records of a batch share their properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model.javahash import index_key_hash
from pymq.store.index import bulk_keys
from pymq.store.index.bulk_keys import waiting_keys
from pymq.store.index.keyed_records import BATCH_PROPERTIES_BYTES, KEY_WORDS_MAX, KeyColumns, KeyedRecords, KeyRows

PROPERTIES = st.sampled_from(
    [
        b"UNIQ_KEY\x01ABC\x02",
        b"KEYS\x01one two\x02UNIQ_KEY\x01\xc3\xa9\x02",
        b"a\x01KEY\x02",
        b"KEYS\x01 \x02",
        b"x\x01y\x02KEYS\x01b b\x02",
        b"KEYS\x01" + b" ".join(b"%d" % i for i in range(KEY_WORDS_MAX)) + b"\x02",
        b"KEYS\x01" + b"  ".join(b"%d" % i for i in range(KEY_WORDS_MAX + 2)) + b"\x02UNIQ_KEY\x01D\x02",
    ]
)
RUNS = st.lists(st.tuples(st.sampled_from(["T", "Other"]), PROPERTIES, st.integers(1, 5)), max_size=12)


def records_of(runs: list[tuple[str, bytes, int]]) -> KeyedRecords:
    """Return records; those of one run share one properties object, which no other run has."""
    records = KeyedRecords()
    for topic, properties, count in runs:
        shared = bytes(bytearray(properties))
        for _ in range(count):
            records.add(topic, shared, 100 * len(records), 7 * len(records))
    return records


def plain_columns(records: KeyedRecords) -> list[list[int]]:
    rows = KeyRows()
    for record in zip(records.topics, records.properties, records.offsets, records.times_ms, strict=True):
        rows.add_record(*record)
    keys = [key.decode("utf-8", "replace") for key in rows.keys]
    hashes = [index_key_hash(topic, key) for topic, key in zip(rows.topics, keys, strict=True)]
    return [hashes, rows.offsets, rows.times_ms]


def as_lists(columns: KeyColumns) -> list[list[int]]:
    return [column.tolist() for column in columns]


@given(RUNS)
def test_keys_of_batches_and_single_records_equal_those_found_plainly(runs: list[tuple[str, bytes, int]]) -> None:
    records = records_of(runs)
    assert as_lists(waiting_keys(records)) == plain_columns(records)


@pytest.mark.parametrize("batch_size", [8, 32, 61, 100])
@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_batch_is_read_once_wherever_it_begins(batch_size: int, before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    class Counting(bulk_keys.Properties):
        def __init__(self, properties: list[bytes]) -> None:
            nonlocal read
            read += len(properties)
            super().__init__(properties)

    monkeypatch.setattr(bulk_keys, "Properties", Counting)
    batches = [("T", b"UNIQ_KEY\x01%d\x02" % i, batch_size) for i in range(2048 // batch_size)]
    records = records_of([("T", b"UNIQ_KEY\x01single\x02", 1)] * before + batches)
    assert as_lists(waiting_keys(records)) == plain_columns(records)
    assert read == before + len(batches)


def test_the_first_words_of_a_message_are_indexed() -> None:
    rows = KeyRows()
    words = b" ".join(b"%d" % i for i in range(KEY_WORDS_MAX + 1))
    rows.add_record("T", b"UNIQ_KEY\x01U\x02KEYS\x01" + words + b"\x02", 0, 0)
    assert len(rows) == 1 + KEY_WORDS_MAX and rows.keys[0] == b"U" and rows.keys[-1] == b"%d" % (KEY_WORDS_MAX - 1)


def test_a_batch_ends_at_many_bytes_of_properties() -> None:
    records = KeyedRecords()
    for _ in range(5):
        records.add("T", b"KEYS\x01" + b"k" * (BATCH_PROPERTIES_BYTES // 2 - 5), 0, 0)
    assert [len(records.first(count)) for count in (1, 2, 3, 5)] == [1, 2, 2, 2]
    records.properties[0] = b"KEYS\x01" + b"k" * BATCH_PROPERTIES_BYTES
    assert len(records.first(5)) == 1
