"""Recognizes queues, look by look: a topic that was made again under its name has others.

PyMQ's brokers say it with the ends of a topic's queues. At other brokers the digest of a record that was read tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pymq.errors import PymqError
from pymq.spark.planning.cluster import Bounds, ClusterView, Queue
from pymq.spark.planning.ranges import Identity, QueueKey, QueueRange

# Between a topic's name and the number of a later generation; no topic's name has it.
_GENERATION_MARK = "~"


@dataclass(slots=True, frozen=True)
class Known:
    """Up to where a queue was read, and how it is recognized."""

    offset: int
    identity: Identity
    generation: int = 1


@dataclass(slots=True, frozen=True)
class Mark:
    """The digest of the record at one offset of a queue, and what its broker said of deletions of its topic.

    ``topic`` is the name of the topic's generation.
    """

    topic: str
    broker_name: str
    queue_id: int
    offset: int
    digest: str
    deleted_below: int | None = None

    @property
    def key(self) -> QueueKey:
        return self.topic, self.broker_name, self.queue_id

    @property
    def identity(self) -> Identity:
        return Identity(self.deleted_below, self.offset, self.digest)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self)


class Recognizer:
    """Notices queues that are others by now.

    Keep one for a run. It asks for a queue's digest at its first look, because that may be another cluster; after that
    only brokers that don't say what was deleted, and only when the queue has got more.
    """

    def __init__(self) -> None:
        self._recognized: set[QueueKey] = set()

    def others(
        self, view: ClusterView, looks: Mapping[Queue, Bounds], known: Mapping[Queue, Known]
    ) -> dict[Queue, str]:
        """Return the queues that are not those of ``known``, with how that shows.

        Raises SlaveBehindError where only a slave ends before a known offset.
        """
        found: dict[Queue, str] = {}
        marked: dict[Queue, Identity] = {}
        for queue, one in known.items():
            bounds, identity = looks[queue], one.identity
            before, now = identity.deleted_below, bounds.deleted_below
            if not one.offset:
                continue
            if before is not None and now is not None and now > before:
                found[queue] = f"its topic was deleted after offset {one.offset} was read"
            elif bounds.high < one.offset:
                bounds.check_known(queue, one.offset)
                found[queue] = f"it was read up to {one.offset} and ends at {bounds.high}"
            elif identity.digest and (queue[:3] not in self._recognized or (now is None and bounds.high > one.offset)):
                marked[queue] = identity
        digests = view.record_digests({queue: identity.offset for queue, identity in marked.items()}) if marked else {}
        for queue, identity in marked.items():
            # A record that is gone says nothing.
            if digests.get(queue, identity.digest) != identity.digest:
                found[queue] = f"it holds another message at offset {identity.offset} than was read"
            else:
                self._recognized.add(queue[:3])
        return found


def take_marks(view: ClusterView, parts: Mapping[Queue, QueueRange], positions: Mapping[QueueKey, int]) -> list[Mark]:
    """Return the mark before each queue's position; none where the record is gone or the broker doesn't answer.

    An earlier mark of such a queue stays good. ``parts``: the queues with their planned ranges.
    """
    by_broker: dict[str, dict[Queue, int]] = {}
    for queue in parts:
        if positions[queue[:3]] > 0:
            by_broker.setdefault(queue.broker_name, {})[queue] = positions[queue[:3]] - 1
    marks: list[Mark] = []
    for offsets in by_broker.values():
        with suppress(PymqError):
            for queue, digest in view.record_digests(offsets).items():
                part = parts[queue]
                name = generation_name(part.topic, part.generation)
                deleted_below = part.identity.deleted_below if part.identity is not None else None
                marks.append(Mark(name, *queue[1:3], offsets[queue], digest, deleted_below))
    return marks


def generation_name(topic: str, generation: int) -> str:
    """Return the name of a topic's generation in an export: that of the first is the topic's."""
    return topic if generation == 1 else f"{topic}{_GENERATION_MARK}{generation}"


def parse_generation(name: str) -> tuple[str, int]:
    """Inverse of :func:`generation_name`."""
    topic, _, generation = name.partition(_GENERATION_MARK)
    return topic, int(generation or 1)


def latest_generations(keys: Iterable[QueueKey]) -> dict[QueueKey, QueueKey]:
    """Return the key of the latest generation of each queue, by the queue's own key."""
    latest: dict[QueueKey, tuple[int, QueueKey]] = {}
    for key in keys:
        topic, generation = parse_generation(key[0])
        own = topic, *key[1:]
        if own not in latest or latest[own][0] < generation:
            latest[own] = generation, key
    return {own: key for own, (_, key) in latest.items()}


def known_queues(positions: Mapping[QueueKey, int], marks: Mapping[QueueKey, Mark]) -> dict[QueueKey, Known]:
    """Return what an export knows of its queues, by their own keys, from positions and marks by generation."""
    found: dict[QueueKey, Known] = {}
    for own, key in latest_generations(positions).items():
        identity = marks[key].identity if key in marks else Identity()
        found[own] = Known(positions[key], identity, parse_generation(key[0])[1])
    return found
