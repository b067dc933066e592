"""Imports files into topics: plans steps, starts Spark, writes step by step, and returns a summary."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pymq.errors import PymqError, UsageError
from pymq.model.names import check_topic
from pymq.spark.imports.plan import ROWS_PER_STEP, FilePart, ImportLog, InputFile, Step, find_files, plan_of, steps_of
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.session import gateway
from pymq.spark.session.interruptible import run_interruptibly
from pymq.spark.session.job_progress import ExportProgress, NoProgress
from pymq.spark.session.masters import check_driver_memory, check_master, cores_of
from pymq.spark.settings import RETRY_BUDGET_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pymq.spark.imports.rows import InputRows

_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"


@dataclass(slots=True)
class ImportOptions:
    """All settings of one import."""

    inputs: tuple[str, ...]
    namesrv: str = "127.0.0.1:9876"
    credentials: str = ""
    topic: str = ""
    """The topic of all rows; empty: each row's column ``topic``."""
    format: str = "parquet"
    reader_options: dict[str, str] = field(default_factory=dict)
    """Settings of Spark's reader of the format, such as ``header`` for CSV."""
    schema: str = ""
    """Spark SQL's text of the columns; empty: the files say, or it is inferred."""
    columns: dict[str, str] = field(default_factory=dict)
    """SQL expressions by the column of a message; empty: the names of the files' columns decide."""
    keep_queues: bool = False
    rate_per_s: int = 0
    """Most rows a second, 0 for no limit."""
    rows_per_step: int = ROWS_PER_STEP
    state: Path | None = None
    dead_letters: str = ""
    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict)
    driver_memory: str = "1g"
    retry_budget_s: float = RETRY_BUDGET_S
    dry_run: bool = False

    def settings(self) -> dict[str, Any]:
        """Return what must be the same when an import is continued."""
        return {
            "inputs": [str(Path(path).absolute()) for path in self.inputs],
            "namesrv": self.namesrv,
            "topic": self.topic,
            "format": self.format,
            "reader_options": self.reader_options,
            "schema": self.schema,
            "columns": self.columns,
            "keep_queues": self.keep_queues,
            "rows_per_step": self.rows_per_step,
        }

    @property
    def state_directory(self) -> Path:
        """Where the import notes what is done."""
        if self.state is not None:
            return self.state.absolute()
        digest = hashlib.blake2b(json.dumps(self.settings(), sort_keys=True).encode(), digest_size=6)
        return Path(f"pymq-import-{digest.hexdigest()}").absolute()


@dataclass(slots=True)
class TopicCounts:
    """One topic: rows that were imported, and messages that it has more than before the import."""

    topic: str
    rows: int
    stored: int


