"""The vectorized decoder equals the plain one in results and refusals."""

from __future__ import annotations

import json
import struct
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.model import sysflag
from pymq.model.compression import compress_body
from pymq.model.properties import decode_properties
from pymq.model.record import MalformedRecordError, decode_records
from pymq.spark.records import decode as decode_module
from pymq.spark.records.decode import Decoder
from pymq.spark.records.layout import find_starts
from pymq.spark.records.property_columns import parse_mixed, parse_properties, parse_uniform
from pymq.spark.records.schema import COLUMNS, OF_REGISTRY, USUAL
from tests.spark.plain_rows import decode_plain
from tests.spark.record_bytes import property_strings, record, records

ALL = (*(column.name for column in COLUMNS if column.name != OF_REGISTRY), "property_a", "property_TAGS")


def rows_of(batches: Any) -> list[dict]:
    """Return rows with properties as dicts, also those in JSON, and sorted headers: their order has no meaning."""
    table = pa.Table.from_batches(list(batches))
    for time in ("bornTimestamp", "storeTimestamp"):
        if time in table.column_names:
            at = table.column_names.index(time)
            table = table.set_column(at, time, table.column(time).cast(pa.int64()))
    rows = table.to_pylist()
    for row in rows:
        if "properties" in row:
            assert len(dict(row["properties"])) == len(row["properties"]), "a map has a name twice"
            row["properties"] = dict(row["properties"])
        if "propertiesJson" in row:
            row["propertiesJson"] = json.loads(row["propertiesJson"])
        if "headers" in row:
            row["headers"] = sorted(row["headers"], key=lambda header: header["key"])
    return rows


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(records(), min_size=1, max_size=8))
def test_equals_the_plain_decoder(raw: list[bytes]) -> None:
    chunk = b"".join(raw)
    expected = decode_plain(decode_records(chunk), "broker-a", ALL)
    found = list(Decoder("broker-a", ALL).decode(chunk))
    assert all(batch.schema.equals(expected.schema) for batch in found)
    assert rows_of(found) == rows_of([expected])


@settings(max_examples=200, deadline=None)
@given(st.lists(property_strings, min_size=1, max_size=6), st.integers(1, 3))
def test_properties_equal_the_plain_parser(strings: Any, repeats: Any) -> None:
    table = parse_properties(pa.array(strings * repeats, pa.binary()))
    expected = [decode_properties(raw) for raw in strings * repeats]
    assert [dict(entries) for entries in table.maps().to_pylist()] == expected
    assert [json.loads(text) for text in table.json_texts().to_pylist()] == expected
    assert table.values_of("TAGS").to_pylist() == [row.get("TAGS") for row in expected]


@pytest.mark.parametrize("names", [["a"] * 3, ["a", "b", "a"]])
@pytest.mark.parametrize("value", ["plain", 'a "quote"', "a\\slash", "\t\x1f\r\n", "ключ \u2028", "\x7f{}[],:'"])
def test_json_of_properties(names: list[str], value: str) -> None:
    raw = [f"{name}\x01{value}\x02{value}\x01{name}\x02".encode() for name in names]
    texts = parse_properties(pa.array(raw, pa.binary())).json_texts().to_pylist()
    assert [json.loads(text) for text in texts] == [{name: value, value: name} for name in names]


NAMES = ["TAGS", "KEYS", "UNIQ_KEY", "a", "ключ"]
TEXT = st.text(st.characters(exclude_characters="\x00\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), st.data())
def test_rows_of_one_template_equal_the_parser_of_any_rows(names: list[str], data: Any) -> None:
    values = data.draw(st.lists(st.lists(TEXT, min_size=len(names), max_size=len(names)), min_size=1, max_size=5))
    rows = ["".join(f"{n}\x01{v}\x02" for n, v in zip(names, row, strict=True)).encode() for row in values]
    raw = pa.array([b"before", *rows, b"after"], pa.binary()).slice(1, len(rows))
    found, expected = parse_uniform(raw), parse_mixed(raw)
    assert found is not None
    assert found.maps().to_pylist() == expected.maps().to_pylist()
    assert found.headers().to_pylist() == expected.headers().to_pylist()
    for name in NAMES:
        assert found.values_of(name).to_pylist() == expected.values_of(name).to_pylist()


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [b""],
        [b"a\x01b\x02", b""],
        [b"a\x01b\x02", b"a\x01b"],
        [b"a\x01b\x02", b"c\x01b\x02"],
        [b"a\x01b\x02", b"aa\x01b\x02"],
        [b"a\x01\x02", b"a\x01\x02"],
        [b"\x01b\x02"],
        [b"a\x01b\x00\x02"],
        [b"a\x02b\x01", b"a\x02b\x01"],
        [b"a\x01b\x02c\x01d\x02", b"a\x01b\x02", b"a\x01b\x02c\x01d\x02e\x01f\x02"],
        [b"a\x01b\x02c\x01d\x02", b"c\x01d\x02a\x01b\x02"],
    ],
)
def test_other_rows_have_no_template(rows: list[bytes]) -> None:
    assert parse_uniform(pa.array(rows, pa.binary())) is None


