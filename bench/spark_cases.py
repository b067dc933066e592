"""Rates of Spark: exports, streams, the source with Spark's own writer, writes to topics. Each counts its rows."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import process
from bench.cases import QUEUES, Bench, Figure
from bench.control import BenchError
from bench.sends import SendLoad, SendPlan
from bench.spark_runs import count_rows
from bench.stored_rows import fill_store
from bench.tables import ask_all
from bench.turns import figures_of_sends, sending
from pymq.model.record import encode_batch_entry
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position
from pymq.spark.planning.topics import TopicChoice
from tests.hostile.harness import V2, Peer, ask

WARM_ROUNDS = 4
COLD_MESSAGES = 1_000
# A setting of Spark's makes the command use Spark for a small export too.
WITH_SPARK = ("--conf", "spark.ui.enabled=false")
COLD_WALL_S = 9.0
WALL_S = 13.0
BODY_BYTES, LARGE_BODY_BYTES = 128, 1024
# So many messages of 1 KiB for each of 128 bytes: half the rows are four times the bytes.
LARGE_SHARE = 0.5
TWO_TASKS_RATIO = 1.6
FILES_RATIO = 1.5
SQL_S = 3.0
WIDE_QUEUES, WIDE_BATCH = 10_000, 10
# Spark's planner asks twice for a batch; a stream that has to wait longer than this for a plan falls behind.
PLAN_S = 10.0
# Spark's Kafka source to Spark's Parquet, warm, as a share of the yardstick on the same machine and day, by body size.
# Its jars are not to be had for this version of Spark: today's rate of Kafka's source is this share of the yardstick's.
KAFKA_SHARES = {BODY_BYTES: 272 / 1667, LARGE_BODY_BYTES: 150 / 489}


@dataclass(frozen=True, slots=True)
class Setting:
    """The bench, the ``pymq`` command and the directory for files."""

    bench: Bench
    command: list[str]
    directory: Path

    def fill(self, name: str, messages: int, body_bytes: int = BODY_BYTES, queues: int = QUEUES) -> tuple[str, int]:
        """Returns a new topic with bodies of words and numbers, and the number of its messages."""
        topic = self.bench.fresh_topic(name, queues=queues)
        plan = SendPlan(topic, queues, body_bytes, batch=32, connections=2, in_flight=16, text=True)
        load = SendLoad(self.bench.server.broker, plan, self.bench.numbers())
        try:
            return topic, load.run(messages).messages
        finally:
            load.close()

    def messages(self, body_bytes: int = BODY_BYTES) -> int:
        """Returns how many messages a case reads."""
        count = self.bench.sizes.backlog_messages
        return count if body_bytes == BODY_BYTES else int(count * LARGE_SHARE)

    def runs(self, kind: str, topic: str, messages: int, *, rounds: int = WARM_ROUNDS, rows_per_task: int = 0) -> _Run:
        """Returns the last of several runs in one Spark session. Raises BenchError, also when rows are missing."""
        return self._run("spark_runs", kind, topic, messages, rounds, rows_per_task)

    def writes(self, kind: str, messages: int, *, rounds: int = WARM_ROUNDS) -> _Run:
        """Returns the last of several runs that write rows to a new topic. Raises BenchError if some are missing."""
        topic = self.bench.fresh_topic(kind, queues=QUEUES)
        return self._run("spark_writes", kind, topic, messages, rounds, messages)

    def _run(self, module: str, kind: str, topic: str, messages: int, rounds: int, last: int) -> _Run:
        arguments = [kind, self.bench.server.namesrv, topic, str(self.directory), str(rounds), str(last)]
        before_s = process.cpu_seconds(self.bench.server.broker_pid)
        found = self.spark_runs(arguments, messages, module)
        broker_s = process.cpu_seconds(self.bench.server.broker_pid) - before_s
        _, wall_s, cpu_s = found[-1]
        least_s = min(one[2] for one in found)
        return _Run(
            messages / wall_s, cpu_s / messages * 1e6, least_s / messages * 1e6, broker_s / rounds / messages * 1e6
        )

    def spark_runs(
        self, arguments: list[str], messages: int, module: str = "spark_runs"
    ) -> list[tuple[int, float, float]]:
        """Returns (rows, seconds, CPU seconds) of each run in one Spark session. Raises BenchError for missing rows."""
        found: list[tuple[int, float, float]] = _output(f"bench.{module}", arguments)
        for rows, _, _ in found:
            if rows != messages:
                raise BenchError(f"{arguments[0]} wrote {rows} rows of {messages}")
        return found


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows per second and CPU time in us a row: of Spark in this run and in the least costly one, and of the broker."""

    rate: float
    cpu_us: float
    least_cpu_us: float
    broker_us: float

    def figures(self, name: str, target: float | None) -> list[Figure]:
        """Returns all of it as figures."""
        return [
            Figure(f"{name}, warm", self.rate, "rows/s", target, True),
            Figure(f"{name}, CPU of Spark", self.cpu_us, "us/row", None),
            Figure(f"{name}, CPU of Spark, least", self.least_cpu_us, "us/row", None),
            Figure(f"{name}, CPU of the broker", self.broker_us, "us/row", None),
        ]


