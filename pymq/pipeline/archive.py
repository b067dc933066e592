"""A sink that archives topics: the export of :mod:`pymq.spark.export.export`, in the pipeline's Spark session.

Its directory or table is what ``pymq spark-export`` writes. Its place is in its own log, not in the pipeline's
checkpoint.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pymq.clock import Clock, SystemClock
from pymq.errors import PymqError
from pymq.pipeline.report import BATCHES_KEPT, Batch
from pymq.spark.export import export
from pymq.spark.export.options import ExportOptions, ExportSummary
from pymq.spark.session.job_progress import NoProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_TIMEOUT_S = 10.0


class Archive(NoProgress):
    """The running archive of a sink: an export in a thread of its own."""

    def __init__(self, label: str, options: ExportOptions, spark: SparkSession, clock: Clock | None = None) -> None:
        """Start it."""
        self._label = label
        self._options = options
        self._spark = spark
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._batches: deque[Batch] = deque(maxlen=BATCHES_KEPT)
        self._count = 0
        self._behind = 0
        self._thread = threading.Thread(target=self._run, name=f"pymq-archive-{label}", daemon=True)
        self._thread.start()

    def is_active(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End it at once. Tasks that have finished are committed."""
        self._stop.set()
        if self._thread.is_alive():
            self._spark.sparkContext.cancelAllJobs()
            self._thread.join(STOP_TIMEOUT_S)

    def batches(self) -> list[Batch]:
        return list(self._batches)

    def topics(self, behind: Mapping[str, int], rows: Mapping[str, int]) -> None:
        """Take what the topics are behind, after a look and after a commit."""
        self._behind = sum(behind.values())

    def batch(self, rows: int, seconds: float) -> None:
        """Take a batch that is committed."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        self._batches.append(
            Batch(
                sink=self._label,
                batch_id=self._count,
                timestamp=now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                input_rows=rows,
                rows_per_s=rows / seconds if seconds > 0 else 0.0,
                batch_ms=round(seconds * 1000),
                behind_rows=self._behind,
            )
        )
        self._count += 1

    def _run(self) -> None:
        try:
            summary: ExportSummary = export.run(self._options, self, clock=self._clock, stop=self._stop)
            if not self._options.follow:
                self.batch(summary.rows, summary.elapsed_s)
        except PymqError as error:
            if not self._stop.is_set():  # else the tasks were cancelled
                self._error = error
        except BaseException as error:
            self._error = error