@pytest.mark.parametrize("raw", [b"\xff\x01b\x02", b"a\x01\xff\x02"])
def test_a_template_is_utf_8(raw: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        parse_uniform(pa.array([raw] * 3, pa.binary()))
    (found,) = {tuple(row) for row in parse_properties(pa.array([raw] * 3, pa.binary())).maps().to_pylist()}
    assert dict(found) == decode_properties(raw)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 150)), min_size=1, max_size=6), st.integers(-2, 2))
def test_starts_of_runs_of_equal_sizes(runs: list[tuple[int, int]], cut: int) -> None:
    raw = [record(n, b"x" * size) for size, count in runs for n in range(count)]
    chunk = b"".join(raw)
    expected = [0, *accumulate(map(len, raw))][:-1]
    assert find_starts(chunk).tolist() == expected
    if cut:
        with pytest.raises(MalformedRecordError):
            find_starts(chunk[:cut] if cut < 0 else chunk + b"\0" * cut)


def test_names_repeated_in_every_row_keep_the_last_value() -> None:
    # The form of a batch's messages: the batch's own unique key follows each message's.
    raw = [b"UNIQ_KEY\x01m%d\x02TAGS\x01A\x02UNIQ_KEY\x01batch\x02" % n for n in range(5)]
    table = parse_properties(pa.array(raw, pa.binary()))
    assert table.values_of("UNIQ_KEY").to_pylist() == ["batch"] * 5
    assert [dict(row) for row in table.maps().to_pylist()] == [{"TAGS": "A", "UNIQ_KEY": "batch"}] * 5


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(records(), min_size=1, max_size=3), st.data())
def test_damaged_bytes_raise_one_error_or_decode(raw: list[bytes], data: Any) -> None:
    chunk = bytearray(b"".join(raw))
    for _ in range(data.draw(st.integers(1, 3))):
        chunk[data.draw(st.integers(0, len(chunk) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(chunk)))
    for damaged in (bytes(chunk), bytes(chunk[:cut])):
        try:
            list(Decoder("b", ALL).decode(damaged))
        except MalformedRecordError:
            continue


def test_columns_come_in_the_order_asked() -> None:
    chunk = record(1) + record(2)
    (batch,) = Decoder("b", ("queueOffset", "tags")).decode(chunk)
    assert batch.to_pylist() == [{"queueOffset": 1, "tags": "A"}, {"queueOffset": 2, "tags": "B"}]


def test_the_default_columns_and_no_rows() -> None:
    assert Decoder("b").columns == USUAL
    assert list(Decoder("b").decode(b"")) == []


def test_unknown_and_double_columns_are_refused() -> None:
    with pytest.raises(UsageError, match="no column 'nope'"):
        Decoder("b", ("nope",))
    with pytest.raises(UsageError, match="duplicate"):
        Decoder("b", ("tags", "tags"))


def test_a_body_that_cannot_be_inflated_keeps_its_bytes_and_its_bit() -> None:
    body, bits = compress_body(b"x" * 100, "zlib")
    chunk = record(0, b"no zlib", sys_flag=bits) + record(1, body, sys_flag=bits) + record(2, b"plain")
    (batch,) = Decoder("b", ("body", "sysFlag")).decode(chunk)
    assert batch.column("body").to_pylist() == [b"no zlib", b"x" * 100, b"plain"]
    assert [flag & sysflag.COMPRESSED for flag in batch.column("sysFlag").to_pylist()] == [1, 0, 0]


def test_bodies_beyond_a_multiple_of_all_messages_keep_their_bytes_and_their_bit() -> None:
    """Also when they come with another chunk of the range."""
    bomb, bits = compress_body(bytes(1_000_000), "zlib")
    decoder = Decoder("b", ("body", "sysFlag"), inflation_ratio_max=1)
    sizes: list[int] = []
    for at in range(0, 80, 20):
        for batch in decoder.decode(b"".join(record(at + number, bomb, sys_flag=bits) for number in range(20))):
            sizes += [len(body) for body in batch.column("body").to_pylist()]
            flags = batch.column("sysFlag").to_pylist()
            assert [bool(flag & sysflag.COMPRESSED) for flag in flags] == [
                size == len(bomb) for size in sizes[-len(flags) :]
            ]
    assert sizes == [1_000_000] * 67 + [len(bomb)] * 13  # 64 MiB


def test_large_inflated_bodies_are_spread_over_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "INFLATED_BATCH_MAX_BYTES", 2500)
    body, bits = compress_body(b"y" * 1000, "zlib")
    chunk = b"".join(record(n, body if n % 2 else b"p", sys_flag=bits if n % 2 else 0) for n in range(12))
    batches = list(Decoder("b", ("queueOffset", "body")).decode(chunk))
    assert len(batches) == 3
    assert rows_of(batches) == [{"queueOffset": n, "body": b"y" * 1000 if n % 2 else b"p"} for n in range(12)]


def test_a_wrong_magic_names_the_place() -> None:
    good, bad = record(0), bytearray(record(1))
    struct.pack_into(">i", bad, 4, 7)
    with pytest.raises(MalformedRecordError, match=f"record at {len(good)} has no message magic"):
        list(Decoder("b").decode(good + bytes(bad)))
