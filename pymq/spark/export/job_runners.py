"""Where an export's tasks run: in Spark's workers, or here, when they are done before Spark would have started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from pymq.errors import PymqError
from pymq.spark.export.options import ExportOptions
from pymq.spark.planning.planner import Plan
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.session.interruptible import run_interruptibly
from pymq.spark.session.masters import DEFAULT_DRIVER_MEMORY, DEFAULT_MASTER
from pymq.spark.source.sources_of_rows import reader_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pymq.spark.export.arrow_writer import WriteJob

_Result = TypeVar("_Result")
# One process writes them in three to five seconds, which is what Spark takes to start.
ROWS_HERE_MAX = 1_000_000
BYTES_HERE_MAX = 512 * 1024 * 1024
# The size of messages is estimated from so many of so many queues.
SAMPLED_ROWS = 32
SAMPLED_QUEUES = 4


class JobRunner(Protocol):
    """Runs the tasks of a round. ``host``: where tasks reach this process."""

    host: str

    def run(self, job: WriteJob) -> list[dict[str, Any]]:
        """Return a result for each range. Raises what tasks raise."""
        ...


class Here:
    """Runs the tasks one after the other in this process."""

    host = "127.0.0.1"

    def run(self, job: WriteJob) -> list[dict[str, Any]]:
        """See :class:`JobRunner`."""
        from pymq.spark.export.arrow_writer import write_range
        from pymq.spark.session.failures import TaskFailedError

        try:
            return [write_range(part, job) for part in job.ranges]
        except (OSError, pa.ArrowException) as error:
            raise TaskFailedError(f"a task failed: {type(error).__name__}: {error}") from error


class OnSpark:
    """Runs the tasks in the workers of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.host = spark.conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"

    def run(self, job: WriteJob) -> list[dict[str, Any]]:
        """See :class:`JobRunner`."""
        from pymq.spark.export.arrow_writer import run_job

        return run_spark(self._spark, lambda: run_job(self._spark, job))


def run_spark(spark: SparkSession, work: Callable[[], _Result]) -> _Result:
    """Run a Spark action. Raises a task's PymqError itself instead of Spark's pages of Java around it."""
    from pymq.spark.session.failures import translated

    with translated():
        return run_interruptibly(work, spark.sparkContext.cancelAllJobs)


def needs_no_spark(options: ExportOptions, plan: Plan, settings: ReadSettings) -> bool:
    """Return whether a plan is so small that this process writes it before Spark would have started.

    A running session is used. A caller that names a master, the driver's memory, or a setting of Spark gets Spark.
    """
    is_spark_named = options.conf or (options.master, options.driver_memory) != (DEFAULT_MASTER, DEFAULT_DRIVER_MEMORY)
    if options.follow or is_spark_named or plan.rows > ROWS_HERE_MAX:
        return False
    return not _has_session() and _estimated_bytes(plan, settings) <= BYTES_HERE_MAX


def _has_session() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def _estimated_bytes(plan: Plan, settings: ReadSettings) -> float:
    """Return the stored size of the plan's messages, estimated from some that can be read; 0 if none can."""
    rows = size_bytes = 0
    settings = replace(settings, columns=("queueOffset",), body_form="", retry_budget_s=0.0)
    for part in plan.ranges[:SAMPLED_QUEUES]:
        sample = replace(part, to_offset=min(part.to_offset, part.from_offset + SAMPLED_ROWS))
        reader = reader_of(sample, settings)
        try:
            for _ in reader.batches():
                pass
        except PymqError:  # the export waits for the broker, or fails and says what it has kept
            continue
        rows += sample.count
        size_bytes += reader.bytes_read
    return size_bytes / max(rows, 1) * plan.rows
