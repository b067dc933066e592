"""Serves the figures of a session's streaming queries to Prometheus: :func:`metrics` adds a listener to the session."""

from __future__ import annotations

import json
import logging
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from pymq.client.loop_thread import shared
from pymq.clock import Clock, SystemClock
from pymq.errors import PymqError
from pymq.metrics.endpoint import MetricsEndpoint
from pymq.metrics.token import read_token
from pymq.net.http import HttpAccess
from pymq.spark.planning.cluster import Queue, RemoteCluster
from pymq.spark.planning.ranges import QueueKey
from pymq.spark.session.query_figures import Position, QueryFigures, TopicLook
from pymq.spark.source.stream_offsets import row_count, spans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST: Final = "127.0.0.1"
LOOK_EVERY_S: Final = 10.0
LOOK_TIMEOUT_S: Final = 5.0
# Queues of a topic whose next message is read for its age: those with most messages behind.
AGED_QUEUES_MAX: Final = 32
# Queues of a topic, and messages of each, that give the size of a message.
SIZED_QUEUES_MAX: Final = 8
SIZED_ROWS_MAX: Final = 100
_log = logging.getLogger(__name__)


class Listener(StreamingQueryListener):  # type: ignore[misc]
    """Passes what Spark reports to the figures."""

    def __init__(self, figures: QueryFigures) -> None:
        self._figures = figures

    def onQueryStarted(self, event: Any) -> None:
        """Add the query."""
        self._figures.started(str(event.runId), str(event.id), event.name)

    def onQueryProgress(self, event: Any) -> None:
        """Add the batch."""
        self._figures.progressed(json.loads(event.progress.json))

    def onQueryIdle(self, event: Any) -> None:
        """Note that there is no batch."""
        self._figures.idled(str(event.runId))

    def onQueryTerminated(self, event: Any) -> None:
        """Drop the query."""
        self._figures.ended(str(event.runId))


class QueryMetrics:
    """A listener, its endpoint and its looks at brokers. End it with :meth:`close`, or use it in a ``with`` block."""

    def __init__(
        self,
        spark: SparkSession,
        port: int,
        host: str,
        namesrv: str,
        credentials: str,
        groups: Mapping[str, str],
        token_file: str = "",
        clock: Clock | None = None,
    ) -> None:
        """Raise UsageError for a port that can't be used, ConfigError for a token that can't."""
        self._spark = spark
        self._namesrv, self._credentials, self._groups = namesrv, credentials, dict(groups)
        self._clock = clock or SystemClock()
        self._is_closed = threading.Event()
        self.figures = QueryFigures()
        access = HttpAccess(token=read_token(token_file), own_hosts=(host,))
        self._endpoint = MetricsEndpoint(self.figures.collectors, self.figures.labels, access)
        self.address = shared.call(self._endpoint.start(host, port))
        self._listener = Listener(self.figures)
        spark.streams.addListener(self._listener)
        self._looks: threading.Thread | None = None
        if namesrv:
            self._looks = threading.Thread(target=self._look_often, name="pymq-query-metrics", daemon=True)
            self._looks.start()

    def __enter__(self) -> QueryMetrics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the listener, and close the endpoint."""
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        try:
            self._spark.streams.removeListener(self._listener)
        finally:  # a session that was stopped before has no streams
            shared.call(self._endpoint.stop())
            if self._looks is not None:
                self._looks.join()

    def look(self) -> None:
        """Ask the brokers about all queries."""
        positions = self.figures.positions()
        try:
            with RemoteCluster(self._namesrv, credentials=self._credentials, timeout_s=LOOK_TIMEOUT_S) as view:
                looks = {
                    one.query: topic_looks(view, one, self._groups.get(one.query, ""), self._clock.now_ms())
                    for one in positions
                }
        except PymqError as error:
            _log.warning("the metrics of queries lack what brokers say: %s", error)
            self.figures.looked(None)
            return
        self.figures.looked(looks)

    def _look_often(self) -> None:
        while not self._is_closed.wait(LOOK_EVERY_S):
            self.look()


def metrics(
    spark: SparkSession,
    port: int,
    *,
    host: str = HOST,
    namesrv: str = "",
    credentials: str = "",
    groups: Mapping[str, str] | None = None,
    token_file: str = "",
) -> QueryMetrics:
    """Serve figures of the session's streaming queries on ``http://host:port/metrics`` (0: any free port).

    With ``namesrv`` brokers are asked every ten seconds: for the lag at that time, the age of the next message, sizes,
    and the lag of ``groups`` (the ``commitGroup`` by the query's name). Anyone who reaches the port can read it, unless
    ``token_file`` holds a token that scrapers show. Raises UsageError for a port that can't be used, ConfigError for a
    token that can't.
    """
    return QueryMetrics(spark, port, host, namesrv, credentials, groups or {}, token_file)


def topic_looks(view: RemoteCluster, position: Position, group: str, now_ms: int) -> dict[str, TopicLook]:
    """Return what brokers say of a query's topics; deleted topics have nothing."""
    queues = {
        queue[:3]: queue
        for found in view.queues_of(sorted({key[0] for key in position.ends})).values()
        for queue in found
    }
    by_topic: dict[str, list[QueueKey]] = defaultdict(list)
    for key in position.ends:
        if key in queues:
            by_topic[key[0]].append(key)
    bounds = {
        queue[:3]: at for queue, at in view.bounds([queues[key] for keys in by_topic.values() for key in keys]).items()
    }
    looks: dict[str, TopicLook] = {}
    for topic, keys in by_topic.items():
        begin = {key: position.ends[key] for key in keys}
        highs = {key: bounds[key].high for key in keys}
        behind = sorted(spans(begin, highs), key=lambda span: span.low - span.high)
        places = {queues[key]: max(low, bounds[key].low) for key, low, _ in behind[:AGED_QUEUES_MAX]}
        looks[topic] = TopicLook(
            row_count(begin, highs),
            _age_s(view, places, now_ms) if behind else 0.0,
            _bytes_per_row(
                view, [(queues[span.key], span.low, span.high) for span in position.spans if span.key in keys]
            ),
            _group_lag(view, [queues[key] for key in keys], highs, group) if group else None,
        )
    return looks


def _age_s(view: RemoteCluster, places: Mapping[Queue, int], now_ms: int) -> float | None:
    times_ms = [record.store_timestamp_ms for record in view.records(places).values()]
    return max(0, now_ms - min(times_ms)) / 1000 if times_ms else None


def _bytes_per_row(view: RemoteCluster, passed: Sequence[tuple[Queue, int, int]]) -> float | None:
    """Return the mean of a sample: messages from the middle of what the last batch has passed."""
    asks: list[tuple[Queue, int, int]] = []
    for queue, low, high in passed[:SIZED_QUEUES_MAX]:
        count = min(SIZED_ROWS_MAX, high - low)
        asks.append((queue, low + (high - low - count) // 2, count))
    sizes = [entry.size_bytes for entries in view.entries(asks) for entry in entries]
    return sum(sizes) / len(sizes) if sizes else None


def _group_lag(view: RemoteCluster, queues: Sequence[Queue], highs: Mapping[QueueKey, int], group: str) -> int | None:
    found = {queue: view.committed(queue, group) for queue in queues}
    known = [max(0, highs[queue[:3]] - offset) for queue, offset in found.items() if offset is not None]
    return sum(known) if known else None
