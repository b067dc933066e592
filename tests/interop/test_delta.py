"""Tables of Delta Lake, of a pipeline and of an export, with the pyspark that Delta's connector is made for."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import time
import uuid
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="interop: pyspark is not installed (the spark extra)")

from tests.interop.conftest import Broker
from tests.interop.support import probe
from tests.interop.support.pymq_server import REPOSITORY
from tests.interop.support.virtual_environments import python_with

PYSPARK = "pyspark==4.2.1"
FIRST, MORE = 300, 100
TIMEOUT_S = 600.0
CONF = {
    "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
PIPELINE = """
name = "orders"
checkpoint = "./checkpoint"
namesrv = "{namesrv}"

[spark]
{conf}

[[source]]
name = "orders"
topic = "{topic}"

[[sink]]
from = "orders"
format = "delta"
path = "./orders-table"
"""


def command(*words: str) -> subprocess.Popen[str]:
    """Start a command with the other pyspark, and all further packages of this environment."""
    python = python_with("pyspark", PYSPARK)
    (site,) = (python.parent.parent / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    return subprocess.Popen(
        [str(python), "-m", "pymq", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def pymq(*words: str, text: str = "") -> str:
    process = command(*words)
    out, errors = process.communicate(text, timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    return out


def test_a_pipeline_writes_a_table_of_delta(server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is in the table once, also after a run that was killed when the table had its first rows."""
    monkeypatch.chdir(tmp_path)
    topic = f"delta_{uuid.uuid4().hex[:8]}"
    probe.create_topic(server.namesrv, server.broker, topic)
    settings = "\n".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in CONF.items())
    Path("orders.toml").write_text(PIPELINE.format(namesrv=server.namesrv, topic=topic, conf=settings))
    for first, last in ((0, FIRST), (FIRST, FIRST + MORE)):
        lines = "".join(f"{number}\n" for number in range(first, last))
        pymq("send", topic, "--batch", "100", "--namesrv", server.namesrv, text=lines)
        probe.wait_for_messages(server.broker, topic, last)
        running = command("pipeline", "run", "orders.toml", "--once")
        if first == 0:
            while not list(Path("orders-table").rglob("*.parquet")):
                assert running.poll() is None, running.communicate()[1]
                time.sleep(probe.POLL_INTERVAL_S)
            running.kill()
            running.communicate()
            running = command("pipeline", "run", "orders.toml", "--once")
        _, errors = running.communicate(timeout=TIMEOUT_S)
        assert running.returncode == 0, errors
    conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    query = f"select count(*) as n, count(distinct body) as bodies from delta.`{tmp_path}/orders-table`"
    found = json.loads(pymq("spark-sql", query, "-o", "json", *conf))
    assert found == [{"n": FIRST + MORE, "bodies": FIRST + MORE}]


def test_spark_reads_a_table_of_an_export(server: Broker, tmp_path: Path) -> None:
    """What delta-rs has committed and merged, by Delta's own reader: each message once."""
    topic = f"delta_{uuid.uuid4().hex[:8]}"
    probe.create_topic(server.namesrv, server.broker, topic)
    words = ["spark-export", "-t", topic, "--format", "delta", "--output", f"{tmp_path}/t", "--namesrv", server.namesrv]
    for first, last in ((0, FIRST), (FIRST, FIRST + MORE)):
        lines = "".join(f"{number}\n" for number in range(first, last))
        pymq("send", topic, "--batch", "100", "--namesrv", server.namesrv, text=lines)
        probe.wait_for_messages(server.broker, topic, last)
        pymq(*words, "--compact", "--rows-per-task", "20")
    conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    query = f"select count(*) as n, count(distinct body) as bodies, min(topic) as topic from delta.`{tmp_path}/t`"
    found = json.loads(pymq("spark-sql", query, "-o", "json", *conf))
    assert found == [{"n": FIRST + MORE, "bodies": FIRST + MORE, "topic": topic}]
