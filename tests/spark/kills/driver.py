"""The process under attack: a stream to files or to a topic, a pipeline, a following export, or small exports one after
the other, which need no Spark, until a file appears; then it reads the rest.

Usage: ``python -m tests.spark.kills.driver MODE NAMESRV TOPIC HOME MASTER [COMMITS]``, with stream, write, update,
pipeline, archive, follow, delta, iceberg, upsert or small as the MODE. With COMMITS it kills itself in that commit:
between the commit and its moves, or at a table before or after what its library does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pymq.errors import PymqError
from pymq.pipeline.job import Job
from pymq.pipeline.load import PipelineFile
from pymq.spark.export import export
from pymq.spark.export.options import UPSERT_NEEDS, ExportOptions
from pymq.spark.lake.commits import ExportDirectory
from pymq.spark.session import gateway
from pymq.spark.session.job_progress import NoProgress
from pymq.spark.session.masters import DEFAULT_MASTER
from pymq.spark.session.shipping import ship_package
from pymq.spark.sink.batch_writer import batch_writer
from pymq.spark.tables.delta_log import DeltaLog
from pymq.spark.tables.iceberg_log import IcebergLog
from tests.spark.standalone import CONF

COLUMNS = ("queueId", "queueOffset", "msgId")
ROWS_OF_A_BATCH = 20_000
COMMITS_PER_TIDY = 10
ROWS_OF_THE_LAST_BATCHES = 1_000_000
PIPELINE_TABLE = "rows"
PIPELINE = """\
name = "killed"
namesrv = "{namesrv}"
checkpoint = "{home}/checkpoint"
trigger = "{trigger}"
[[source]]
name = "events"
topic = "{topic}"
options = {{ maxOffsetsPerTrigger = {rows_max}, columns = "queueId,queueOffset,msgId" }}
[[step]]
name = "{table}"
sql = "SELECT to_json(struct(queueId, queueOffset, msgId)) AS body, concat('q', queueId) AS key FROM events"
[[sink]]
from = "{table}"
topic = "{copy}"
"""
ARCHIVE = """\
name = "killed"
namesrv = "{namesrv}"
checkpoint = "{home}/checkpoint"
trigger = "{trigger}"
[[source]]
name = "events"
topic = "{topic}"
[[sink]]
from = "events"
format = "archive"
path = "{home}/out"
"""
# The log of a following export is folded every few commits, so that attacks meet it.
COMMITS_MAX = 4
# Between two small exports.
PAUSE_S = 0.2


@contextmanager
def session(master: str) -> Iterator[Any]:
    """Run a block with a session, on a standalone cluster with executors that have the package."""
    conf = {"spark.sql.shuffle.partitions": "2", **({} if master.startswith("local") else CONF)}
    with gateway.running(master, gateway.light_conf(conf)) as spark:
        gateway.wait_for_executors(spark)
        ship_package(spark)
        yield spark


def stream(namesrv: str, topic: str, home: Path, master: str, start: Callable[..., Any] | None = None) -> None:
    """Run the query, again after each failure, until it is to stop; then read what is left."""
    start = start or to_files
    with session(master) as spark:
        while not (home / "stop").exists():
            try:
                query = start(spark, namesrv, topic, home, ROWS_OF_A_BATCH, processingTime="0 seconds")
                while not (home / "stop").exists() and not query.awaitTermination(0.2):
                    pass
                query.stop()
            except Exception as error:  # a killed worker ends the query; the test looks only at the rows
                print(f"the query failed: {str(error)[:300]}", file=sys.stderr, flush=True)
                if gateway.death() is not None:
                    raise
        start(spark, namesrv, topic, home, ROWS_OF_THE_LAST_BATCHES, availableNow=True).awaitTermination()


def write(namesrv: str, topic: str, home: Path, master: str) -> None:
    """Do the same with a query that writes to another topic."""
    stream(namesrv, topic, home, master, to_topic)


def update(namesrv: str, topic: str, home: Path, master: str) -> None:
    """Do the same with a query that writes changed groups: each message is a group, so it changes once."""
    stream(namesrv, topic, home, master, groups_to_topic)


def source_of(spark: Any, namesrv: str, topic: str, rows_max: int) -> Any:
    """Return the topic as a stream with batches of at most ``rows_max`` rows."""
    options = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest", "columns": ",".join(COLUMNS)}
    return spark.readStream.format("pymq").options(**options, maxOffsetsPerTrigger=str(rows_max)).load()


def to_topic(spark: Any, namesrv: str, topic: str, home: Path, rows_max: int, copy: str = "", **trigger: Any) -> Any:
    """Start the query that copies to a topic on its checkpoint. The key is the queue: its order must stay."""
    rows = source_of(spark, namesrv, topic, rows_max)
    rows = rows.selectExpr("to_json(struct(*)) AS body", "concat('q', queueId) AS key")
    sink = rows.writeStream.format("pymq").options(namesrv=namesrv, topic=copy or copy_of(topic))
    return sink.option("checkpointLocation", str(home / "checkpoint")).trigger(**trigger).start()


def groups_to_topic(spark: Any, namesrv: str, topic: str, home: Path, rows_max: int, **trigger: Any) -> Any:
    """Start the query that counts each message, and copies it to a topic when its count changes."""
    groups = source_of(spark, namesrv, topic, rows_max).groupBy(*COLUMNS).count()
    rows = groups.selectExpr(f"to_json(struct({', '.join(COLUMNS)})) AS body")
    sink = rows.writeStream.outputMode("update").foreachBatch(batch_writer(namesrv=namesrv, topic=copy_of(topic)))
    return sink.option("checkpointLocation", str(home / "checkpoint")).trigger(**trigger).start()


def copy_of(topic: str) -> str:
    """Return the topic that a query copies to."""
    return f"{topic}-copy"


def to_files(spark: Any, namesrv: str, topic: str, home: Path, rows_max: int, **trigger: Any) -> Any:
    """Start the query that writes files on its checkpoint."""
    source = source_of(spark, namesrv, topic, rows_max)
    sink = source.writeStream.format("parquet").option("checkpointLocation", str(home / "checkpoint"))
    return sink.trigger(**trigger).start(str(home / "out"))


def job(spark: Any, namesrv: str, topic: str, home: Path, trigger: str, rows_max: int, copy: str = "") -> Job:
    """Return the pipeline that copies to a topic, by default that of :func:`copy_of`."""
    names = {"namesrv": namesrv, "topic": topic, "home": home, "copy": copy or copy_of(topic), "table": PIPELINE_TABLE}
    text = PIPELINE.format(**names, trigger=trigger, rows_max=rows_max)
    return Job(PipelineFile(Path("killed.toml"), text), spark)


def archive_job(spark: Any, namesrv: str, topic: str, home: Path, trigger: str, _: int) -> Job:
    """Return the pipeline that archives the topic."""
    text = ARCHIVE.format(namesrv=namesrv, topic=topic, home=home, trigger=trigger)
    return Job(PipelineFile(Path("killed.toml"), text), spark)


def archive(namesrv: str, topic: str, home: Path, master: str) -> None:
    """Run the pipeline that archives the topic, as :func:`pipeline` runs another."""
    (ExportDirectory.__init__.__kwdefaults__ or {})["commits_max"] = COMMITS_MAX
    pipeline(namesrv, topic, home, master, archive_job)


def pipeline(namesrv: str, topic: str, home: Path, master: str, job: Callable[..., Job] = job) -> None:
    """Run a pipeline that copies to a topic, again after each failure, until Ctrl-C ends it; then read the rest."""
    with session(master) as spark:
        while not (home / "stop").exists():
            try:
                with suppress(KeyboardInterrupt), interrupted_at_stop(home):
                    job(spark, namesrv, topic, home, "0 seconds", ROWS_OF_A_BATCH).run(lambda _: None)
            except Exception as error:  # a killed worker ends the pipeline; the test looks only at the rows
                print(f"the pipeline failed: {str(error)[:300]}", file=sys.stderr, flush=True)
                if gateway.death() is not None:
                    raise
        job(spark, namesrv, topic, home, "available-now", ROWS_OF_THE_LAST_BATCHES).run(lambda _: None)


@contextmanager
def interrupted_at_stop(home: Path) -> Iterator[None]:
    """Interrupt the block, as Ctrl-C does, when the process is to stop."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            if (home / "stop").exists():
                os.kill(os.getpid(), signal.SIGINT)
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