def export(setting: Setting) -> list[Figure]:
    """Fills a topic and exports it. The rates exclude planning and Spark's start, the wall times include them."""
    topic, messages = setting.fill("export", setting.messages())
    summary, with_spark_s = _exported(setting, topic, messages, *WITH_SPARK)
    return [
        *setting.runs("export", topic, messages).figures("export", 400_000),
        Figure("export, first job of a session", messages / summary["elapsed_s"], "rows/s", None, True),
        Figure("export by the command", _exported(setting, topic, messages)[1], "s", WALL_S),
        Figure("export by the command with Spark", with_spark_s, "s", WALL_S),
    ]


def export_1k(setting: Setting) -> list[Figure]:
    """Does the same with bodies of 1 KiB."""
    topic, messages = setting.fill("export_1k", setting.messages(LARGE_BODY_BYTES), LARGE_BODY_BYTES)
    return setting.runs("export", topic, messages).figures("export of 1 KiB", 225_000)


def files(setting: Setting) -> list[Figure]:
    """Exports the directory of a stopped broker, with bodies of 128 bytes and of 1 KiB, and as many from a broker."""
    figures = []
    for name, body_bytes, target in (("128 B", BODY_BYTES, 900_000), ("1 KiB", LARGE_BODY_BYTES, 400_000)):
        directory = setting.directory / f"files-{body_bytes}"
        messages = fill_store(directory, setting.messages(body_bytes), body_bytes)
        lakes = setting.directory / f"lakes-{body_bytes}"
        found = setting.spark_runs(["files", str(directory), "files", str(lakes), str(WARM_ROUNDS)], messages)
        wall_s = min(one[1] for one in found)
        figures += [
            Figure(f"export of files, {name}", messages / wall_s, "rows/s", target, True),
            Figure(f"export of files, {name}, CPU of Spark", found[-1][2] / messages * 1e6, "us/row", None),
        ]
        topic, sent = setting.fill(f"beside-{body_bytes}", messages, body_bytes)
        beside = setting.runs("export", topic, sent)
        ratio = messages / wall_s / beside.rate
        figures.append(Figure(f"export of files, {name}, of the broker's way", ratio, "x", FILES_RATIO, True))
    return figures


def spark_sql(setting: Setting) -> list[Figure]:
    """Groups all rows of a stopped broker's directory with SQL."""
    directory = setting.directory / "sql"
    messages = fill_store(directory, setting.messages(), BODY_BYTES)
    found = setting.spark_runs(["sql", str(directory), "files", str(setting.directory), str(WARM_ROUNDS)], messages)
    return [
        Figure("SQL over files, first query", found[0][1], "s", None),
        Figure("SQL over files, warm", found[-1][1], "s", SQL_S),
    ]


def export_cold(setting: Setting) -> list[Figure]:
    """Exports 1,000 messages with the command, as it does and with Spark."""
    topic, messages = setting.fill("export_cold", COLD_MESSAGES)
    name = "export of 1,000 messages by the command"
    return [
        Figure(name, _exported(setting, topic, messages)[1], "s", COLD_WALL_S),
        Figure(f"{name} with Spark", _exported(setting, topic, messages, *WITH_SPARK)[1], "s", COLD_WALL_S),
    ]


