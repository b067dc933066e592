"""Rate of `pymq spark-export`: exports a filled topic to Parquet and counts the rows in the files."""

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.cases import QUEUES, Bench, Figure
from tests.benchmarks.control import BenchError
from tests.benchmarks.sends import SendLoad, SendPlan

WARM_ROUNDS = 4


def export(bench: Bench, command: list[str], directory: Path) -> list[Figure]:
    """Fills a topic and exports it. The rate excludes planning and Spark's start, the wall time includes them.

    Raises:
        BenchError: the command failed, or its files lack messages.
    """
    topic = bench.fresh_topic("export")
    plan = SendPlan(topic, QUEUES, batch=32, connections=2, in_flight=16)
    fill = SendLoad(bench.server.broker, plan, bench.numbers())
    try:
        messages = fill.run(bench.sizes.backlog_messages).messages
    finally:
        fill.close()
    target = directory / f"export-{topic}"
    begin = time.monotonic()
    done = subprocess.run(
        [*command, "spark-export", "-t", topic, "--output", str(target), "--json", "--namesrv", bench.server.namesrv],
        capture_output=True,
        text=True,
        check=False,
    )
    wall_s = time.monotonic() - begin
    if done.returncode:
        raise BenchError(f"spark-export failed ({done.returncode}): {done.stdout[-800:]}{done.stderr[-800:]}")
    rows = _rows(target)
    if rows != messages:
        raise BenchError(f"spark-export wrote {rows} rows of {messages}")
    summary = json.loads(done.stdout)
    return [
        Figure("export rate, warm", _warm_rate(bench, topic, directory), "rows/s", 300_000, True),
        Figure("export rate, first job of a session", rows / summary["elapsed_s"], "rows/s", None),
        Figure("export with Spark's start", wall_s, "s", None),
    ]


def _warm_rate(bench: Bench, topic: str, directory: Path) -> float:
    """Returns the rows per second of the last of several exports in one Spark session."""
    arguments = [bench.server.namesrv, topic, str(directory), str(WARM_ROUNDS)]
    command = [sys.executable, "-m", "tests.benchmarks.warm_export", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the warm export failed ({done.returncode}): {done.stderr[-800:]}")
    rates: list[float] = json.loads(done.stdout)
    return rates[-1]


def _rows(directory: Path) -> int:
    from pyarrow import parquet

    return sum(parquet.read_metadata(path).num_rows for path in directory.rglob("*.parquet"))
