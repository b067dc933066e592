"""Recognizes a queue by the record before an export's position: a topic made again under its name has other records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pymq.errors import PymqError
from pymq.spark.planning.cluster import ClusterView, Queue
from pymq.spark.planning.planner import QueueKey, ResumeError


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
        """Return a dict for JSON."""
        return asdict(self)


def take_marks(view: ClusterView, queues: Iterable[Queue], positions: dict[QueueKey, int]) -> list[Mark]:
    """Return the mark before each queue's position; none where the record is gone or the broker doesn't answer.

    An earlier mark of such a queue stays good.
    """
    by_broker: dict[str, dict[Queue, int]] = {}
    for queue in queues:
        if positions[queue[:3]] > 0:
            by_broker.setdefault(queue.broker_name, {})[queue] = positions[queue[:3]] - 1
    marks: list[Mark] = []
    for offsets in by_broker.values():
        with suppress(PymqError):
            for queue, digest in view.record_digests(offsets).items():
                marks.append(Mark(*queue[:3], offsets[queue], digest))
    return marks


def made_again(view: ClusterView, known: Mapping[Queue, tuple[int, str]]) -> set[Queue]:
    """Return the queues whose record at an offset has another digest; a record that is gone says nothing."""
    found = view.record_digests({queue: offset for queue, (offset, _) in known.items()})
    return {queue for queue, digest in found.items() if digest != known[queue][1]}


def check_marks(view: ClusterView, queues: Iterable[Queue], marks: dict[QueueKey, Mark]) -> None:
    """Raise ResumeError for a queue that holds another record at its mark."""
    marked = {queue: marks[queue[:3]] for queue in queues if queue[:3] in marks}
    for queue in sorted(made_again(view, {queue: (mark.offset, mark.digest) for queue, mark in marked.items()})):
        raise ResumeError(
            f"{queue.topic} {queue.broker_name}/{queue.queue_id} holds another message at offset "
            f"{marked[queue].offset} than the export has: the topic was deleted and created again, or this is another "
            "cluster; export to a new directory"
        )
