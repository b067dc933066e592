"""Whole exports into tables, by the command's logic and without Spark: bodies of a schema, upserts, what continues."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import fastavro
import pytest
from deltalake import DeltaTable

from pymq.errors import PymqError, UsageError
from pymq.spark.export import export
from pymq.spark.export.options import ExportOptions
from pymq.spark.planning.ranges import ResumeError
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.record_bytes import record
from tests.spark.tables.exports import FORMATS, rows

DAY_MS = 86_400_000
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "double"}]}
MORE = {**FIRST, "fields": [*FIRST["fields"], {"name": "country", "type": ["null", "string"], "default": None}]}


def avro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def exported(cluster: FakeCluster, output: Path, table_format: str, **fields: Any) -> int:
    options = ExportOptions(namesrv=cluster.address, topics=("T",), output=output, format=table_format, **fields)
    return export.run(options).rows


@pytest.mark.parametrize("table_format", FORMATS)
def test_bodies_of_a_schema_are_columns_and_fields_may_come(tmp_path: Path, table_format: str) -> None:
    file, out = tmp_path / "order.avsc", tmp_path / "out"
    given: dict[str, Any] = {"body": "avro", "body_schema": str(file), "bad_records": "table"}
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(0, avro(FIRST, {"amount": 1.5})), record(1, b"\x01")])
        file.write_text(json.dumps(FIRST))
        assert exported(cluster, out, table_format, **given) == 2
        cluster.add("T", 0, [record(2, avro(MORE, {"amount": 2.5, "country": "DE"}))])
        file.write_text(json.dumps(MORE))
        assert exported(cluster, out, table_format, **given) == 1
        file.write_text(json.dumps({**FIRST, "fields": [{"name": "amount", "type": "string"}]}))
        with pytest.raises(ResumeError, match="can't take these columns"):
            exported(cluster, out, table_format, **given)
    found = {row["queueOffset"]: row for row in rows(out, table_format).to_pylist()}
    assert found[0]["body"] == {"amount": 1.5, "country": None} and found[0]["badRecord"] is None
    assert found[1]["body"] is None and found[1]["badRecord"]["body"] == b"\x01"
    assert (found[1]["badRecord"]["brokerName"], found[1]["badRecord"]["queueOffset"]) == (BROKER, 1)
    assert found[2]["body"] == {"amount": 2.5, "country": "DE"}


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_run_without_new_rows_tidies_too(tmp_path: Path, table_format: str) -> None:
    now_ms = int(time.time() * 1000)
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(n, store_timestamp_ms=now_ms - n * DAY_MS) for n in range(5)])
        assert exported(cluster, tmp_path, table_format) == 5
        assert exported(cluster, tmp_path, table_format, keep_days=2) == 0
        assert len(rows(tmp_path, table_format)) == 3
        assert exported(cluster, tmp_path, table_format) == 0, "the table still knows its ends"


def test_a_bad_record_fails_or_is_null_in_plain_files_too(tmp_path: Path) -> None:
    schema = json.dumps(FIRST)
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(0, avro(FIRST, {"amount": 1.5})), record(1, b"\x01")])
        with pytest.raises(PymqError, match=r"T.*1"):
            exported(cluster, tmp_path / "fails", "parquet", body="avro", body_schema=schema)
        assert exported(cluster, tmp_path / "null", "parquet", body="avro", body_schema=schema, bad_records="null") == 2
        with pytest.raises(ResumeError, match="body was"):
            exported(
                cluster, tmp_path / "null", "parquet", body="avro", body_schema=json.dumps(MORE), bad_records="null"
            )


def test_the_latest_of_each_key(tmp_path: Path) -> None:
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(0, b"old"), record(1, b"x")])
        fields: dict[str, Any] = {"mode": "upsert", "key": "property_TAGS", "partition_by": ("topic",)}
        columns = ("topic", "queueOffset", "storeTimestamp", "body", "property_TAGS")
        assert exported(cluster, tmp_path, "delta", columns=columns, **fields) == 2
        cluster.add("T", 0, [record(2, b"new"), record(3, b"")])
        assert exported(cluster, tmp_path, "delta", columns=columns, **fields) == 2
    (row,) = DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    assert (row["property_TAGS"], row["body"]) == ("B", b"new")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"body": "avro"}, "bodies of avro need a schema: give --body-schema FILE"),
        ({"body": "avro", "body_schema": "none.avsc"}, r"none\.avsc"),
        ({"body": "utf8", "bad_records": "null"}, "are for bodies of Avro or Protobuf, not utf8"),
        ({"body": "json", "registry": "http://x"}, "are for bodies of Avro or Protobuf, not json"),
        ({"body": "avro", "body_schema": "{}", "bad_records": "skip"}, "bad-records 'skip' is unknown"),
        ({"body": "avro", "body_schema": "{}", "columns": ("topic",)}, "which --columns lacks"),
        ({"body": "avro", "body_schema": "{}", "mode": "upsert", "partition_by": ("topic",)}, "an empty body"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with FakeCluster() as cluster, pytest.raises(UsageError, match=reason):
        exported(cluster, tmp_path / "out", "delta", **fields)
    assert not (tmp_path / "out").exists()
