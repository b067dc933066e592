"""A standalone Spark cluster of two workers: an export and a stream lose no row and double none when a worker dies."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="interop: pyspark is not installed (the spark extra)")
parquet = pytest.importorskip("pyarrow.parquet", reason="interop: pyarrow is not installed (the spark extra)")

from pymq.spark.export import export  # noqa: E402
from pymq.spark.export.options import ExportOptions  # noqa: E402
from pymq.spark.session import gateway  # noqa: E402 - what needs the extra
from pymq.spark.session.shipping import ship_package  # noqa: E402
from tests.interop.conftest import Broker  # noqa: E402
from tests.interop.support import probe  # noqa: E402
from tests.interop.support.pymq_server import REPOSITORY  # noqa: E402
from tests.spark.kills.attack import committed_files  # noqa: E402
from tests.spark.kills.victims import descendants, kill  # noqa: E402
from tests.spark.patience import run_to_its_end  # noqa: E402
from tests.spark.standalone import CONF, StandaloneSpark  # noqa: E402

COUNT = 12_000
ROWS_OF_A_TASK = 500
ROWS_OF_A_BATCH = 3_000
TIMEOUT_S = 240.0
COLUMNS = ("queueId", "queueOffset", "body")


@pytest.fixture(scope="module")
def spark(cluster: StandaloneSpark) -> Iterator[Any]:
    with gateway.running(cluster.url, gateway.light_conf(CONF)) as session:
        ship_package(session)
        yield session


@pytest.fixture(scope="module")
def topic(server: Broker) -> str:
    name = f"cluster-{uuid.uuid4().hex[:8]}"
    probe.create_topic(server.namesrv, server.broker, name)
    command = [sys.executable, "-m", "pymq", "send", name, "--batch", "100", "--namesrv", server.namesrv]
    lines = "".join(f"{number}\n" for number in range(COUNT))
    subprocess.run(command, cwd=REPOSITORY, input=lines, text=True, check=True, timeout=TIMEOUT_S, capture_output=True)
    probe.wait_for_messages(server.broker, name, COUNT)
    return name


def wait_for_both(spark: Any) -> None:
    """Wait until each worker has given the session an executor; the driver counts as one."""
    probe.wait_until(
        "two executors", lambda: spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3, TIMEOUT_S
    )


def kill_when(cluster: StandaloneSpark, number: int, is_time: Callable[[], bool]) -> threading.Thread:
    """Kill a worker with its executor and Python processes, in a thread, as soon as it is time."""

    def run() -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_time() and time.monotonic() < deadline:
            time.sleep(0.02)
        family = descendants(cluster.workers[number].process.pid)
        cluster.kill_worker(number)
        for pid in family:
            kill(pid)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def assert_each_once(files: list[str]) -> None:
    rows = [row for file in files for row in parquet.ParquetFile(file).read(columns=list(COLUMNS)).to_pylist()]
    assert sorted(int(row["body"]) for row in rows) == list(range(COUNT))
    assert len({(row["queueId"], row["queueOffset"]) for row in rows}) == COUNT


def test_a_worker_dies_under_an_export(
    server: Broker, cluster: StandaloneSpark, spark: Any, topic: str, tmp_path: Path
) -> None:
    wait_for_both(spark)
    out = tmp_path / "lake"
    killer = kill_when(cluster, 0, lambda: any(out.glob("_pymq/staging/*/*.json")))
    options = ExportOptions(namesrv=server.namesrv, topics=(topic,), output=out, master=cluster.url)
    options.rows_per_task = ROWS_OF_A_TASK
    summary = export.run(options)
    killer.join()
    assert (summary.rows, summary.lost, summary.tasks) == (COUNT, 0, COUNT // ROWS_OF_A_TASK)
    assert_each_once([str(path) for path in out.rglob("*.parquet")])
    cluster.start_worker(0)


def test_a_worker_dies_under_a_stream(
    server: Broker, cluster: StandaloneSpark, spark: Any, topic: str, tmp_path: Path
) -> None:
    wait_for_both(spark)
    out, checkpoint = tmp_path / "lake", tmp_path / "checkpoint"
    options = {"namesrv": server.namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    options |= {"columns": ",".join(COLUMNS), "maxOffsetsPerTrigger": str(ROWS_OF_A_BATCH)}
    source = spark.readStream.format("pymq").options(**options).load()
    sink = source.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    killer = kill_when(cluster, 1, (checkpoint / "commits" / "0").exists)
    run_to_its_end(partial(sink.trigger(availableNow=True).start, str(out)))
    killer.join()
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    assert last == COUNT // ROWS_OF_A_BATCH - 1
    offsets = json.loads((checkpoint / "offsets" / str(last)).read_text().splitlines()[2])[topic]
    assert sum(end for queues in offsets.values() for end in queues.values()) == COUNT
    assert_each_once(committed_files(out))
