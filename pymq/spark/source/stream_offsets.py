"""Offsets of a stream: the JSON of Spark's checkpoint, and what a micro-batch takes of the messages that are there.

No I/O. Offsets are ``{"orders": {"broker-a": {"0": 17}}}``: the next offset to read of each queue, as in the option
``startingOffsets``. Beside them stand digests of the records before them, ``{"#digests": {"orders": ...}}``, and what
PyMQ's brokers said of the topics' deletions, ``{"#deleted": {"orders": ...}}``: both show that a topic was made again.
No topic's name has a ``#``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from pymq.errors import UsageError
from pymq.spark.planning.ranges import Identity, QueueKey

Offsets = dict[QueueKey, int]
_DIGESTS = "#digests"
_DELETED = "#deleted"
_Value = TypeVar("_Value")


class Span(NamedTuple):
    """Offsets [low, high) of a queue."""

    key: QueueKey
    low: int
    high: int


@dataclass(slots=True)
class Checkpoint:
    """The offsets of a batch's end, and by what its queues are recognized."""

    offsets: Offsets
    digests: dict[QueueKey, str] = field(default_factory=dict)
    """Digests of the records before these offsets."""
    deleted_below: dict[QueueKey, int] = field(default_factory=dict)
    """See :class:`~pymq.wire.headers.admin.TopicStatsAnswer`; brokers of RocketMQ don't say it."""

    def identity(self, key: QueueKey) -> Identity:
        """Return by what a queue is recognized."""
        return Identity(self.deleted_below.get(key), self.offsets[key] - 1, self.digests.get(key, ""))


def to_json(point: Checkpoint) -> dict[str, Any]:
    """Return what Spark writes to the checkpoint."""
    levels = _levels(point.offsets)
    for name, values in ((_DIGESTS, point.digests), (_DELETED, point.deleted_below)):
        if values:
            levels[name] = _levels(values)
    return levels


def from_json(levels: Mapping[str, Any]) -> Checkpoint:
    """Inverse of :func:`to_json`. Raises UsageError for the offsets of another source."""
    try:
        offsets = {topic: brokers for topic, brokers in levels.items() if topic not in (_DIGESTS, _DELETED)}
        return Checkpoint(
            _flat(offsets, int), _flat(levels.get(_DIGESTS, {}), str), _flat(levels.get(_DELETED, {}), int)
        )
    except (AttributeError, ValueError, TypeError) as error:
        raise UsageError(
            f"the checkpoint holds {str(levels)[:80]!r}, not offsets of PyMQ: it is another query's; use a new one"
        ) from error


def _levels(values: Mapping[QueueKey, _Value]) -> dict[str, Any]:
    levels: dict[str, Any] = {}
    for (topic, broker, queue_id), value in sorted(values.items()):
        levels.setdefault(topic, {}).setdefault(broker, {})[str(queue_id)] = value
    return levels


def _flat(levels: Mapping[str, Any], kind: Callable[[Any], _Value]) -> dict[QueueKey, _Value]:
    return {
        (topic, broker, int(queue_id)): kind(value)
        for topic, brokers in levels.items()
        for broker, queues in brokers.items()
        for queue_id, value in queues.items()
    }


def limited(start: Mapping[QueueKey, int], latest: Mapping[QueueKey, int], rows_max: int) -> Offsets:
    """Return the end of a batch of at most ``rows_max`` rows; each queue has its share of what is there.

    The rows that rounding leaves go to the queues that lost most by it, so no queue starves.
    """
    found = {key: (low, high - low) for key, low, high in spans(start, latest)}
    total = sum(count for _, count in found.values())
    if total <= rows_max:
        return dict(latest)
    shares = {key: count * rows_max // total for key, (_, count) in found.items()}
    left = rows_max - sum(shares.values())
    for key in sorted(found, key=lambda key: (-(found[key][1] * rows_max % total), key))[:left]:
        shares[key] += 1
    # A queue whose rows don't come in this batch stays where it is, also one that was made again and is shorter.
    return {
        key: high if key not in found else found[key][0] + shares[key] if shares[key] else start.get(key, 0)
        for key, high in latest.items()
    }


def row_count(start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> int:
    """Return the rows between two offsets; queues that were made again count from 0."""
    return sum(high - low for _, low, high in spans(start, end))


def spans(start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> Iterable[Span]:
    """Yield what a batch takes of its queues. The same two offsets always give the same batch, as Spark demands.

    A queue that ``start`` lacks is new and begins at 0; one that ends before its start was made again, and too.
    """
    for key, high in end.items():
        low = start.get(key, 0)
        if high < low:
            low = 0
        if low < high:
            yield Span(key, low, high)
