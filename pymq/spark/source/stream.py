"""The stream ``spark.readStream.format("pymq")``: offsets in Spark's checkpoint, Arrow batches, many tasks a batch.

Spark keeps one reader on the driver, whose methods plan, and copies it to the tasks, which read. A batch is two
offsets, and they always give the same rows: Spark plans a batch again after a crash.
:mod:`pymq.spark.source.stream_offsets` has the rules for queues that come, go and are made again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pymq.clock import Clock, SystemClock
from pymq.errors import RefusedError, UnreachableError, UsageError
from pymq.spark.planning.cluster import Bounds, ClusterView, Queue, RemoteCluster
from pymq.spark.planning.identity import Known, Recognizer
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position
from pymq.spark.planning.ranges import DataLossError, QueueKey
from pymq.spark.planning.selection import checked
from pymq.spark.planning.topics import unknown_topic
from pymq.spark.source.byte_limit import within_bytes
from pymq.spark.source.options import SourceOptions
from pymq.spark.source.partitions import RangePartition
from pymq.spark.source.sources_of_rows import open_reader
from pymq.spark.source.stream_offsets import Checkpoint, Offsets, from_json, limited, row_count, spans, to_json
from pymq.spark.tasks import workers

_log = logging.getLogger(__name__)
_Found = TypeVar("_Found")
# Between two looks while no name server or broker answers.
RETRY_PAUSE_S = 0.5


class PymqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads topics as a stream, with the columns of the batch source."""

    def __init__(
        self,
        options: SourceOptions,
        columns: tuple[str, ...],
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raise UsageError for an illegal option."""
        options.refuse_batch_options()
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._is_connected = False
        self._namesrv = options.namesrv
        self._topics = options.topics()
        self._start = options.start(self._clock.now_ms(), default="latest")
        self._settings = options.read_settings(columns, checked(options.selection(), self._clock))
        self._sizes = options.partition_sizes()
        self._batch_rows_max = options.number("maxOffsetsPerTrigger", 0)
        self._batch_bytes_max = options.batch_bytes_max
        self._byte_limits = 0
        self._batch_rows_min = options.number("minOffsetsPerTrigger", 0)
        self._delay_max_ms = options.delay_max_ms
        self._commit_group = options.text("commitGroup")
        self._initial: Checkpoint | None = None
        self._target: Offsets | None = None
        self._latest: Offsets = {}
        self._waiting_since_ms: int | None = None
        self._mirrored: Offsets = {}
        self._losses: set[tuple[QueueKey, int]] = set()
        self._recognizer = Recognizer()

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins; the same at every call, because latest moves on."""
        if self._initial is None:
            plan = self._ask(lambda view: make_plan(view, self._topics, self._start, Position(symbol=LATEST)))
            said = {part.key: part.identity.deleted_below for part in plan.queues if part.identity is not None}
            self._initial = Checkpoint(
                {part.key: part.from_offset for part in plan.queues},
                deleted_below={key: value for key, value in said.items() if value is not None},
            )
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of ``maxOffsetsPerTrigger`` or ``maxBytesPerTrigger``: Spark knows no two limits at once."""
        if self._batch_rows_max:
            return ReadMaxRows(self._batch_rows_max)
        return ReadMaxBytes(self._batch_bytes_max) if self._batch_bytes_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is there now: the query ends with it."""
        self._target = self._ask(self._ends_there)

    def _ends_there(self, view: RemoteCluster) -> Offsets:
        there, _ = self._queues_there(view)
        return {queue[:3]: bounds.high for queue, bounds in view.bounds(list(there.values())).items()}

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch, or ``start`` when there is none yet.

        Spark asks after the batch before ``start`` is done, which is when its progress can be shown to brokers.
        """
        return self._ask(lambda view: self._next_end(view, start, limit))

    def _next_end(self, view: RemoteCluster, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        point = from_json(start)
        begin = point.offsets
        queues, gone = self._queues_there(view)
        self._mirror(view, queues, begin)
        _check_brokers(view, [key for key in begin if key[0] in gone])
        self._lose_topics(gone, begin)
        looks = {queue[:3]: bounds for queue, bounds in view.bounds(list(queues.values())).items()}
        self._latest = self._ends(view, queues, looks, point)
        end = self._latest
        if self._target is not None:
            end = self._until_target(begin, self._target)
        elif not _goes_back(begin, end) and self._is_too_early(row_count(begin, end)):
            return dict(start)
        if isinstance(limit, ReadMaxRows):
            end = limited(begin, end, limit.max_rows)
        if self._batch_bytes_max and isinstance(limit, ReadMaxRows | ReadMaxBytes):
            end = self._within_bytes(view, queues, looks, begin, end)
        return to_json(self._end_point(view, queues, looks, point, end))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the queues for Spark's progress report."""
        return to_json(Checkpoint(self._latest)) if self._latest else None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of a batch."""
        point = from_json(end)
        found = list(spans(from_json(start).offsets, point.offsets))
        if not found:
            return []
        queues = self._ask(lambda view: _queues_to_read(view, [key for key, _, _ in found]))
        ranges = [
            queues[key].range(low, high, point.identity(key))
            for key, low, high in found
            if key in queues or self._lose(key, low, high, "its queue is gone")
        ]
        return [RangePartition(parts) for parts in self._sizes.tasks(ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the partition's ranges, in a task."""
        assert isinstance(partition, RangePartition)
        with workers.task():
            for part in partition.parts:
                reader = open_reader(part, self._settings)
                yield from reader.batches()
                if reader.lost:
                    _log.warning("%s: %d messages were no longer stored", part, reader.lost)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: Spark's checkpoint decides, and it is mirrored when the next batch is planned."""

    def stop(self) -> None:
        """Do nothing: no connection stays open between two calls."""

    def _ask(self, work: Callable[[RemoteCluster], _Found]) -> _Found:
        """Return what the cluster says. After its first answer it may be away for the retry budget."""
        begun_ms = self._clock.monotonic_ms()
        budget_s = self._settings.retry_budget_s
        while True:
            try:
                with RemoteCluster(
                    self._namesrv, credentials=self._settings.credentials, retry_budget_s=budget_s
                ) as view:
                    found = work(view)
                self._is_connected = True
                return found
            except UnreachableError:
                if not self._is_connected or self._clock.monotonic_ms() - begun_ms >= budget_s * 1000:
                    raise
            self._sleep(RETRY_PAUSE_S)

    def _queues_there(self, view: ClusterView) -> tuple[dict[QueueKey, Queue], list[str]]:
        """Return the queues of the query that exist now, and the names of its topics that are gone."""
        # A glob or an expression had a match when the query began, and may have one again.
        queues, gone = _queues_of(view, self._topics.topics(view, needs_match=False))
        return {queue[:3]: queue for queue in self._topics.chosen(list(queues.values()))}, gone

    def _ends(
        self, view: ClusterView, queues: Mapping[QueueKey, Queue], looks: Mapping[QueueKey, Bounds], point: Checkpoint
    ) -> Offsets:
        """Return the end of every queue; queues of the checkpoint that are gone keep their offset.

        A queue that was made again and is longer than before ends at 0, so that the batch after the next reads it all.
        Raises UnreachableError where a slave's end lies before the checkpoint.
        """
        begin = point.offsets
        ends = {**begin, **{key: bounds.high for key, bounds in looks.items()}}
        known = {queue: Known(begin[key], point.identity(key)) for key, queue in queues.items() if key in begin}
        others = self._recognizer.others(view, {queues[key]: bounds for key, bounds in looks.items()}, known)
        for queue, why in others.items():
            key = queue[:3]
            high, low = sorted((ends[key], begin[key]), reverse=True)
            if ends[key] >= begin[key]:
                ends[key] = 0
            self._lose(key, low, high, f"{why}, so its topic was made again")
        return ends

    def _end_point(
        self,
        view: ClusterView,
        queues: Mapping[QueueKey, Queue],
        looks: Mapping[QueueKey, Bounds],
        known: Checkpoint,
        end: Offsets,
    ) -> Checkpoint:
        """Return a batch's end with what its queues are recognized by.

        A queue that does not move keeps its marks: it may have been made again since, which the next look must notice.
        """
        moved = {key for key, offset in end.items() if offset != known.offsets.get(key)}
        deleted_below = {key: value for key, value in known.deleted_below.items() if key in end and key not in moved}
        for key, bounds in looks.items():
            if bounds.deleted_below is not None and (key in moved or key not in known.deleted_below):
                deleted_below[key] = bounds.deleted_below
        digests = {key: digest for key, digest in known.digests.items() if end.get(key) and key not in moved}
        found = view.record_digests({queues[key]: end[key] - 1 for key in moved & queues.keys() if end[key]})
        return Checkpoint(end, digests | {queue[:3]: digest for queue, digest in found.items()}, deleted_below)

    def _within_bytes(
        self,
        view: RemoteCluster,
        queues: Mapping[QueueKey, Queue],
        looks: Mapping[QueueKey, Bounds],
        begin: Offsets,
        end: Offsets,
    ) -> Offsets:
        """Return the end of a batch of ``maxBytesPerTrigger`` at most. Raises UsageError if a broker says no sizes."""
        found = [span for span in spans(begin, end) if span.key in looks]
        # Messages that a broker has deleted take no bytes, and it lists none of them.
        lows = {queues[key]: min(high, max(low, looks[key].low)) for key, low, high in found}
        highs = {queues[key]: high for key, _, high in found}
        self._byte_limits += 1
        try:
            cut = within_bytes(lows, highs, self._batch_bytes_max, view.entries, turn=self._byte_limits)
        except RefusedError as error:
            raise UsageError(
                f"option maxBytesPerTrigger needs the sizes of messages, which the broker refuses ({error}): "
                "write maxOffsetsPerTrigger"
            ) from error
        stay = {queue[:3] for queue, high in cut.items() if high == lows[queue] < highs[queue]}
        ends = {queue[:3]: high for queue, high in cut.items()}
        return end | ends | {key: begin.get(key, 0) for key in stay}

    def _until_target(self, begin: Offsets, target: Offsets) -> Offsets:
        """Return the ends, but not beyond the target; what an earlier run has read beyond it stays read."""
        ends: Offsets = {}
        for key, latest in self._latest.items():
            low = begin.get(key, 0)
            ends[key] = low if target.get(key, 0) < low <= latest else min(latest, target.get(key, 0))
        return ends

    def _is_too_early(self, count: int) -> bool:
        """Return whether ``minOffsetsPerTrigger`` holds the batch back; it does so for ``maxTriggerDelay`` at most."""
        now_ms = self._clock.monotonic_ms()
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        if count and (count >= self._batch_rows_min or now_ms - self._waiting_since_ms >= self._delay_max_ms):
            self._waiting_since_ms = now_ms
            return False
        return True

    def _mirror(self, view: RemoteCluster, queues: Mapping[QueueKey, Queue], done: Offsets) -> None:
        """Show the finished position as the offsets of a consumer group.

        Without a master that is done with a later batch: slaves take no offsets, but the query can read from them.
        """
        if not self._commit_group:
            return
        moved = {key: offset for key, offset in done.items() if self._mirrored.get(key) != offset}
        try:
            view.commit_offsets(self._commit_group, {queues[key]: moved[key] for key in moved.keys() & queues.keys()})
        except UnreachableError as error:
            _log.warning("the offsets of group %s stay behind until a master answers: %s", self._commit_group, error)
            return
        self._mirrored = dict(done)

    def _lose(self, key: QueueKey, low: int, high: int, why: str) -> bool:
        """Report the loss of offsets [low, high) once. Raises DataLossError unless losses are only reported."""
        topic, broker, queue_id = key
        text = f"{topic} {broker}/{queue_id} [{low}, {high}): {why}"
        self._report((key, high), text)
        return False

    def _lose_topics(self, gone: Sequence[str], begin: Offsets) -> None:
        """Report topics of the options that were deleted. Raises NotFoundError for one that never existed."""
        for topic in gone:
            if not any(key[0] == topic for key in begin):
                raise unknown_topic(topic)
            text = f"topic {topic} was deleted: what it held after the last batch is lost"
            self._report(((topic, "", -1), 0), text)

    def _report(self, loss: tuple[QueueKey, int], text: str) -> None:
        if loss in self._losses:
            return
        if self._settings.on_data_loss == "fail":
            raise DataLossError(f"{text}; start a new query, or accept losses with failOnDataLoss false")
        self._losses.add(loss)
        _log.warning("lost: %s", text)


def _goes_back(begin: Offsets, end: Offsets) -> bool:
    """Return whether a queue was made again: that is noted at once, with or without rows."""
    return any(offset < begin.get(key, 0) for key, offset in end.items())


def _queues_to_read(view: RemoteCluster, keys: Sequence[QueueKey]) -> dict[QueueKey, Queue]:
    """Return the queues of a planned batch that were not deleted since. Raises UnreachableError."""
    queues, _ = _queues_of(view, sorted({topic for topic, _, _ in keys}))
    _check_brokers(view, [key for key in keys if key not in queues])
    return queues


def _check_brokers(view: RemoteCluster, missing: Sequence[QueueKey]) -> None:
    """Raise UnreachableError if queues are missing because their broker is away, which is no loss."""
    away = {broker for _, broker, _ in missing} - view.broker_names() if missing else set()
    if away:
        raise UnreachableError(
            f"broker {min(away)} is not registered with the name servers, and the query has read from it: start it"
        )


def _queues_of(view: ClusterView, topics: Sequence[str]) -> tuple[dict[QueueKey, Queue], list[str]]:
    """Return the queues of topics, and the topics that do not exist."""
    found = view.queues_of(topics)
    queues = {queue[:3]: queue for topic in found for queue in found[topic]}
    return queues, [topic for topic in topics if topic not in found]
