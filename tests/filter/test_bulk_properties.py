"""Properties found in many records at once equal those found one by one."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pymq.filter.bulk_properties import PROPERTIES_BYTES_MAX, PropertyTable
from pymq.filter.raw_properties import getter, source_of
from pymq.model import sysflag
from pymq.model.layout import MAGIC_V2
from tests.filter.records import record

NAMES = ["a", "b", "ab", "TAGS"]
PIECES = st.sampled_from([*NAMES, "x", "5", "\x01", "\x02", "\x01", "\x02", "a\x015\x02", "\x02ab\x01"])
RAWS = st.lists(st.lists(PIECES, max_size=12).map("".join), min_size=1, max_size=8)


def table_of(records: list[bytes]) -> PropertyTable:
    return PropertyTable(b"".join(records), np.array([0, *accumulate(map(len, records))]))


def values(table: PropertyTable, name: str) -> list[bytes | str | None]:
    """Return the value of each record; "?" where the table does not know it."""
    column = table.column(name)
    texts = zip(table.texts(column.starts), column.is_found.tolist(), column.is_sure.tolist(), strict=True)
    return [(text if is_found else None) if is_sure else "?" for text, is_found, is_sure in texts]


@given(RAWS, st.booleans())
def test_equal_to_finding_one_by_one(raws: list[str], in_body: bool) -> None:
    records = [record(raw.encode(), body=raw.encode() if in_body else b"x") for raw in raws]
    table = table_of(records)
    for name in NAMES:
        expected = [getter(name)(source_of(memoryview(stored))) for stored in records]
        found = values(table, name)
        assert [each for each, value in zip(expected, found, strict=True) if value != "?"] == [
            value for value in found if value != "?"
        ]
        # Only an empty value is left to the plain reader.
        sources = [source_of(memoryview(stored)) + b"\x02" for stored in records]
        empty = f"\x02{name}\x01\x02".encode()
        assert all(empty in source for source, value in zip(sources, found, strict=True) if value == "?")


def test_begins_with_compares_value_prefixes() -> None:
    table = table_of([record(b"a\x01red\x02"), record(b"a\x01redder"), record(b"a\x01blue\x02b\x01red\x02")])
    starts = table.column("a").starts
    assert table.begins_with(starts, b"red").tolist() == [True, True, False]
    assert table.begins_with(starts, b"red\x02").tolist() == [True, False, False]
    assert table.begins_with(starts, b"r" * 100).tolist() == [False, False, False]


def test_uncommon_records_are_left_to_the_plain_reader() -> None:
    good = record(b"a\x015\x02")
    v2 = good[:4] + MAGIC_V2.to_bytes(4, "big", signed=MAGIC_V2 < 0) + good[8:]
    v6 = good[:36] + sysflag.BORN_HOST_V6.to_bytes(4, "big") + good[40:]
    negative = good[:84] + b"\xff\xff\xff\xff" + good[88:]
    long = good[:84] + b"\x00\xff\xff\xff" + good[88:]
    ragged = good[:-8]
    large = record(b"a\x01" + b"x" * PROPERTIES_BYTES_MAX)
    table = table_of([v2, v6, negative, long, large, good, ragged])
    assert values(table, "a") == ["?"] * 5 + [b"5", "?"]


def test_no_record_has_properties() -> None:
    assert values(table_of([record(b""), record(b"")]), "a") == [None, None]
