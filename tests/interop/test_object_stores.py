"""A local server of S3: tables of exports and pipelines, a file sink, and what a kill leaves there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="interop: pyspark is not installed (the spark extra)")
pytest.importorskip("pyarrow.parquet", reason="interop: pyarrow is not installed (the spark extra)")

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from pymq.pipeline.job import Job
from pymq.pipeline.load import PipelineFile
from pymq.spark.export import export
from pymq.spark.export.logs import table_ends
from pymq.spark.export.options import ExportOptions
from pymq.spark.places.object_paths import ObjectPath, file_system
from pymq.spark.places.places import place_of
from pymq.spark.session import gateway
from tests.interop.conftest import Broker
from tests.interop.support import probe
from tests.interop.support.pymq_server import REPOSITORY
from tests.interop.support.s3 import BUCKET, CONF, s3_server
from tests.spark.patience import patiently

TIMEOUT_S = 600.0
FIRST, MORE = 3000, 500

PIPELINE = """
name = "stored"
checkpoint = "{home}/checkpoint"
namesrv = "{namesrv}"
trigger = "available-now"

[[source]]
name = "orders"
topic = "{topic}"

[[sink]]
name = "archive"
from = "orders"
format = "archive"
path = "s3a://{bucket}/{topic}/archive"
options = {{ format = "delta" }}

[[sink]]
name = "files"
from = "orders"
path = "s3a://{bucket}/{topic}/files"
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        file_system.cache_clear()
        yield environment
        file_system.cache_clear()


@pytest.fixture(scope="module")
def spark(s3: dict[str, str]) -> Iterator[Any]:
    with gateway.running("local[2]", CONF) as session:
        yield session


@pytest.fixture
def topic(server: Broker) -> str:
    name = f"stored_{uuid.uuid4().hex[:8]}"
    probe.create_topic(server.namesrv, server.broker, name)
    return name


def send(server: Broker, topic: str, first: int, last: int) -> None:
    """Send the numbers from first to last - 1."""
    pymq(["send", topic, "--batch", "100", "--namesrv", server.namesrv], "".join(f"{n}\n" for n in range(first, last)))
    probe.wait_for_messages(server.broker, topic, last)


def pymq(words: list[str], text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pymq", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def visible(url: str) -> list[int]:
    """Return the bodies of a Delta table."""
    options = {"aws_allow_http": "true"}
    if not DeltaTable.is_deltatable(url, options):
        return []
    rows = DeltaTable(url, storage_options=options).to_pyarrow_table(columns=["body"])
    return sorted(int(body) for body in rows.column("body").to_pylist())


def test_a_delta_table_continues(server: Broker, topic: str, s3: dict[str, str]) -> None:
    url = f"s3a://{BUCKET}/{topic}"
    options = ExportOptions(namesrv=server.namesrv, topics=(topic,), output=place_of(url), format="delta", compact=True)
    for first, last in ((0, FIRST), (FIRST, FIRST + MORE)):
        send(server, topic, first, last)
        summary = export.run(options)
        assert (summary.rows, summary.resumed) == (last - first, first > 0)
        assert visible(url) == list(range(last))
    (queues,) = json.loads(table_ends(topic, "delta", url))[topic].values()
    assert sum(queues.values()) == FIRST + MORE


def test_an_iceberg_table_of_a_catalog_continues(
    server: Broker, topic: str, s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = {
        "TYPE": "sql",
        "URI": f"sqlite:///{tmp_path}/catalog.db",
        "WAREHOUSE": f"s3://{BUCKET}/{topic}",
        "S3__ENDPOINT": s3["AWS_ENDPOINT_URL"],
    }
    for name, value in catalog.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name}", value)
    words = ["spark-export", "-t", topic, "--format", "iceberg", "--catalog", "prod", "--table", "shop.orders"]
    words += ["--namesrv", server.namesrv, "--json"]
    for first, last in ((0, FIRST), (FIRST, FIRST + MORE)):
        send(server, topic, first, last)
        done = json.loads(pymq(words))
        assert (done["rows"], done["resumed"]) == (last - first, first > 0)
        assert done["output"].startswith(f"s3://{BUCKET}/{topic}/")
    properties = {
        "type": "sql", "uri": catalog["URI"], "warehouse": catalog["WAREHOUSE"], "s3.endpoint": catalog["S3__ENDPOINT"],
    }  # fmt: skip
    rows = load_catalog("prod", **properties).load_table("shop.orders").scan().to_arrow()
    assert sorted(int(body) for body in rows.column("body").to_pylist()) == list(range(FIRST + MORE))


def test_a_killed_export_leaves_nothing_visible_that_is_not_committed(
    server: Broker, topic: str, s3: dict[str, str]
) -> None:
    url = f"s3a://{BUCKET}/{topic}"
    send(server, topic, 0, FIRST)
    words = ["spark-export", "-t", topic, "--format", "delta", "--output", url, "--namesrv", server.namesrv, "--json"]
    words += ["--rows-per-task", "100"]
    running = subprocess.Popen(
        [sys.executable, "-m", "pymq", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    staging = ObjectPath(f"{url}/_pymq/staging")
    while not staging.is_dir():
        assert running.poll() is None, "it ended before it was killed"
        time.sleep(probe.POLL_INTERVAL_S)
    running.kill()
    running.wait()
    is_committed = visible(url) != []
    done = json.loads(pymq(words))
    assert done["rows"] == (0 if is_committed else FIRST)
    assert visible(url) == list(range(FIRST))


def test_a_pipeline_writes_an_archive_and_files(server: Broker, topic: str, spark: Any, tmp_path: Path) -> None:
    text = PIPELINE.format(home=tmp_path, namesrv=server.namesrv, topic=topic, bucket=BUCKET)
    files = f"s3a://{BUCKET}/{topic}/files"
    for first, last in ((0, FIRST), (FIRST, FIRST + MORE)):
        send(server, topic, first, last)
        patiently(lambda: Job(PipelineFile(Path("p.toml"), text), spark).run(lambda _: None))
        assert visible(f"s3a://{BUCKET}/{topic}/archive") == list(range(last))
        rows = spark.read.parquet(files).selectExpr("cast(cast(body as string) as int) as n").collect()
        assert sorted(row["n"] for row in rows) == list(range(last))
