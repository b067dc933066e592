"""PyMQ's spark-export reads a real Apache RocketMQ 5.3.3: every message once, with its own bytes and properties."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.interop.support import probe
from tests.interop.support.apache import ApacheServer
from tests.interop.support.pymq_server import REPOSITORY

MESSAGE_COUNT = 3000
EXPORT_TIMEOUT_S = 240

pytest.importorskip("pyspark", reason="interop: pyspark is not installed (the spark extra)")
parquet = pytest.importorskip("pyarrow.parquet", reason="interop: pyarrow is not installed (the spark extra)")


@pytest.fixture(scope="module")
def topic(apache: ApacheServer) -> str:
    name = f"spark-{uuid.uuid4().hex[:8]}"
    probe.create_topic(apache.namesrv, apache.broker, name)
    lines = "".join(json.dumps({"n": n, "text": "消息"}, ensure_ascii=False) + "\n" for n in range(MESSAGE_COUNT))
    _pymq(apache, "send", name, "--batch", "32", "--tag", "T", stdin=lines)
    probe.wait_for_messages(apache.broker, name, MESSAGE_COUNT)
    return name


def _pymq(apache: ApacheServer, *arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "pymq", *arguments, "--namesrv", apache.namesrv]
    done = subprocess.run(
        command, cwd=REPOSITORY, input=stdin, capture_output=True, text=True, timeout=EXPORT_TIMEOUT_S
    )
    assert done.returncode == 0, f"{' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_every_message_is_exported_once(apache: ApacheServer, topic: str, tmp_path: Path, writer: str) -> None:
    out = tmp_path / "lake"
    _pymq(apache, "spark-export", "-t", topic, "--output", str(out), "--writer", writer, "--json")
    files = [file for file in out.rglob("*.parquet") if not file.name.startswith(("_", "."))]
    rows = [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]
    numbers = sorted(json.loads(row["body"])["n"] for row in rows)
    assert numbers == list(range(MESSAGE_COUNT))
    assert len({(row["queueId"], row["queueOffset"]) for row in rows}) == MESSAGE_COUNT
    assert {row["tags"] for row in rows} == {"T"}


def test_the_same_directory_goes_on_where_it_ended(apache: ApacheServer, topic: str, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    _pymq(apache, "spark-export", "-t", topic, "--output", str(out), "--json")
    before = set(out.rglob("*.parquet"))
    _pymq(apache, "spark-export", "-t", topic, "--output", str(out), "--json")
    assert set(out.rglob("*.parquet")) == before
