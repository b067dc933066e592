"""Recognizes a queue by the record before an export's position: a topic made again under its name has other records."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pymq.errors import PymqError
from pymq.spark.cluster import ClusterView, Queue
from pymq.spark.planner import QueueKey, ResumeError


@dataclass(slots=True, frozen=True)
class Mark:
    """The digest of the record at one offset of a queue."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int
    digest: str

    @property
    def key(self) -> QueueKey:
        return self.topic, self.broker_name, self.queue_id

    def to_dict(self) -> dict[str, Any]:
        """Returns a dict for JSON."""
        return asdict(self)


def take_marks(view: ClusterView, queues: Iterable[Queue], positions: dict[QueueKey, int]) -> list[Mark]:
    """Returns the mark before each queue's position; none where the record is gone or the broker doesn't answer.

    An earlier mark of such a queue stays good.
    """
    marks: list[Mark] = []
    for queue in queues:
        offset = positions[queue[:3]] - 1
        digest = None
        if offset >= 0:
            with suppress(PymqError):
                digest = view.record_digest(queue, offset)
        if digest is not None:
            marks.append(Mark(queue.topic, queue.broker_name, queue.queue_id, offset, digest))
    return marks


def holds_another(view: ClusterView, queue: Queue, offset: int, digest: str) -> bool:
    """Returns whether the record at an offset has another digest; a record that is gone says nothing."""
    found = view.record_digest(queue, offset)
    return found is not None and found != digest


def check_marks(view: ClusterView, queues: Iterable[Queue], marks: dict[QueueKey, Mark]) -> None:
    """Raises ResumeError for a queue that holds another record at its mark; a record that is gone says nothing."""
    for queue in queues:
        mark = marks.get(queue[:3])
        if mark is not None and holds_another(view, queue, mark.offset, mark.digest):
            raise ResumeError(
                f"{queue.topic} {queue.broker_name}/{queue.queue_id} holds another message at offset {mark.offset} "
                "than the export has: the topic was deleted and created again, or this is another cluster; export to "
                "a new directory"
            )
