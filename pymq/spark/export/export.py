"""Exports topics to files: plans, starts Spark, writes round by round, and returns a summary.

The arrow writer (Parquet) commits after every round and continues where the last commit ended. Spark's writer (JSON,
CSV, ORC, Parquet) writes a new directory in one job.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pymq.clock import Clock, SystemClock
from pymq.errors import NotFoundError, PymqError, UnreachableError, UsageError
from pymq.spark.export.export_bodies import body_format_of, body_setting, body_type
from pymq.spark.export.job_runners import Here, JobRunner, OnSpark, needs_no_spark, run_spark
from pymq.spark.export.options import (
    TABLES,
    UPSERT,
    UPSERT_ROWS_PER_ROUND,
    ExportOptions,
    ExportSummary,
    QueueSummary,
)
from pymq.spark.export.patience import Patience
from pymq.spark.places.places import Place
from pymq.spark.planning.cluster import ClusterView, Queue, SlaveBehindError
from pymq.spark.planning.identity import Known, Mark, Recognizer, generation_name, known_queues, take_marks
from pymq.spark.planning.planner import Plan, make_plan, rounds, split_ranges
from pymq.spark.planning.positions import parse_position
from pymq.spark.planning.ranges import DEFAULT_GROUP, QueueKey, QueueRange, ReadSettings
from pymq.spark.planning.selection import checked
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.records.schema import check_columns
from pymq.spark.session import gateway
from pymq.spark.session.failures import WorkerLostError
from pymq.spark.session.interruptible import run_interruptibly
from pymq.spark.session.job_progress import ExportProgress, NoProgress
from pymq.spark.session.masters import check_driver_memory, check_master
from pymq.spark.session.shipping import prepare_executors
from pymq.spark.source.sources_of_rows import in_reading_order, open_view, reader_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pymq.spark.export.logs import ExportLog

# A schema that is not given comes from so many messages of so many queues.
INFERRED_ROWS = 500
INFERRED_QUEUES = 8
# A following export merges a table's small files after so many commits: each row is written again few times.
TIDY_COMMITS = 100
_Answer = TypeVar("_Answer")

log = logging.getLogger(__name__)

__all__ = ["ExportOptions", "ExportProgress", "ExportSummary", "NoProgress", "QueueSummary", "run"]


def run(
    options: ExportOptions,
    progress: ExportProgress | None = None,
    *,
    clock: Clock | None = None,
    stop: threading.Event | None = None,
) -> ExportSummary:
    """Run an export. Blocks; starts and ends Spark unless the program has a session already, or it needs none.

    One that follows ends between two batches when ``stop`` is set, and on an interrupt.

    Raises UsageError, NotFoundError, UnreachableError, RefusedError, DataLossError, JavaNotFoundError,
    SparkStartError, OutputBusyError or ResumeError, each with a text for the operator.
    """
    options.check()
    export = _Export(options, progress or NoProgress(), clock or SystemClock(), stop or threading.Event())
    if options.dry_run:
        return export.dry_run()
    if options.chosen_writer == "arrow":
        return export.with_arrow_writer()
    return export.with_spark_writer()


@dataclass(slots=True)
class _Written:
    """Rows, files and bytes written so far."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    tasks: int = 0
    filter_errors: int = 0


