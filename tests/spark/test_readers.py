"""pyarrow, DuckDB and Polars read an export's files: each message once, byte for byte, with every codec of Parquet."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from pymq.model import sysflag
from pymq.model.compression import compress_body
from pymq.model.inner_batch import with_single_records
from pymq.model.record import decode_records
from pymq.spark.export.arrow_writer import WriteJob, read_settings, write_range
from pymq.spark.lake.commits import ExportDirectory
from pymq.spark.lake.compression import COMPRESSIONS
from pymq.spark.planning.ranges import ReadSettings
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record

COLUMNS = ("topic", "queueId", "queueOffset", "msgId", "tags", "keys", "body", "properties", "bornTimestamp")
LARGE_BODY_BYTES = 10 * 1024 * 1024
Rows = list[tuple[Any, ...]]


def with_pyarrow(out: Path) -> Rows:
    levels = pyarrow.schema([("topic", pyarrow.string()), ("dt", pyarrow.string())])
    partitioning = pyarrow.dataset.partitioning(levels, flavor="hive")
    table = pyarrow.dataset.dataset(out, partitioning=partitioning).to_table(columns=list(COLUMNS))
    rows = table.to_pylist(maps_as_pydicts="strict")
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def with_duckdb(out: Path) -> Rows:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install duckdb")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        types = "hive_types = {'topic': VARCHAR}"
        # A time with a zone would need pytz.
        names = ", ".join("epoch_us(bornTimestamp)" if name == "bornTimestamp" else name for name in COLUMNS)
        return sorted(connection.execute(f"SELECT {names} FROM read_parquet('{out}/**/*.parquet', {types})").fetchall())


def with_polars(out: Path) -> Rows:
    polars = pytest.importorskip("polars", reason="Polars is not installed: pip install polars")
    levels = {"topic": polars.String, "dt": polars.String}
    frame = polars.read_parquet(f"{out}/**/*.parquet", hive_partitioning=True, hive_schema=levels)
    rows = frame.select(polars.col("bornTimestamp").dt.timestamp("us"), polars.exclude("bornTimestamp")).to_dicts()
    for row in rows:
        if not isinstance(row["properties"], dict):  # Polars before 2
            row["properties"] = {pair["key"]: pair["value"] for pair in row["properties"]}
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def fill(cluster: FakeCluster, large_body_bytes: int) -> Rows:
    """Store messages of every kind in two of three queues; return the rows that readers must see."""
    numbers = random.Random(3)
    stored: list[bytes] = []
    plain: dict[tuple[int, int], bytes] = {}
    for n in range(120):
        body, flags = numbers.randbytes(n) * 20, 0
        plain[0, n] = body
        if kind := (None, "zlib", "lz4", "zstd")[n % 4]:
            body, flags = compress_body(body, kind)
        stored.append(record(n, body, topic="123", sys_flag=flags | sysflag.TRANSACTION_COMMIT * (n % 3 == 0)))
    stored.append(record(120, numbers.randbytes(large_body_bytes), topic="123"))
    others = [record(n, "消息".encode(), topic="123", queue_id=2, properties=b"") for n in range(7)]
    cluster.add("123", 0, stored)
    cluster.add("123", 1, [])
    cluster.add("123", 2, others)
    messages = [one for raw in (*stored, *others) for one in decode_records(with_single_records(raw, 0))]
    return sorted(
        (
            one.topic, one.queue_id, one.queue_offset, one.properties.get("UNIQ_KEY", one.message_id),
            one.properties.get("TAGS"), one.properties.get("KEYS"),
            plain.get((one.queue_id, one.queue_offset), one.body), one.properties, one.born_timestamp_ms * 1000,
        )
        for one in messages
    )  # fmt: skip


@pytest.fixture(scope="module", params=COMPRESSIONS)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """Return an export with one codec, made by two attempts of its tasks, and its rows; the default one has 10 MB."""
    out = tmp_path_factory.mktemp(request.param) / "out"
    settings = {"columns": list(COLUMNS), "partition_by": ["topic", "dt"], "tag": "*"}
    with FakeCluster() as cluster, ExportDirectory(out, settings) as log:
        rows = fill(cluster, LARGE_BODY_BYTES if request.param == COMPRESSIONS[0] else 1000)
        ranges = tuple(part for n in (0, 1, 2) for part in cluster.range("123", n).split(50) if part.count)
        work = WriteJob(
            ranges=ranges, read=read_settings(ReadSettings(), COLUMNS), layout=log.layout,
            staging=str(log.new_staging("round")), compression=request.param,
        )  # fmt: skip
        write_range(ranges[0], work)
        results = [write_range(part, work) for part in ranges]
        log.commit(results)
    return out, rows


@pytest.mark.parametrize("read", [with_pyarrow, with_duckdb, with_polars])
def test_every_reader_sees_each_message_once(lake: tuple[Path, Rows], read: Callable[[Path], Rows]) -> None:
    out, expected = lake
    rows = read(out)
    if read is with_pyarrow:
        rows = [(*row[:-1], int(row[-1].timestamp() * 1_000_000)) for row in rows]
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        assert row == wanted, f"{row[:4]}"
