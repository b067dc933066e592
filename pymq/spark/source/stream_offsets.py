"""Offsets of a stream: the JSON of Spark's checkpoint, and what a micro-batch takes of the messages that are there.

No I/O. Offsets are ``{"orders": {"broker-a": {"0": 17}}}``: the next offset to read of each queue, as in the option
``startingOffsets``. Beside them stand digests of the records before these offsets, ``{"#digests": {"orders": ...}}``: a
topic that was made again has other records there. No topic's name has a ``#``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pymq.errors import UsageError
from pymq.spark.planning.planner import QueueKey

Offsets = dict[QueueKey, int]
Digests = dict[QueueKey, str]
_DIGESTS = "#digests"
_Value = TypeVar("_Value")


def to_json(offsets: Mapping[QueueKey, int], digests: Mapping[QueueKey, str] | None = None) -> dict[str, Any]:
    """Return what Spark writes to the checkpoint."""
    return {**_levels(offsets), **({_DIGESTS: _levels(digests)} if digests else {})}


def from_json(levels: Mapping[str, Any]) -> tuple[Offsets, Digests]:
    """Inverse of :func:`to_json`. Raises UsageError for the offsets of another source."""
    try:
        offsets = {topic: brokers for topic, brokers in levels.items() if topic != _DIGESTS}
        return _flat(offsets, int), _flat(levels.get(_DIGESTS, {}), str)
    except (AttributeError, ValueError, TypeError) as error:
        raise UsageError(
            f"the checkpoint holds {str(levels)[:80]!r}, not offsets of PyMQ: it is another query's; use a new one"
        ) from error


def _levels(values: Mapping[QueueKey, _Value]) -> dict[str, Any]:
    levels: dict[str, dict[str, dict[str, _Value]]] = {}
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
    # A queue without a row in this batch stays where it is, also one that was made again.
    return {
        key: found[key][0] + shares[key] if shares.get(key) else start.get(key, high if key not in found else 0)
        for key, high in latest.items()
    }


def row_count(start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> int:
    """Return the rows between two offsets; queues that were made again count from 0."""
    return sum(high - low for _, low, high in spans(start, end))


def spans(start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> Iterable[tuple[QueueKey, int, int]]:
    """Yield (queue, from, to) of a batch. The same two offsets always give the same batch, as Spark demands.

    A queue that ``start`` lacks is new and begins at 0; one that ends before its start was made again, and too.
    """
    for key, high in end.items():
        low = start.get(key, 0)
        if high < low:
            low = 0
        if low < high:
            yield key, low, high
