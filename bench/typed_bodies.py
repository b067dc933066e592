"""Measures reads of bodies as columns beside reads of their bytes: ``python -m bench.typed_bodies``.

One order of eight fields, a list of three lines among them, is in a topic for each format. A query reads each topic
into nothing, with its bytes and with its columns in turn; the best of the rounds counts, and CPU is that of Spark.
"""

import argparse
import io
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from bench.process import cpu_seconds
from pymq.client.protobuf_files import compiled
from pymq.spark.session import gateway
from pymq.testing.standalone import StandaloneProcess

FORMATS = ("json", "avro", "protobuf")
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "country", "type": "string"},
        {"name": "total", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "coupon", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "what", "type": "string"}, {"name": "count", "type": "int"}],
                },
            },
        },
    ],
}
PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string customer = 2; string country = 3; double total = 4; bool paid = 5; optional string coupon = 6;
  google.protobuf.Timestamp at = 7; message Line { string what = 1; int32 count = 2; } repeated Line lines = 8;
}
"""
COLUMNS = (
    "id bigint, customer string, country string, total double, paid boolean, coupon string, at timestamp, "
    "lines array<struct<what: string, count: int>>"
)
AT_US = 1_700_000_000_000_000


def order(number: int) -> dict[str, Any]:
    lines = [{"what": f"article {number % 97 + line}", "count": line + 1} for line in range(3)]
    coupon = None if number % 3 else f"SAVE{number % 50}"
    plain = {"customer": f"customer {number % 5000}", "country": "DE", "total": number / 100, "paid": number % 2 == 0}
    return {"id": number, **plain, "coupon": coupon, "at": AT_US + number, "lines": lines}


def bodies(kind: str, count: int) -> list[bytes]:
    if kind == "json":
        made = ({**order(n), "at": f"2023-11-14T22:13:20.{n % 1_000_000:06d}Z"} for n in range(count))
        return [json.dumps(one, separators=(",", ":")).encode() for one in made]
    if kind == "avro":
        plain = fastavro.parse_schema(
            json.loads(json.dumps(AVRO).replace('"logicalType": "timestamp-micros"', '"a": 1'))
        )
        return [_avro(plain, order(n)) for n in range(count)]
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled(PROTO, {})).file:
        pool.Add(file)
    kind_of = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
    return [_protobuf(kind_of, order(n)) for n in range(count)]


def _avro(schema: Any, value: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, schema, value)
    return target.getvalue()


def _protobuf(kind: Any, value: dict[str, Any]) -> bytes:
    at_us = value.pop("at")
    message = kind(**value)
    message.at.seconds, message.at.nanos = at_us // 1_000_000, at_us % 1_000_000 * 1000
    body: bytes = message.SerializeToString()
    return body


def schema_of(kind: str, directory: Path) -> str:
    if kind == "json":
        return COLUMNS
    file = directory / ("order.avsc" if kind == "avro" else "order.proto")
    file.write_text(json.dumps(AVRO) if kind == "avro" else PROTO, "utf-8")
    return str(file)


def measured(spark: Any, options: dict[str, str], select: str) -> tuple[float, float]:
    """Returns the seconds and CPU seconds of one read."""
    before_s, begin = cpu_seconds(os.getpid()), time.monotonic()
    frame = spark.read.format("pymq").options(**options).load().selectExpr(*select.split("; "))
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - begin, cpu_seconds(os.getpid()) - before_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    count = given.messages
    with (
        tempfile.TemporaryDirectory() as folder,
        StandaloneProcess() as server,
        gateway.running("local[2]", {}) as spark,
    ):
        directory = Path(folder)
        cases: dict[str, tuple[dict[str, str], str]] = {}
        for kind in FORMATS:
            made = bodies(kind, count)
            pq.write_table(pa.table({"body": pa.array(made, pa.binary())}), directory / f"{kind}.parquet")
            topic = {"namesrv": server.namesrv, "topic": kind}
            spark.read.parquet(str(directory / f"{kind}.parquet")).write.format("pymq").options(**topic).mode(
                "append"
            ).save()
            source = {**topic, "columns": "queueId,queueOffset,body"}
            size = sum(map(len, made)) / count
            cases[f"{kind}, bytes ({size:.0f} B)"] = source, "*"
            cases[f"{kind}, columns"] = {**source, "bodyFormat": kind, "bodySchema": schema_of(kind, directory)}, "*"
            if kind == "json":
                text = {**source, "columns": "queueId,queueOffset,bodyText"}
                cases["json, from_json of bodyText"] = text, f"queueId; queueOffset; from_json(bodyText, '{COLUMNS}')"
        best: dict[str, tuple[float, float]] = {}
        for _ in range(given.rounds):
            for name, (options, select) in cases.items():
                best[name] = min(best.get(name, (1e9, 0.0)), measured(spark, options, select))
    for name, (wall_s, cpu_s) in best.items():
        print(f"{name:32} {count / wall_s:>10,.0f} rows/s {cpu_s / count * 1e6:>7.2f} us of CPU a row")


if __name__ == "__main__":
    main()
