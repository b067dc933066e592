"""Starts and ends of a read: a symbol, a time, a consumer group, or an offset or time for each queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec

from pymq.errors import NotFoundError, UsageError
from pymq.spark.planning.cluster import ClusterView, Queue
from pymq.units import parse_time_ms

# The numbers for the symbols in JSON of offsets, as in rocketmq-spark and in Spark's Kafka source.
EARLIEST = -2
LATEST = -1
_GROUP_PREFIX = "group:"
# Stands for the broker's name where JSON leaves that level out.
_ONLY_BROKER = ""

ByQueue = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Numbers by topic, broker name and queue id."""


@dataclass(slots=True, frozen=True)
class Position:
    """A start or an end: one of the optional fields, or else ``symbol``, which is earliest or latest."""

    symbol: int = EARLIEST
    time_ms: int | None = None
    group: str | None = None
    offsets: ByQueue | None = None
    times_ms: ByQueue | None = None

    def check(self, queues: Sequence[Queue]) -> None:
        """Raise UsageError when a topic, broker or queue that the position names is not read."""
        for named in (self.offsets, self.times_ms):
            if named is not None:
                _check_names(named, queues)


def parse_position(text: str, now_ms: int) -> Position:
    """Parse ``earliest``, ``latest``, ``group:NAME``, JSON of offsets, or a point in time. Raises UsageError."""
    value = text.strip()
    if value in ("earliest", "latest"):
        return Position(symbol=EARLIEST if value == "earliest" else LATEST)
    if value.startswith(_GROUP_PREFIX):
        if len(value) == len(_GROUP_PREFIX):
            raise UsageError("'group:' has no name: write group:NAME")
        return Position(group=value[len(_GROUP_PREFIX) :])
    if value.startswith("{"):
        return Position(offsets=parse_by_queue(value))
    return Position(time_ms=parse_time_ms(value, now_ms))


def parse_by_queue(text: str) -> ByQueue:
    """Parse JSON of numbers by topic, broker and queue, or by topic and queue. Raises UsageError."""
    try:
        found = msgspec.json.decode(text.encode(), type=dict[str, dict[str, dict[str, int] | int]])
    except msgspec.MsgspecError as error:
        form = '{"topic": {"broker": {"0": 17}}} or {"topic": {"0": 17}}'
        raise UsageError(f"offsets {text[:80]!r} are not of the form {form}: {error}") from error
    numbers: dict[str, dict[str, dict[str, int]]] = {}
    for topic, levels in found.items():
        for name, value in levels.items():
            broker, queues = (_ONLY_BROKER, {name: value}) if isinstance(value, int) else (name, value)
            numbers.setdefault(topic, {}).setdefault(broker, {}).update(queues)
    return numbers


def resolve(view: ClusterView, queue: Queue, position: Position, low: int, high: int, otherwise: int) -> int | None:
    """Return the offset of a position in one queue, which holds [low, high).

    The symbol ``otherwise`` applies where the position names other queues only. None: its group has no offset here.
    """
    symbol = position.symbol
    if position.time_ms is not None:
        return max(low, view.offset_by_time(queue, position.time_ms))
    if position.group is not None:
        return view.committed(queue, position.group)
    if position.times_ms is not None:
        time_ms = _number_of(position.times_ms, queue)
        if time_ms is not None:
            return max(low, view.offset_by_time(queue, time_ms))
        symbol = otherwise
    elif position.offsets is not None:
        offset = _number_of(position.offsets, queue)
        if offset is not None and offset >= 0:
            return offset
        symbol = otherwise if offset is None else offset
    return low if symbol == EARLIEST else high


def no_offsets(group: str, topics: Iterable[str]) -> NotFoundError:
    """Return the error for a group without an offset in any queue that is read."""
    names = ", ".join(sorted(set(topics)))
    return NotFoundError(
        f"group {group!r} has no offset in {names}: check its name with 'pymq group list', or begin at earliest"
    )


def _number_of(numbers: ByQueue, queue: Queue) -> int | None:
    brokers = numbers.get(queue.topic, {})
    number = str(queue.queue_id)
    return brokers.get(queue.broker_name, {}).get(number, brokers.get(_ONLY_BROKER, {}).get(number))


def _check_names(numbers: ByQueue, queues: Sequence[Queue]) -> None:
    known: dict[str, dict[str, set[str]]] = {}
    for queue in queues:
        known.setdefault(queue.topic, {}).setdefault(queue.broker_name, set()).add(str(queue.queue_id))
    for topic, brokers in numbers.items():
        if topic not in known:
            raise UsageError(f"the offsets name topic {topic!r}, which is not read{_nearest(topic, known)}")
        for broker, ids in brokers.items():
            _check_queues(topic, broker, ids, known[topic])


def _check_queues(topic: str, broker: str, ids: Iterable[str], brokers: Mapping[str, set[str]]) -> None:
    if broker == _ONLY_BROKER:
        if len(brokers) > 1:
            names = ", ".join(sorted(brokers))
            raise UsageError(
                f"the offsets of {topic} name queues but no broker, and it is on {names}: write "
                f'{{"{topic}": {{"{min(brokers)}": {{"0": 17}}}}}}'
            )
        broker = next(iter(brokers))
    if broker not in brokers:
        hint = _nearest(broker, brokers)
        raise UsageError(f"the offsets name broker {broker!r}, which has no queue of {topic}{hint}")
    unknown = sorted(set(ids) - brokers[broker])
    if unknown:
        raise UsageError(
            f"the offsets name queue {unknown[0]!r} of {topic}: {broker} has the queues 0 to {len(brokers[broker]) - 1}"
        )


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f": did you mean {close[0]!r}?"
    return f": there {'is' if len(names) == 1 else 'are'} {', '.join(names[:10]) or 'none'}"