class UntilStop(NoProgress):
    """Interrupts a following export when it is to stop."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def phase(self, text: str) -> None:
        if text == "waiting for messages" and (self._home / "stop").exists():
            raise KeyboardInterrupt


def follow(
    namesrv: str, topic: str, home: Path, master: str, table_format: str = "parquet", mode: str = "append"
) -> None:
    """Run the export, again after each failure, until it is to stop; then export what is left."""
    options = export_options(namesrv, topic, home, master)
    if table_format != "parquet":
        options.format, options.compact = table_format, True
        if mode == "upsert":  # each message has a key of its own
            options.mode, options.key, options.partition_by = mode, "msgId", ("topic",)
            options.columns = (*COLUMNS, *UPSERT_NEEDS[:2], "body")
        export.TIDY_COMMITS = COMMITS_PER_TIDY
    with session(master):
        options.follow, options.follow_every_s = True, 0.2
        while not (home / "stop").exists():
            try:
                export.run(options, UntilStop(home))
            except PymqError as error:
                print(f"the export failed: {error}", file=sys.stderr, flush=True)
                if gateway.death() is not None:
                    raise
        options.follow = False
        export.run(options)


def small(namesrv: str, topic: str, home: Path, master: str) -> None:
    """Run export after export without Spark until they are to stop; then export what is left."""
    options = replace(export_options(namesrv, topic, home, master), master=DEFAULT_MASTER)
    while not (home / "stop").exists():
        try:
            summary = export.run(options)
            assert not summary.java, f"a small export started {summary.java}"
        except PymqError as error:
            print(f"the export failed: {error}", file=sys.stderr, flush=True)
        time.sleep(PAUSE_S)
    export.run(options)


def export_options(namesrv: str, topic: str, home: Path, master: str) -> ExportOptions:
    """Return what to export; its log of commits is folded every few commits."""
    (ExportDirectory.__init__.__kwdefaults__ or {})["commits_max"] = COMMITS_MAX
    return ExportOptions(
        namesrv=namesrv, topics=(topic,), output=home / "out", columns=COLUMNS, partition_by=(), master=master
    )


def die_in_commit(count: int) -> None:
    """Let the process die in its commit number ``count``: with none of the files moved, or with half of them."""
    publish = ExportDirectory._publish
    seen = 0

    def publish_or_die(self: ExportDirectory, entry: dict[str, Any]) -> None:
        nonlocal seen
        if any((self.output / file["staged"]).exists() for file in entry["files"]):
            seen += 1
            if seen == count:
                files = entry["files"]
                publish(self, {**entry, "files": files[: len(files) // 2] if count % 2 else []})
                os.kill(os.getpid(), signal.SIGKILL)
        publish(self, entry)

    ExportDirectory._publish = publish_or_die  # type: ignore[method-assign]
    for log in (DeltaLog, IcebergLog):
        log.commit = committing_or_dying(log.commit, count)  # type: ignore[method-assign]


def committing_or_dying(commit: Callable[..., int], count: int) -> Callable[..., int]:
    """Return a commit to a table that dies at its number ``count``, before it or after it."""
    seen = 0

    def commit_or_die(*arguments: Any) -> int:
        nonlocal seen
        seen += 1
        number = commit(*arguments) if seen < count or count % 2 else 0
        if seen == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    return commit_or_die


if __name__ == "__main__":
    kind, address, name, directory, spark_master, *commits = sys.argv[1:]
    if commits:
        die_in_commit(int(commits[0]))
    runs: dict[str, Callable[[str, str, Path, str], None]] = {
        "stream": stream,
        "write": write,
        "update": update,
        "pipeline": pipeline,
        "archive": archive,
        "follow": follow,
        "delta": partial(follow, table_format="delta"),
        "iceberg": partial(follow, table_format="iceberg"),
        "upsert": partial(follow, table_format="delta", mode="upsert"),
        "small": small,
    }
    runs[kind](address, name, Path(directory), spark_master)
