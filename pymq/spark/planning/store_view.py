"""The planner's view of a store directory: what :class:`~pymq.spark.planning.cluster.RemoteCluster` is for brokers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pymq.model.inner_batch import with_single_records
from pymq.model.names import is_user_topic
from pymq.model.record import decode_records, log_malformed, store_time_ms
from pymq.spark.planning.cluster import Bounds, Queue
from pymq.spark.planning.ranges import DataLossError, QueueRange
from pymq.spark.planning.single_records import record_digest
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.settings import DataLoss

if TYPE_CHECKING:
    from pymq.offline.consumer_view import ConsumerView

# The log is read in order, piece by piece with all queues: each part of it comes from the disk once.
PIECES_MAX = 1024
PIECE_SIZE_MIN_BYTES = 16 << 20


class StoreView:
    """A :class:`~pymq.spark.planning.cluster.ClusterView` of one broker's directory."""

    def __init__(self, place: StorePlace, on_data_loss: DataLoss = "fail") -> None:
        """Raise what :meth:`StorePlace.opened` does, and DataLossError for damage that hides messages."""
        self._stack = ExitStack()
        self._view: ConsumerView = self._stack.enter_context(place.opened())
        self._broker = place.broker_name or self._view.broker_name() or place.root.name
        if on_data_loss == "fail":
            try:
                self._refuse_damage()
            except BaseException:
                self._stack.close()
                raise

    def __enter__(self) -> StoreView:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def all_topics(self) -> list[str]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        return self._view.topics()

    def user_topics(self) -> list[str]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        own = self._view.own_topics()
        return [topic for topic in self._view.topics() if is_user_topic(topic) and topic not in own]

    def queues_of(self, topics: Sequence[str]) -> dict[str, list[Queue]]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        found = {topic: self._view.queues_of(topic) for topic in topics}
        return {
            topic: [Queue(topic, self._broker, number, ()) for number in numbers]
            for topic, numbers in found.items()
            if numbers is not None
        }

    def bounds(self, queues: Sequence[Queue]) -> dict[Queue, Bounds]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        return {queue: Bounds(*self._view.bounds(queue.topic, queue.queue_id)) for queue in queues}

    def offset_by_time(self, queue: Queue, time_ms: int) -> int:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        low, high = self._view.bounds(queue.topic, queue.queue_id)
        while low < high:
            middle = (low + high) // 2
            raw = self._view.raw_record(queue.topic, queue.queue_id, middle)
            if raw is None or store_time_ms(raw) < time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def committed(self, queue: Queue, group: str) -> int | None:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        return self._view.committed(queue.topic, queue.queue_id, group)

    def record_digests(self, places: Mapping[Queue, int]) -> dict[Queue, str]:
        """See :class:`~pymq.spark.planning.cluster.ClusterView`."""
        found: dict[Queue, str] = {}
        for queue, offset in places.items():
            raw = self._view.raw_record(queue.topic, queue.queue_id, offset)
            for message in decode_records(with_single_records(raw, offset), log_malformed) if raw is not None else ():
                if message.queue_offset == offset:
                    found[queue] = record_digest(message)
        return found

    def split(self, ranges: Sequence[QueueRange]) -> list[QueueRange]:
        """Return the ranges cut at ends of segments, or of smaller pieces that keep all cores busy, in log order."""
        log = self._view.log
        if not ranges or not log.segments:
            return list(ranges)
        firsts = [self._view.place_of(part.topic, part.queue_id, part.from_offset) for part in ranges]
        first = min((place for place in firsts if place is not None), default=log.start)
        size = min(log.segment_size, (log.end_of_files - first) // (2 * (os.cpu_count() or 1)))
        size = max(size, PIECE_SIZE_MIN_BYTES, -(-(log.end_of_files - first) // PIECES_MAX))
        places = list(range(first - first % size + size, log.end_of_files, size))
        cut = [
            (number, piece)
            for part in ranges
            for number, piece in enumerate(
                part.cut(self._view.cuts(part.topic, part.queue_id, part.from_offset, part.to_offset, places))
            )
        ]
        return [piece for _, piece in sorted(cut, key=lambda pair: pair[0]) if piece.count]

    def _refuse_damage(self) -> None:
        for damage in self._view.walked.damaged[:1]:
            path, position = self._view.log.place(damage.at)
            raise DataLossError(
                f"{path} at {position}: {damage.reason}, so {damage.end - damage.start} bytes hold no messages: repair "
                "the directory (pymq store repair), or accept losses with on-data-loss report"
            )
