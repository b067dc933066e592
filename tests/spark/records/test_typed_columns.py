"""Batches with bodies of a schema: other columns beside them, bad records, and batches of bounded size."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from pymq.errors import UsageError
from pymq.model import sysflag
from pymq.model.compression import compress_body
from pymq.spark.bodies import typed_bodies
from pymq.spark.records.decode import Decoder
from tests.spark.bodies.body_schemas import json_format
from tests.spark.record_bytes import record

FORMAT = json_format("a int", on_bad="table")
BODIES = [b'{"a":1}', b"text", b'{"a":3}']


def chunk(bodies: list[bytes]) -> bytes:
    return b"".join(record(number, body) for number, body in enumerate(bodies))


def test_a_bad_record_says_where_it_is_and_why() -> None:
    columns = ("queueOffset", "body", "badRecord", "value")
    (batch,) = Decoder("b", columns, body_schema=FORMAT).decode(chunk(BODIES))
    assert batch.schema.names == list(columns)
    assert batch.column("body").to_pylist() == [{"a": 1}, None, {"a": 3}]
    assert batch.column("value").to_pylist() == BODIES
    bad = batch.column("badRecord").to_pylist()
    assert bad[0] is bad[2] is None
    reason = bad[1].pop("reason")
    assert bad[1] == {"topic": "T", "brokerName": "b", "queueId": 0, "queueOffset": 1, "body": b"text"}
    assert reason.startswith("JSON is malformed")


def test_a_bad_record_fails_the_read_and_is_named() -> None:
    decoder = Decoder("b", ("body",), body_schema=replace(FORMAT, on_bad="fail"))
    with pytest.raises(UsageError) as caught:
        list(decoder.decode(chunk(BODIES)))
    assert str(caught.value) == (
        "the body of T/b/0@1 is no json of the option bodySchema: JSON is malformed: invalid character (byte 4); give "
        "another schema, or read on with onBadRecord null or table"
    )


def test_bodies_are_read_only_where_they_are_asked_for() -> None:
    failing = replace(FORMAT, on_bad="fail")
    (batch,) = Decoder("b", ("queueOffset", "value"), body_schema=failing).decode(chunk(BODIES))
    assert batch.num_rows == 3
    (batch,) = Decoder("b", ("badRecord",), body_schema=FORMAT).decode(chunk(BODIES))
    assert batch.column("badRecord").null_count == 2


def test_more_values_than_fit_make_further_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [b'{"a":%d}' % number if number % 5 else b"bad" for number in range(20)]
    columns = ("queueOffset", "body", "badRecord")
    whole = pa.Table.from_batches(Decoder("b", columns, body_schema=FORMAT).decode(chunk(bodies)))
    monkeypatch.setattr(typed_bodies, "BATCH_VALUES_MAX", 17)
    parts = list(Decoder("b", columns, body_schema=FORMAT).decode(chunk(bodies)))
    assert max(part.num_rows for part in parts) <= 5
    assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()


def test_one_body_may_fill_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_bodies, "BATCH_VALUES_MAX", 1)
    parts = list(Decoder("b", ("body",), body_schema=FORMAT).decode(chunk(BODIES[:1] * 3)))
    assert [part.num_rows for part in parts] == [1, 1, 1]


def test_the_size_of_a_body_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_bodies, "BODY_BYTES_MAX", 7)
    (batch,) = Decoder("b", ("body", "badRecord"), body_schema=FORMAT).decode(chunk([b'{"a":1}', b'{"a":1} ']))
    assert batch.column("body").to_pylist() == [{"a": 1}, None]
    assert batch.column("badRecord").to_pylist()[1]["reason"] == "it has 8 bytes, the limit is 7"


def test_compressed_bodies_are_inflated_or_bad() -> None:
    body, bits = compress_body(b'{"a":5}', "zlib")
    mixed = record(0, body, sys_flag=bits | sysflag.COMPRESSED) + record(1, b"xyz", sys_flag=sysflag.COMPRESSED)
    (batch,) = Decoder("b", ("body", "badRecord"), body_schema=FORMAT).decode(mixed)
    assert batch.column("body").to_pylist() == [{"a": 5}, None]
    assert batch.column("badRecord").to_pylist()[1]["reason"] == "it can't be decompressed"