def export_queue(setting: Setting) -> list[Figure]:
    """Exports one queue with one task, and with two."""
    topic, messages = setting.fill("export_queue", setting.messages(), queues=1)
    one = setting.runs("export", topic, messages, rows_per_task=messages)
    two = setting.runs("export", topic, messages, rows_per_task=-(-messages // 2))
    return [
        Figure("export of one queue, one task", one.rate, "rows/s", None, True),
        Figure("export of one queue, two tasks", two.rate, "rows/s", None, True),
        Figure("export of one queue, two tasks to one", two.rate / one.rate, "x", TWO_TASKS_RATIO, True),
    ]


def follow(setting: Setting) -> list[Figure]:
    """Catches up with a topic by a following export."""
    topic, messages = setting.fill("follow", setting.messages())
    return setting.runs("follow", topic, messages).figures("following export", 350_000)


def follow_1k(setting: Setting) -> list[Figure]:
    """Does the same with bodies of 1 KiB."""
    topic, messages = setting.fill("follow_1k", setting.messages(LARGE_BODY_BYTES), LARGE_BODY_BYTES)
    return setting.runs("follow", topic, messages).figures("following export of 1 KiB", 200_000)


def stream(setting: Setting) -> list[Figure]:
    """Reads a topic as a stream into Spark's own sink for Parquet: with zstd, by Spark's default, and six columns."""
    topic, messages = setting.fill("stream", setting.messages())
    return _streams(setting, "stream", topic, messages)


def stream_1k(setting: Setting) -> list[Figure]:
    """Does the same with bodies of 1 KiB."""
    topic, messages = setting.fill("stream_1k", setting.messages(LARGE_BODY_BYTES), LARGE_BODY_BYTES)
    return _streams(setting, "stream of 1 KiB", topic, messages)


def _streams(setting: Setting, name: str, topic: str, messages: int) -> list[Figure]:
    return [
        *setting.runs("stream", topic, messages).figures(name, None),
        *setting.runs("stream-snappy", topic, messages).figures(f"{name}, snappy", None),
        *setting.runs("stream-json", topic, messages).figures(f"{name}, properties as JSON", None),
        *setting.runs("stream-six", topic, messages).figures(f"{name}, Kafka's columns", None),
    ]


def stream_queues(setting: Setting) -> list[Figure]:
    """Plans and reads a stream of 10,000 queues, while a client sends to another topic."""
    topic = setting.bench.fresh_topic("wide", queues=WIDE_QUEUES)
    messages = WIDE_QUEUES * WIDE_BATCH
    entries = b"".join(
        encode_batch_entry(b"body", f"UNIQ_KEY\x01{topic}-{number}\x02".encode()) for number in range(WIDE_BATCH)
    )
    with Peer(setting.bench.server.broker) as peer:
        ask_all(peer, [ask(320, {**V2, "b": topic, "e": str(at), "m": "true"}, entries) for at in range(WIDE_QUEUES)])
    busy = setting.bench.fresh_topic("wide_busy")
    with sending(setting.bench, busy) as health:
        begin_s = time.monotonic()
        with RemoteCluster(setting.bench.server.namesrv) as view:
            plan = make_plan(view, TopicChoice((topic,)), Position(), Position(symbol=LATEST))
        plan_s = time.monotonic() - begin_s
        run = setting.runs("stream", topic, messages, rounds=2)
    if plan.rows != messages or len(plan.queues) != WIDE_QUEUES:
        raise BenchError(f"the plan has {plan.rows} rows of {messages} in {len(plan.queues)} queues")
    return [
        Figure("stream of 10,000 queues, a plan", plan_s, "s", PLAN_S),
        *run.figures("stream of 10,000 queues", None),
        *figures_of_sends("stream-queues", health),
    ]


def spark_write(setting: Setting) -> list[Figure]:
    """Writes rows of 128 bytes from Parquet files to a topic with the sink."""
    return setting.writes("write", setting.messages()).figures("write to a topic", 200_000)


def spark_import(setting: Setting) -> list[Figure]:
    """Imports the same rows, in order by key."""
    return setting.writes("import", setting.messages()).figures("import", 150_000)


def spark_parquet(setting: Setting) -> list[Figure]:
    """Reads the columns of Kafka's source into Spark's own writer, beside the yardstick of the same minutes."""
    figures = []
    for body_bytes, target in ((BODY_BYTES, 1.0), (LARGE_BODY_BYTES, 0.9)):
        topic, messages = setting.fill("six", setting.messages(body_bytes), body_bytes)
        rate = setting.runs("spark-parquet", topic, messages).rate
        arguments = [str(body_bytes), str(messages), str(setting.directory / f"yardstick-{topic}")]
        yardstick = _output("bench.parquet_yardstick", arguments)
        name = f"source to Spark's Parquet, {body_bytes} B"
        figures += [
            Figure(name, rate, "rows/s", None, True),
            Figure(f"{name}, yardstick", yardstick, "rows/s", None, True),
            Figure(f"{name}, of Kafka's", rate / (yardstick * KAFKA_SHARES[body_bytes]), "x", target, True),
        ]
    return figures


def _exported(setting: Setting, topic: str, messages: int, *more: str) -> tuple[dict[str, Any], float]:
    """Runs the command with ``more`` arguments; returns its summary and the seconds that it took. Raises BenchError."""
    target = setting.directory / f"export-{topic}{'-with-spark' if more else ''}"
    arguments = ["spark-export", "-t", topic, "--output", str(target), "--json", *more]
    begin = time.monotonic()
    done = subprocess.run(
        [*setting.command, *arguments, "--namesrv", setting.bench.server.namesrv],
        capture_output=True,
        text=True,
        check=False,
    )
    wall_s = time.monotonic() - begin
    if done.returncode:
        raise BenchError(f"spark-export failed ({done.returncode}): {done.stdout[-800:]}{done.stderr[-800:]}")
    if (rows := count_rows(target)) != messages:
        raise BenchError(f"spark-export wrote {rows} rows of {messages}")
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary, wall_s


def _output(module: str, arguments: list[str]) -> Any:
    """Runs a module and returns its output from JSON. Raises BenchError."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{module} failed ({done.returncode}): {done.stderr[-800:]}")
    return json.loads(done.stdout)


SPARK_CASES: dict[str, Callable[[Setting], list[Figure]]] = {
    "export": export,
    "export-1k": export_1k,
    "export-cold": export_cold,
    "files": files,
    "export-queue": export_queue,
    "follow": follow,
    "follow-1k": follow_1k,
    "stream": stream,
    "stream-1k": stream_1k,
    "stream-queues": stream_queues,
    "spark-parquet": spark_parquet,
    "spark-sql": spark_sql,
    "spark-write": spark_write,
    "spark-import": spark_import,
}
