"""The planner's view of topics whose older messages are in a lake: one history of what both hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pymq.model.names import is_user_topic
from pymq.spark.lake.lake import Lake, Span, hand_over
from pymq.spark.lake.lake_reader import first_offset_at
from pymq.spark.places.places import Place
from pymq.spark.planning.cluster import Bounds, Queue, RemoteCluster
from pymq.spark.planning.identity import Known, Recognizer
from pymq.spark.planning.ranges import DataLossError, Identity, QueueRange, ResumeError
from pymq.spark.planning.store_view import StoreView
from pymq.spark.settings import DataLoss
from pymq.units import format_count


class HistoryView:
    """A :class:`~pymq.spark.planning.cluster.ClusterView` of a lake, and of the brokers or the store behind it.

    Bounds of brokers are asked for before the lake's log is read: what is deleted meanwhile is in the log then.
    """

    def __init__(self, view: RemoteCluster | StoreView, archive: Place, on_data_loss: DataLoss = "fail") -> None:
        """Raise UsageError for a directory that is no such lake."""
        self._view = view
        self._lake = Lake(archive)
        self._on_data_loss = on_data_loss
        self._stored: dict[Queue, Bounds] = {}
        self._only_archived: set[Queue] = set()
        self._recognizer = Recognizer()

    def __enter__(self) -> HistoryView:
        return self

    def __exit__(self, *_: object) -> None:
        self._view.__exit__(*_)

    def all_topics(self) -> list[str]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        return sorted({*self._view.all_topics(), *self._lake.topics()})

    def user_topics(self) -> list[str]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        return sorted({*self._view.user_topics(), *filter(is_user_topic, self._lake.topics())})

    def queues_of(self, topics: Sequence[str]) -> dict[str, list[Queue]]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`. A queue that is only in the lake has no addresses."""
        found = self._view.queues_of(topics)
        every: dict[str, list[Queue]] = {}
        for topic in topics:
            served = found.get(topic, [])
            known = {queue[:3] for queue in served}
            archived = [Queue(*key, ()) for key in self._lake.queues_of(topic) if key not in known]
            self._only_archived.update(archived)
            if served or archived:
                every[topic] = sorted([*served, *archived])
        return every

    def bounds(self, queues: Sequence[Queue]) -> dict[Queue, Bounds]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`.

        Raises ResumeError for a queue that is not the one in the lake.
        """
        served = [queue for queue in queues if queue not in self._only_archived]
        before = self._lake
        self._stored = {**dict.fromkeys(self._only_archived, Bounds(0, 0)), **self._view.bounds(served)}
        self._refuse_other_queues(served, before)
        self._lake = Lake(before.root)
        return {queue: self._bounds(queue) for queue in queues}

    def offset_by_time(self, queue: Queue, time_ms: int) -> int:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        archived = first_offset_at(self._lake, queue[:3], time_ms)
        if archived is not None or queue in self._only_archived:
            return self._bounds(queue).high if archived is None else archived
        spans = self._lake.spans(queue[:3])
        return max(self._view.offset_by_time(queue, time_ms), spans[-1].to_offset if spans else 0)

    def committed(self, queue: Queue, group: str) -> int | None:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        return None if queue in self._only_archived else self._view.committed(queue, group)

    def record_digests(self, places: Mapping[Queue, int]) -> dict[Queue, str]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        return self._view.record_digests(places)

    def split(self, ranges: Sequence[QueueRange]) -> list[QueueRange]:
        """Return the parts of the ranges that the lake has, then the parts that brokers or a store have.

        Raises DataLossError for offsets that are in neither, unless losses are only reported.
        """
        stored = {queue[:3]: Span(*bounds[:2]) for queue, bounds in self._stored.items()}
        archived: list[QueueRange] = []
        rest: list[QueueRange] = []
        for part in ranges:
            pieces = hand_over(Span(part.from_offset, part.to_offset), self._lake.spans(part.key), stored[part.key])
            for gap in pieces.missing if self._on_data_loss == "fail" else ():
                raise self._gap(part, gap)
            archived += [_cut(part, span, is_archived=True) for span in pieces.archived]
            rest += [_cut(part, span, is_archived=False) for span in pieces.stored]
        return [*archived, *(self._view.split(rest) if isinstance(self._view, StoreView) else rest)]

    def _bounds(self, queue: Queue) -> Bounds:
        spans, stored = self._lake.spans(queue[:3]), self._stored[queue]
        if not spans:
            return stored
        first, last = spans[0].from_offset, spans[-1].to_offset
        return Bounds(first if stored.low >= stored.high else min(first, stored.low), max(last, stored.high))

    def _refuse_other_queues(self, served: Sequence[Queue], lake: Lake) -> None:
        known: dict[Queue, Known] = {}
        for queue in served:
            mark, spans = lake.mark(queue[:3]), lake.spans(queue[:3])
            if spans:
                known[queue] = Known(spans[-1].to_offset, mark.identity if mark is not None else Identity())
        for queue, why in self._recognizer.others(self._view, self._stored, known).items():
            raise ResumeError(
                f"{queue.topic} {queue.broker_name}/{queue.queue_id} is not the queue in {lake.root}: {why}, so the "
                "topic was deleted and created again, or this is another cluster; read the lake and the topic apart, "
                "or run the export with --on-data-loss report first"
            )

    def _gap(self, part: QueueRange, gap: Span) -> DataLossError:
        stored = next(bounds for queue, bounds in self._stored.items() if queue[:3] == part.key)
        count = gap.to_offset - gap.from_offset
        return DataLossError(
            f"{part.topic} {part.broker_name}/{part.queue_id}: {format_count(count, 'message')} [{gap.from_offset}, "
            f"{gap.to_offset}) "
            f"are neither in {self._lake.root} nor stored, where the queue begins at {stored.low}: they were deleted "
            "before an export; read on without them with failOnDataLoss=false, and run the export more often than the "
            "retention deletes"
        )


def _cut(part: QueueRange, span: Span, *, is_archived: bool) -> QueueRange:
    return replace(part, from_offset=span.from_offset, to_offset=span.to_offset, is_archived=is_archived)