class _Export:
    """One run, with all writers."""

    def __init__(self, options: ExportOptions, progress: ExportProgress, clock: Clock, stop: threading.Event) -> None:
        self.options = options
        self.stop = stop
        self.progress = progress
        self.begun_s = time.monotonic()
        self.ready_s = self.begun_s
        self.written = _Written()
        self.queues: dict[QueueKey, QueueSummary] = {}
        self.planned_rows = 0
        self.recognizer = Recognizer()
        self.reported: set[Queue] = set()
        self.java = ""
        self.resumed = False
        self.behind: Counter[str] = Counter()
        self.place: Place | None = None
        self.untidied = 0
        self._patience = Patience(options.retry_budget_s, progress.trying_again)
        self.read = ReadSettings(
            columns=check_columns(options.all_columns),
            selection=checked(options.selection, clock),
            credentials=options.credentials,
            group=options.group or DEFAULT_GROUP,
            on_data_loss=options.on_data_loss,
            inflation_ratio_max=options.inflation_ratio_max,
            retry_budget_s=options.retry_budget_s,
            body_errors=options.body_errors,
            body_schema=body_format_of(options),
            registry=options.registry,
            store=options.store,
        )
        # A wrong expression or position fails before any request is sent and any file is created.
        now_ms = clock.now_ms()
        self.start, self.end = (parse_position(text, now_ms) for text in (options.start, options.end))

    def plan(self, log: ExportLog | None = None) -> Plan:
        """Ask the cluster for the ranges to read, which begin where the ranges of ``log`` end."""
        self.progress.phase("planning")
        with self._cluster() as view:
            before = known_queues(log.positions, log.marks) if log is not None else {}
            plan = self._plan(view, before).limited(self.options.max_rows)
        self._report(plan.made_again)
        for part in plan.queues:
            key = part.topic, part.broker_name, part.queue_id
            known = self.queues.get(key)
            if known is None:
                rows = None if log is None else 0
                self.queues[key] = QueueSummary(*key, part.from_offset, part.to_offset, rows)
            else:
                known.to_offset = part.to_offset
        self.planned_rows += plan.rows
        self.behind = Counter()
        for part in plan.queues:
            self.behind[part.topic] += part.count
        self._tell_topics()
        return plan

    def _cluster(self) -> AbstractContextManager[ClusterView]:
        return open_view(self.options.namesrv, self.read)

    def _tell_topics(self) -> None:
        rows: Counter[str] = Counter()
        for queue in self.queues.values():
            rows[queue.topic] += queue.rows or 0
        self.progress.topics(self.behind, rows)

    def _report(self, made_again: dict[Queue, str]) -> None:
        for queue in made_again.keys() - self.reported:
            log.warning("lost: %s %s/%s: %s; the topic was made again", *queue[:3], made_again[queue])
        self.reported = set(made_again)

    def _plan(self, view: ClusterView, known: dict[QueueKey, Known]) -> Plan:
        return make_plan(
            view,
            TopicChoice(self.options.topics),
            self.start,
            self.end,
            resume=known,
            recognizer=self.recognizer,
            begins_again=self.read.on_data_loss == "report",
            via_filter_servers=self.read.selection.via is not None,
        )

    def dry_run(self) -> ExportSummary:
        """Only plans; takes an earlier export in the output directory into account, as a real run does."""
        log = self._earlier_log()
        if log is None:
            plan = self.plan()
        else:
            with log:
                self.resumed = log.resumed
                plan = self.plan(log)
        for queue in self.queues.values():
            queue.rows = None
        self.written.tasks = len(self._tasks(plan))
        return self._summary()

    def with_arrow_writer(self) -> ExportSummary:
        """Write Parquet in rounds of tasks, with one commit per round."""
        from pymq.spark.export.logs import open_log

        body = self._asked(self._body_setting)
        if body is None:
            return self._summary()
        with open_log(self.options, self._settings(body), body_type(self.read, body)) as log:
            self.place = log.output
            self.resumed = log.resumed
            if self.read.body_schema is None:
                self.read = replace(self.read, body_form=log.settings.get("body", ""))
            plan = self._asked(lambda: self.plan(log))
            if plan is None:
                return self._summary()
            if not plan.rows and not self.options.follow:
                self._tidy(log)
                return self._summary()
            if needs_no_spark(self.options, plan, self.read):
                self.ready_s = time.monotonic()
                self._write(Here(), log, plan)
                return self._summary()
            with self._session() as spark:
                if self.options.follow:
                    self._follow(OnSpark(spark), log, plan)
                else:
                    self._write(OnSpark(spark), log, plan)
            return self._summary()

    def _follow(self, runner: JobRunner, log: ExportLog, plan: Plan) -> None:
        """Write what comes until the user interrupts."""
        next_plan: Plan | None = plan
        with suppress(KeyboardInterrupt):
            while next_plan is not None:
                self._write_batch(runner, log, next_plan)
                self.progress.phase("waiting for messages")
                if self.stop.wait(self.options.follow_every_s):
                    return
                next_plan = self._asked(lambda: self.plan(log))

    def _asked(self, ask: Callable[[], _Answer]) -> _Answer | None:
        """Return what a cluster answers; None when the export is to stop meanwhile.

        To an export that follows the cluster may be away for the retry budget. Any waits so long for a slave that is
        behind, or its master.
        """
        patience = Patience(self.options.retry_budget_s, self.progress.trying_again)
        while True:
            try:
                return ask()
            # A topic whose brokers are away has no route.
            except (UnreachableError, NotFoundError) as error:
                waits = self.options.follow or isinstance(error, SlaveBehindError)
                if not waits or not patience.has_some(error):
                    raise
            if self.stop.wait(self.options.follow_every_s):
                return None

    def _write_batch(self, runner: JobRunner, log: ExportLog, plan: Plan) -> None:
        """Write a plan. What a lost Python process leaves is in the next plan, for the retry budget."""
        begun_s, before = time.monotonic(), self.written.rows
        try:
            self._write(runner, log, plan)
        except WorkerLostError as error:
            if not self._patience.has_some(error):
                self.progress.kept(self.written.rows, str(log.output))
                raise
            self.planned_rows -= sum(self.behind.values())
            return
        self._patience = Patience(self.options.retry_budget_s, self.progress.trying_again)
        if plan.rows:
            self.progress.batch(self.written.rows - before, time.monotonic() - begun_s)

    def _write(self, runner: JobRunner, log: ExportLog, plan: Plan) -> None:
        tasks = self._tasks(plan)
        self.written.tasks += len(tasks)
        if tasks:
            self.progress.phase("exporting")
        rows_max = UPSERT_ROWS_PER_ROUND if self.options.mode == UPSERT else self.options.rows_per_round
        for group in rounds(tasks, min(rows_max, self.options.rows_per_round)):
            self._write_round(runner, log, group, plan)
        if self.untidied >= TIDY_COMMITS or not self.options.follow:
            self._tidy(log)

    def _tidy(self, log: ExportLog) -> None:
        """Have a table merge its small files and take out its old days."""
        if self.options.format in TABLES:
            self.progress.phase("tidying the table")
            log.tidy(compact=self.options.compact, keep_days=self.options.keep_days)
        self.untidied = 0

    def _write_round(self, runner: JobRunner, log: ExportLog, tasks: list[QueueRange], plan: Plan) -> None:
        from pymq.spark.export.arrow_writer import WriteJob, finished_results, read_settings

        staging = log.new_staging(secrets.token_hex(8))
        with self._listener(runner.host) as target:
            job = WriteJob(
                ranges=tuple(tasks),
                read=read_settings(self.read, log.layout.columns),
                layout=log.layout,
                staging=str(staging),
                compression=self.options.compression,
                progress=target.target,
            )
            try:
                results = runner.run(job)
            except (PymqError, KeyboardInterrupt) as error:
                self._commit(log, finished_results(job), plan)
                if not (self.options.follow and isinstance(error, WorkerLostError)):
                    self.progress.kept(self.written.rows, str(log.output))
                raise
        self._commit(log, results, plan)

    def _commit(self, log: ExportLog, results: list[dict[str, Any]], plan: Plan) -> None:
        """Commit the results of tasks that continue their queues without a gap."""
        if not results:
            return
        files = [file for result in results for file in result["files"]]
        log.commit([_committed_part(result) for result in results], self._marks(results, plan))
        self.untidied += 1
        for result in results:
            queue = self.queues[result["topic"], result["broker_name"], result["queue_id"]]
            queue.rows = (queue.rows or 0) + result["rows"]
            queue.lost += result["lost"]
            self.behind[result["topic"]] -= result["to_offset"] - result["from_offset"]
            self.written.rows += result["rows"]
            self.written.filter_errors += result["filter_errors"]
        self.written.files += len(files)
        self.written.bytes += sum(file["bytes"] for file in files)
        self.progress.rows(self.written.rows, self.planned_rows)
        self._tell_topics()

    def _marks(self, results: list[dict[str, Any]], plan: Plan) -> list[Mark]:
        """Return what identifies the queues of these results at the next run."""
        ends: dict[QueueKey, int] = {}
        for result in results:
            key = result["topic"], result["broker_name"], result["queue_id"]
            ends[key] = max(ends.get(key, 0), result["to_offset"])
        planned = {part.key: part for part in plan.queues}
        parts = {queue: planned[queue[:3]] for queue in plan.origins if queue[:3] in ends}
        with self._cluster() as view:
            return take_marks(view, parts, ends)

    def with_spark_writer(self) -> ExportSummary:
        """Write with Spark's own writer in one job, into a directory that must be new or empty."""
        from pymq.spark.export.spark_writer import count_files, removed_on_failure, write

        assert self.options.output is not None
        output = self.options.output.absolute()
        assert isinstance(output, Path)  # check() refuses others
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise UsageError(
                f"{output} exists already: Spark's writer needs a new directory (only Parquet can be continued)"
            )
        plan = self.plan()
        tasks = self._tasks(plan)
        self.written.tasks = len(tasks)
        if not tasks:
            return self._summary()
        with removed_on_failure(output), self._session() as spark:
            self.progress.phase("exporting")
            with self._listener(OnSpark(spark).host) as target:
                counts = run_spark(spark, lambda: write(spark, self.options, tasks, target.target, output))
            self.written.rows = counts.rows
            for key, rows in counts.by_queue.items():
                self.queues[key].rows = rows
                missing = self.queues[key].to_offset - self.queues[key].from_offset - rows
                self.queues[key].lost = missing if self.read.selection.is_all else 0
        self.written.files, self.written.bytes = count_files(output)
        self.progress.rows(self.written.rows, self.planned_rows)
        return self._summary()

    def _tasks(self, plan: Plan) -> list[QueueRange]:
        ranges = plan.ranges
        if self.read.store is not None:
            with self._cluster() as view:
                ranges = in_reading_order(view, ranges)
        return split_ranges(ranges, rows_max=self.options.rows_of_a_task(plan.rows))

    def _earlier_log(self) -> ExportLog | None:
        """Return the log that a run would go on with, to look at; None if it would begin."""
        from pymq.spark.export.logs import earlier_settings, open_to_look

        options = self.options
        if options.chosen_writer != "arrow" or (options.output is None and options.catalog is None):
            return None
        if not earlier_settings(options):
            return None
        body = self._body_setting()
        return open_to_look(options, self._settings(body), body_type(self.read, body))

    def _settings(self, body: dict[str, str]) -> dict[str, Any]:
        """Return what a later run must have, too."""
        options = self.options
        return {
            "columns": list(check_columns(options.all_columns)),
            "partition_by": list(options.partition_by),
            "tag": options.tag,
            **options.filter_settings,
            **({"mode": options.mode, "key": options.key} if options.mode == UPSERT else {}),
            **body,
        }

    def _body_setting(self) -> dict[str, str]:
        return body_setting(self.options, self.read, self._first_bodies)

    def _first_bodies(self) -> Iterator[bytes]:
        """Yield the first bodies of some queues."""
        self.progress.phase("reading the first bodies")
        with self._cluster() as view:
            ranges = self._plan(view, {}).ranges[:INFERRED_QUEUES]
        settings = replace(self.read, columns=("body",))
        for part in ranges:
            first = replace(part, to_offset=min(part.to_offset, part.from_offset + INFERRED_ROWS))
            for batch in reader_of(first, settings).batches():
                yield from batch.column("body").to_pylist()

    def _session(self) -> _Session:
        self.progress.phase("starting Spark")
        return _Session(self)

    def _listener(self, host: str) -> Any:
        from pymq.spark.tasks.progress import RowListener

        before = self.written.rows
        planned = self.planned_rows
        return RowListener(lambda rows: self.progress.rows(min(before + rows, planned), planned), host)

    def _summary(self) -> ExportSummary:
        options = self.options
        now_s = time.monotonic()
        return ExportSummary(
            output=str(self.place or (options.output.absolute() if options.output else "")),
            format=options.format,
            writer=options.chosen_writer,
            rows=self.written.rows,
            planned_rows=self.planned_rows,
            tasks=self.written.tasks,
            files=self.written.files,
            bytes_written=self.written.bytes,
            lost=sum(queue.lost for queue in self.queues.values()),
            filter_errors=self.written.filter_errors,
            elapsed_s=round(now_s - self.ready_s, 3) if self.written.rows else 0.0,
            start_s=round(self.ready_s - self.begun_s, 3),
            java=self.java,
            dry_run=options.dry_run,
            resumed=self.resumed,
            queues=list(self.queues.values()),
        )