@dataclass(slots=True)
class ImportSummary:
    """The results of an import, of all its runs."""

    state: str
    format: str
    files: int
    steps: int
    steps_done: int
    rows: int
    planned_rows: int | None
    """Rows of all files; None if the format doesn't say."""
    dead_letters: int
    """Rows in the files of dead letters."""
    elapsed_s: float
    start_s: float
    resumed: bool
    dry_run: bool
    topics: list[TopicCounts]
    plan: list[dict[str, Any]]
    """The steps, of a dry run."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self)


def run(options: ImportOptions, progress: ExportProgress | None = None) -> ImportSummary:
    """Run an import, or what is left of it. Blocks; starts and ends Spark.

    Raises UsageError, NotFoundError, UnreachableError, RefusedError, ResumeError, OutputBusyError, SparkStartError.
    """
    if options.topic:
        check_topic(options.topic)
    for name, value in (("rate", options.rate_per_s), ("rows per step", options.rows_per_step - 1)):
        if value < 0:
            raise UsageError(f"{name} is {value}: write a larger number")
    return _Import(options, progress or NoProgress()).run()


class _Import:
    def __init__(self, options: ImportOptions, progress: ExportProgress) -> None:
        self.options = options
        self.progress = progress
        self.begun_s = self.ready_s = time.monotonic()
        progress.phase("planning")
        self.files = find_files(options.inputs, options.format)
        self.steps = steps_of(self.files, rows_max=options.rows_per_step)
        self.done_rows = 0

    def run(self) -> ImportSummary:
        options = self.options
        if options.dry_run:
            return self._summary(None, {})
        check_master(options.master)
        check_driver_memory(options.driver_memory)
        plan = plan_of(self.files, cores_of(options.master), self._ends())
        with ImportLog(options.state_directory, options.settings(), plan) as log:
            left = [step for step in self.steps if not log.is_done(step)]
            self.done_rows = sum(step.rows or 0 for step in self.steps if log.is_done(step))
            if left:
                self._write(log, left)
            return self._summary(log, self._ends())

    def _write(self, log: ImportLog, steps: Sequence[Step]) -> None:
        from pymq.spark.imports.rows import InputRows
        from pymq.spark.session.failures import translated

        options = self.options
        self.progress.phase("starting Spark")
        conf = {"spark.driver.memory": options.driver_memory, **options.conf}
        spark = run_interruptibly(lambda: self._start(conf), gateway.kill)
        try:
            self.ready_s = time.monotonic()
            spark.conf.set(_INFERENCE, "false")  # topic=123 is a text, and so is dt=2026-01-01
            rows = InputRows(spark, options.format, options.reader_options, options.schema, self._base())
            with translated():
                rows.infer([file.path for file in self.files])
            self.progress.phase("importing")
            for step in steps:
                self._write_step(spark, rows, log, step)
                self.done_rows += step.rows or 0
                self.progress.rows(self.done_rows, sum(one.rows or 0 for one in self.steps))
        finally:
            stopping_s = time.monotonic()
            with suppress(Exception):  # the JVM may have ended
                spark.conf.unset(_INFERENCE)
            gateway.close(spark)
            self.ready_s += time.monotonic() - stopping_s

    def _start(self, conf: dict[str, str]) -> SparkSession:
        from pymq.spark.session.failures import translated
        from pymq.spark.session.shipping import prepare_executors

        with translated():
            spark = gateway.session(self.options.master, conf)
            prepare_executors(spark)
        return spark

    def _write_step(self, spark: SparkSession, rows: InputRows, log: ImportLog, step: Step) -> None:
        from pymq.spark.imports.rows import in_order, message_columns
        from pymq.spark.session.failures import translated
        from pymq.spark.tasks.progress import RowListener

        options, tasks = self.options, log.plan["tasks"]

        def work() -> None:
            gateway.activate(spark)
            frame = rows.of_step(step)
            types = {
                field.name: field.dataType.simpleString()
                for field in frame.schema.fields
                if not field.name.startswith("_pymq_")
            }
            columns, is_copy = message_columns(
                types, options.columns, topic=options.topic, keeps_queues=options.keep_queues
            )
            sink = {
                "namesrv": options.namesrv,
                "credentials": options.credentials,
                "topic": options.topic,
                "writeId": f"{log.import_id}\n{step.number}",
                "receipt": str(log.receipt_path(step.number)),
                "progress": listener.target,
                "copyProperties": str(is_copy).lower(),
                "deadLetterPath": options.dead_letters,
                "retryBudgetSeconds": str(options.retry_budget_s),
                "maxRowsPerSecondPerTask": str(-(-options.rate_per_s // tasks)) if options.rate_per_s else "",
            }
            writer = in_order(frame, columns, tasks).write.format("pymq")
            writer.options(**{name: value for name, value in sink.items() if value}).mode("append").save()

        host = spark.conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
        planned = sum(one.rows or 0 for one in self.steps)
        listener = RowListener(lambda count: self.progress.rows(self.done_rows + count, planned), host)
        with listener, translated():
            run_interruptibly(work, spark.sparkContext.cancelAllJobs)
        if not log.is_done(step):
            log.receipt_path(step.number).unlink(missing_ok=True)
            raise PymqError(f"step {step.number} of the import has not sent its {step.rows} rows: run it again")

    def _base(self) -> str:
        """Return the directory whose levels name columns; none for files that are named one by one."""
        paths = [Path(path).absolute() for path in self.options.inputs]
        return str(paths[0]) if len(paths) == 1 and paths[0].is_dir() else ""

    def _ends(self) -> dict[str, int]:
        """Return how many messages each topic has ever had."""
        options = self.options
        with RemoteCluster(
            options.namesrv, credentials=options.credentials, retry_budget_s=options.retry_budget_s
        ) as view:
            queues = view.queues_of([options.topic] if options.topic else view.user_topics())
            bounds = view.bounds([queue for found in queues.values() for queue in found])
        ends: Counter[str] = Counter()
        for queue, bound in bounds.items():
            ends[queue.topic] += bound.high
        return dict(ends)

    def _summary(self, log: ImportLog | None, ends: dict[str, int]) -> ImportSummary:
        receipts = log.receipts() if log is not None else []
        counts: Counter[str] = Counter()
        for receipt in receipts:
            counts.update(receipt["rows"])
        before: dict[str, int] = log.plan["ends"] if log is not None else {}
        done = sum(log is not None and log.is_done(step) for step in self.steps)
        known = [file.rows for file in self.files]
        return ImportSummary(
            state=str(self.options.state_directory),
            format=self.options.format,
            files=len(self.files),
            steps=len(self.steps),
            steps_done=done,
            rows=counts.total(),
            planned_rows=None if None in known else sum(rows or 0 for rows in known),
            dead_letters=sum(receipt["dead_letters"] for receipt in receipts),
            elapsed_s=round(time.monotonic() - self.ready_s, 3),
            start_s=round(self.ready_s - self.begun_s, 3),
            resumed=log is not None and log.resumed,
            dry_run=self.options.dry_run,
            topics=[
                TopicCounts(topic, rows, ends.get(topic, 0) - before.get(topic, 0))
                for topic, rows in sorted(counts.items())
            ],
            plan=[_shown(step, self.files) for step in self.steps] if self.options.dry_run else [],
        )


def _shown(step: Step, files: Sequence[InputFile]) -> dict[str, Any]:
    rows = {file.path: file.rows for file in files}

    def part(one: FilePart) -> dict[str, Any]:
        last = rows[one.path] if one.to_row is None else one.to_row
        return {"file": one.path, "from_row": one.from_row, "to_row": last}

    parts = [part(one) for one in step.parts]
    return {"step": step.number, "rows": step.rows, "bytes": step.size_bytes, "parts": parts}
