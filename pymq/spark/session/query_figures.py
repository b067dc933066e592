"""Figures of streaming queries for Prometheus, from Spark's progress reports and looks at brokers. No I/O.

A query has its figures until it ends. Series are bounded: further queries are counted, and further topics of a query
add up as one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pymq.errors import UsageError
from pymq.metrics.family import Collector, Family, Metric, Reading, counter, gauge, single
from pymq.spark.source.stream_offsets import Offsets, Span, from_json, spans

NODE_TYPE: Final = "spark"
QUERIES_MAX: Final = 100
# Topics of a query with series of their own.
TOPICS_MAX: Final = 200
OTHER_TOPICS: Final = "(others)"
# Characters of a label: names of queries may be of any length, those of topics have up to 127.
LABEL_LENGTH_MAX: Final = 128

QUERIES = gauge("pymq_spark_queries", "Streaming queries of the session that run.")
LEFT_OUT = gauge("pymq_spark_queries_left_out", "Running queries without series, because there are too many.")
ANSWERS = gauge("pymq_spark_cluster_answers", "1 if the last look at the brokers succeeded, else 0.")
BATCHES = counter("pymq_spark_batches_total", "Batches that a query has finished.", "query")
BATCH_TIME = gauge("pymq_spark_batch_seconds", "Time of a query's last batch.", "query", unit="seconds")
ROWS = counter(
    "pymq_spark_rows_total", "Messages that batches have passed, with those that a filter left out.", "query", "topic"
)
ROW_RATE = gauge("pymq_spark_rows_per_second", "Messages per second of the last batch; 0 while idle.", "query", "topic")
BYTES = counter(
    "pymq_spark_bytes_total", "Stored bytes of these messages, estimated by samples.", "query", "topic", unit="bytes"
)
BYTE_RATE = gauge(
    "pymq_spark_bytes_per_second",
    "Stored bytes per second of the last batch, estimated by samples.",
    "query",
    "topic",
    unit="bytes",
)
LAG = gauge("pymq_spark_lag_messages", "Messages behind the last batch.", "query", "topic")
BEHIND = gauge(
    "pymq_spark_behind_seconds", "Age of the oldest message behind the last batch.", "query", "topic", unit="seconds"
)
GROUP_LAG = gauge(
    "pymq_spark_group_lag_messages", "Messages behind the offsets of the query's group.", "query", "topic"
)
OF_QUERIES = (BATCHES, BATCH_TIME)
OF_TOPICS = (ROWS, ROW_RATE, BYTES, BYTE_RATE, LAG, BEHIND, GROUP_LAG)
SPARK_METRICS = (QUERIES, LEFT_OUT, ANSWERS, *OF_QUERIES, *OF_TOPICS)


class TopicLook(NamedTuple):
    """What brokers say of a query's topic; None for what is not known."""

    lag: int
    behind_s: float | None
    bytes_per_row: float | None
    group_lag: int | None = None


class Position(NamedTuple):
    """Where a query is, for a look at the brokers."""

    query: str
    ends: Offsets
    spans: tuple[Span, ...]


@dataclass(slots=True)
class _Topic:
    rows: int = 0
    rows_per_s: float = 0.0
    lag: int = 0
    size_bytes: float = 0.0
    unsized_rows: int = 0
    look: TopicLook | None = None
    bytes_per_row: float | None = None


@dataclass(slots=True)
class _Query:
    label: str
    batches: int = 0
    batch_s: float = 0.0
    ends: Offsets = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    topics: dict[str, _Topic] = field(default_factory=dict)

    def topic(self, name: str) -> _Topic:
        """Return the figures of a topic; those beyond the limit have one for all."""
        label = name[:LABEL_LENGTH_MAX]
        if label not in self.topics and len(self.topics) >= TOPICS_MAX:
            label = OTHER_TOPICS
        return self.topics.setdefault(label, _Topic())