class _Session:
    """A Spark session around a block; records when Spark was ready and which Java runs it."""

    def __init__(self, export: _Export) -> None:
        self._export = export

    def __enter__(self) -> SparkSession:
        export, options = self._export, self._export.options
        conf = {"spark.driver.memory": options.driver_memory, **options.conf}
        if options.chosen_writer == "arrow":
            conf = gateway.light_conf(conf)
        check_master(options.master)
        check_driver_memory(conf["spark.driver.memory"])
        self._spark = run_interruptibly(lambda: self._start(conf), gateway.kill)
        java = gateway.running_java()
        export.java = str(java) if java else "an existing session"
        export.ready_s = time.monotonic()
        return self._spark

    def _start(self, conf: dict[str, str]) -> SparkSession:
        from pymq.spark.session.failures import translated

        with translated():
            spark = gateway.session(self._export.options.master, conf)
            prepare_executors(spark)
        return spark

    def __exit__(self, *_: object) -> None:
        self._stopped_s = time.monotonic()
        gateway.close(self._spark)
        # The export's time doesn't include ending the JVM.
        self._export.ready_s += time.monotonic() - self._stopped_s


def _committed_part(result: dict[str, Any]) -> dict[str, Any]:
    """Return what a commit says of a range: the topic by the name of its generation."""
    name = generation_name(result["topic"], result["generation"])
    return {**{name: value for name, value in result.items() if name != "generation"}, "topic": name}
