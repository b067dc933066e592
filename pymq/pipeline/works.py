"""What runs for a sink: a streaming query of Spark, or an archive. Waits for all of them, and reads their batches."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pymq.errors import UsageError
from pymq.pipeline.report import Batch
from pymq.spark.source.stream_offsets import Offsets, from_json, row_count, spans

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

POLL_S = 0.5
Watcher = Callable[[Batch], None]


class Work(Protocol):
    """The running work of a sink."""

    def is_active(self) -> bool:
        """Return True until the work has ended."""
        ...

    def check(self) -> None:
        """Raise the error of a work that failed."""
        ...

    def stop(self) -> None:
        """End the work; its next run continues."""
        ...

    def batches(self) -> list[Batch]:
        """Return the last batches that were finished, in their order."""
        ...


class QueryWork:
    """A streaming query."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    def is_active(self) -> bool:
        return bool(self._query.isActive)

    def check(self) -> None:
        error = self._query.exception()
        if error is not None:
            raise error

    def stop(self) -> None:
        self._query.stop()

    def batches(self) -> list[Batch]:
        return [batch_of(self._query.name or "", report) for report in self._query.recentProgress]


def wait(works: Sequence[Work], watch: Watcher) -> None:
    """Return when all works have ended; ``watch`` gets each batch once. Raises the error of one that failed."""
    seen: dict[str, int] = {}
    while any(work.is_active() for work in works):
        _check(works)
        _tell(works, seen, watch)
        time.sleep(POLL_S)
    _check(works)
    _tell(works, seen, watch)


def stop_all(works: Sequence[Work]) -> None:
    for work in works:
        work.stop()


def _check(works: Sequence[Work]) -> None:
    for work in works:
        work.check()


def _tell(works: Sequence[Work], seen: dict[str, int], watch: Watcher) -> None:
    for work in works:
        for batch in work.batches():
            if batch.batch_id > seen.get(batch.sink, -1):
                seen[batch.sink] = batch.batch_id
                watch(batch)


def batch_of(sink: str, report: Any) -> Batch:
    """Read Spark's report of a batch."""
    behind = [_behind(source) for source in report["sources"]]
    known = [rows for rows in behind if rows is not None]
    return Batch(
        sink=sink,
        batch_id=int(report["batchId"]),
        timestamp=str(report["timestamp"]),
        input_rows=int(report["numInputRows"]),
        rows_per_s=float(report["processedRowsPerSecond"] or 0.0),
        batch_ms=int(report["batchDuration"]),
        behind_rows=sum(known) if known else None,
        queue_rows=_queue_rows(report["sources"]),
    )


def _behind(source: Any) -> int | None:
    """Return the rows of a topic after the batch; None for a source that isn't one."""
    end, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
    return None if end is None or latest is None else row_count(end, latest)


def _queue_rows(sources: Any) -> dict[str, int]:
    """Return the rows of each queue in the batch."""
    rows: Counter[str] = Counter()
    for source in sources:
        start, end = (_offsets(source[name]) for name in ("startOffset", "endOffset"))
        for (topic, broker, queue_id), low, high in spans(start or {}, end or {}):
            rows[f"{topic} {broker}/{queue_id}"] += high - low
    return dict(rows)


def _offsets(text: str | None) -> Offsets | None:
    """Return the offsets that a report names; None when they are not a topic's."""
    try:
        return from_json(json.loads(text)).offsets if text else None
    except (UsageError, ValueError, TypeError):
        return None