class QueryFigures:
    """The figures of all queries of a session; its methods may be called by several threads."""

    metrics = SPARK_METRICS

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}  # by the run's id
        self._left_out: set[str] = set()
        self._answers: bool | None = None

    def started(self, run_id: str, query_id: str, name: str | None) -> None:
        """Add a query."""
        with self._lock:
            self._query(run_id, query_id, name)

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """Add a report, the object of ``StreamingQueryProgress.json``."""
        with self._lock:
            query = self._query(str(progress["runId"]), str(progress["id"]), progress.get("name"))
            if query is None:
                return
            batch_s = float(progress.get("batchDuration") or 0) / 1000
            # Spark reports each ten seconds that nothing came; such a report has no batch.
            if "addBatch" in (progress.get("durationMs") or {}):
                query.batches += 1
                query.batch_s = batch_s
            _add_batch(query, progress.get("sources") or (), batch_s)

    def idled(self, run_id: str) -> None:
        """Note that a query waits for messages."""
        with self._lock:
            query = self._queries.get(run_id)
            for topic in query.topics.values() if query else ():
                topic.rows_per_s = 0.0

    def ended(self, run_id: str) -> None:
        """Drop a query."""
        with self._lock:
            self._queries.pop(run_id, None)
            self._left_out.discard(run_id)

    def positions(self) -> list[Position]:
        """Return where the queries are."""
        with self._lock:
            return [Position(one.label, dict(one.ends), one.spans) for one in self._queries.values() if one.ends]

    def looked(self, looks: Mapping[str, Mapping[str, TopicLook]] | None) -> None:
        """Take what brokers say, by query and topic; None when they don't answer."""
        with self._lock:
            self._answers = looks is not None
            for query in self._queries.values():
                for topic in query.topics.values():
                    topic.look = None
                for name, look in (looks or {}).get(query.label, {}).items():
                    topic = query.topic(name)
                    topic.look = look if topic.look is None else _sum(topic.look, look)
                    topic.bytes_per_row = look.bytes_per_row or topic.bytes_per_row
                    if topic.bytes_per_row is not None:
                        topic.size_bytes += topic.unsized_rows * topic.bytes_per_row
                        topic.unsized_rows = 0

    def labels(self) -> dict[str, str]:
        """Return the labels of every line."""
        return {"node_type": NODE_TYPE}

    def collectors(self) -> list[Collector]:
        """Return what the endpoint serves."""
        return [self]

    def collect(self) -> Iterator[Family]:
        """Yield the present figures."""
        with self._lock:
            families = list(self._families())
        yield from families

    def _families(self) -> Iterator[Family]:
        queries = list(self._queries.values())
        yield single(QUERIES, len(queries) + len(self._left_out))
        yield single(LEFT_OUT, len(self._left_out))
        if self._answers is not None:
            yield single(ANSWERS, self._answers)
        yield Family(BATCHES, [Reading((one.label,), one.batches) for one in queries])
        yield Family(BATCH_TIME, [Reading((one.label,), one.batch_s) for one in queries])
        for metric, value in _VALUES.items():
            found = [(one.label, name, value(topic)) for one in queries for name, topic in one.topics.items()]
            yield Family(metric, [Reading((label, name), known) for label, name, known in found if known is not None])

    def _query(self, run_id: str, query_id: str, name: str | None) -> _Query | None:
        """Return a query's figures, None for one without."""
        if run_id not in self._queries:
            if len(self._queries) >= QUERIES_MAX:
                self._left_out.add(run_id)
                return None
            self._left_out.discard(run_id)
            label = (name or query_id)[:LABEL_LENGTH_MAX]
            # Series must differ: another session may have a query of this name.
            if any(other.label == label for other in self._queries.values()):
                label = run_id
            self._queries[run_id] = _Query(label)
        return self._queries[run_id]


def _add_batch(query: _Query, sources: Any, batch_s: float) -> None:
    rows: dict[str, int] = {}
    lags: dict[str, int] = {}
    ends: Offsets = {}
    passed: list[Span] = []
    for source in sources:
        end = _offsets(source.get("endOffset"))
        if not end:
            continue
        batch = list(spans(_offsets(source.get("startOffset")), end))
        for key, low, high in batch:
            rows[key[0]] = rows.get(key[0], 0) + high - low
        # A report without latest offsets says nothing of the lag.
        for key, low, high in spans(end, _offsets(source.get("latestOffset"))):
            lags[key[0]] = lags.get(key[0], 0) + high - low
        passed += batch
        ends |= {key: min(offset, ends.get(key, offset)) for key, offset in end.items()}
    for topic in query.topics.values():
        topic.rows_per_s, topic.lag = 0.0, 0
    for name in {key[0] for key in ends}:
        topic = query.topic(name)
        count = rows.get(name, 0)
        topic.rows += count
        topic.unsized_rows += count
        topic.rows_per_s += count / batch_s if batch_s > 0 else 0.0
        topic.lag += lags.get(name, 0)
    if ends:
        query.ends = ends
    if passed:
        query.spans = tuple(passed)


def _offsets(said: Any) -> Offsets:
    """Return PyMQ's offsets; none of another source's, or of what is no JSON."""
    try:
        levels = json.loads(said) if isinstance(said, str) else said
        return from_json(levels).offsets if isinstance(levels, Mapping) else {}
    except (ValueError, UsageError):
        return {}


def _sum(one: TopicLook, other: TopicLook) -> TopicLook:
    """Return the figures of two topics that have one series."""
    known = [look.behind_s for look in (one, other) if look.behind_s is not None]
    groups = [look.group_lag for look in (one, other) if look.group_lag is not None]
    return TopicLook(
        one.lag + other.lag,
        max(known) if known else None,
        one.bytes_per_row or other.bytes_per_row,
        sum(groups) if groups else None,
    )


_VALUES: dict[Metric, Callable[[_Topic], float | None]] = {
    ROWS: lambda topic: topic.rows,
    ROW_RATE: lambda topic: topic.rows_per_s,
    BYTES: lambda topic: None if topic.bytes_per_row is None else topic.size_bytes,
    BYTE_RATE: lambda topic: None if topic.bytes_per_row is None else topic.rows_per_s * topic.bytes_per_row,
    LAG: lambda topic: topic.look.lag if topic.look else topic.lag,
    BEHIND: lambda topic: topic.look.behind_s if topic.look else None,
    GROUP_LAG: lambda topic: topic.look.group_lag if topic.look else None,
}
