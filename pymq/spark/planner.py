"""Plans the ranges to read: turns topics, globs and positions into offsets of queues. Doesn't use Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from pymq.errors import PymqError, UnreachableError, UsageError
from pymq.spark.cluster import ClusterView, Queue
from pymq.spark.ranges import QueueRange, total_count
from pymq.units import parse_time_ms

# The numbers that rocketmq-spark uses in offset JSON.
EARLIEST = -2
LATEST = -1
_GROUP_PREFIX = "group:"
_GLOB = frozenset("*?[")

QueueKey = tuple[str, str, int]


class ResumeError(PymqError):
    """An earlier export's positions don't fit the cluster's queues."""


@dataclass(slots=True, frozen=True)
class Position:
    """A start or an end: one of the optional fields, or else ``symbol``, which is earliest or latest."""

    symbol: int = EARLIEST
    time_ms: int | None = None
    group: str | None = None
    offsets: Mapping[str, Mapping[str, Mapping[str, int]]] | None = None


@dataclass(slots=True)
class Plan:
    """The ranges to read. ``ranges`` leaves out empty ones; ``queues`` has every queue with its range."""

    queues: list[QueueRange] = field(default_factory=list)

    @property
    def ranges(self) -> list[QueueRange]:
        return [part for part in self.queues if part.count > 0]

    @property
    def rows(self) -> int:
        return total_count(self.queues)

    def limited(self, rows_max: int) -> Plan:
        """Returns the first ``rows_max`` offsets in the order of the queues; 0 is no limit."""
        if not rows_max:
            return self
        left = rows_max
        limited: list[QueueRange] = []
        for part in self.queues:
            count = min(left, part.count)
            limited.append(replace(part, to_offset=part.from_offset + count))
            left -= count
        return Plan(limited)


def parse_position(text: str, now_ms: int) -> Position:
    """Parses ``earliest``, ``latest``, ``group:NAME``, offset JSON, or a point in time. Raises UsageError."""
    value = text.strip()
    if value in ("earliest", "latest"):
        return Position(symbol=EARLIEST if value == "earliest" else LATEST)
    if value.startswith(_GROUP_PREFIX):
        if len(value) == len(_GROUP_PREFIX):
            raise UsageError("'group:' has no name: write group:NAME")
        return Position(group=value[len(_GROUP_PREFIX) :])
    if value.startswith("{"):
        return Position(offsets=_parse_offsets(value))
    return Position(time_ms=parse_time_ms(value, now_ms))


def _parse_offsets(text: str) -> dict[str, dict[str, dict[str, int]]]:
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, dict[str, dict[str, int]]])
    except msgspec.MsgspecError as error:
        form = '{"topic": {"broker": {"0": 17}}}'
        raise UsageError(f"offsets {text[:80]!r} are not of the form {form}: {error}") from error


def choose_topics(view: ClusterView, patterns: Sequence[str]) -> list[str]:
    """Returns the given names and the topics that globs match, sorted; all user topics without patterns.

    A glob matches only user topics, unless it begins with ``%`` (retry and dead-letter topics). Raises UsageError for
    a glob without a match.
    """
    if not patterns:
        return view.user_topics()
    chosen: set[str] = set()
    for pattern in patterns:
        if not _GLOB & set(pattern):
            chosen.add(pattern)
            continue
        known = view.all_topics() if pattern.startswith("%") else view.user_topics()
        matched = [topic for topic in known if fnmatchcase(topic, pattern)]
        if not matched:
            raise UsageError(f"no topic matches {pattern!r}: there are {', '.join(known[:20]) or 'none'}")
        chosen.update(matched)
    return sorted(chosen)


def make_plan(
    view: ClusterView,
    topics: Sequence[str],
    start: Position,
    end: Position,
    *,
    resume: Mapping[QueueKey, int] | None = None,
    via_filter_servers: bool = False,
) -> Plan:
    """Returns the ranges of all queues of these topics; ``via_filter_servers``: read them from filter servers.

    ``resume`` has the offsets up to which queues were read earlier, which take precedence over ``start``. Offsets
    beyond a queue's end become that end. Offsets before its beginning stay, so that the reader reports the loss. Raises
    NotFoundError for an unknown topic, ResumeError for a resumed queue that became shorter, UnreachableError when a
    filter server is required and none is registered.
    """
    plan = Plan()
    for topic in topics:
        for queue in view.queues(topic):
            part = _plan_queue(view, queue, start, end, resume or {})
            plan.queues.append(_from_filter_servers(part, queue) if via_filter_servers else part)
    return plan


def _plan_queue(
    view: ClusterView, queue: Queue, start: Position, end: Position, resume: Mapping[QueueKey, int]
) -> QueueRange:
    low, high = view.min_offset(queue), view.max_offset(queue)
    last = min(_resolve(view, queue, end, low, high, LATEST), high)
    first = resume.get(queue[:3])
    if first is None:
        first = min(_resolve(view, queue, start, low, high, EARLIEST), high)
    elif first > high:
        raise ResumeError(
            f"{queue.topic} {queue.broker_name}/{queue.queue_id} was exported up to {first} but ends at {high} now: "
            "it was deleted and created again, or this is another cluster; export to a new directory"
        )
    return QueueRange(queue.topic, queue.broker_name, queue.queue_id, first, max(first, last), queue.addresses)


def _from_filter_servers(part: QueueRange, queue: Queue) -> QueueRange:
    """Returns the range with the addresses of filter servers; each queue starts with a different one."""
    servers = queue.filter_servers
    if not servers:
        raise UnreachableError(
            f"no filter server is registered with broker {queue.broker_name} at {queue.addresses[0]}: start one with "
            f"pymq filter-server --broker {queue.addresses[0]}"
        )
    first = queue.queue_id % len(servers)
    return replace(part, addresses=(*servers[first:], *servers[:first]))


def _resolve(view: ClusterView, queue: Queue, position: Position, low: int, high: int, otherwise: int) -> int:
    """Returns the offset of a position in one queue; the symbol ``otherwise`` applies if the position has none."""
    symbol = position.symbol
    if position.time_ms is not None:
        return max(low, view.offset_by_time(queue, position.time_ms))
    if position.group is not None:
        committed = view.committed(queue, position.group)
        if committed is not None:
            return committed
        symbol = otherwise
    elif position.offsets is not None:
        offset = _named_offset(position.offsets, queue)
        if offset is not None and offset >= 0:
            return offset
        symbol = otherwise if offset is None else offset
    return low if symbol == EARLIEST else high


def _named_offset(offsets: Mapping[str, Mapping[str, Mapping[str, Any]]], queue: Queue) -> int | None:
    return offsets.get(queue.topic, {}).get(queue.broker_name, {}).get(str(queue.queue_id))


def split_ranges(ranges: Iterable[QueueRange], *, rows_max: int, count_min: int = 1) -> list[QueueRange]:
    """Splits ranges so that none has more than ``rows_max`` offsets, into ``count_min`` parts or more if possible."""
    ranges = [part for part in ranges if part.count > 0]
    if len(ranges) < count_min and ranges:
        rows_max = min(rows_max, max(1, total_count(ranges) // count_min))
    return [piece for part in ranges for piece in part.split(rows_max)]


def rounds(ranges: Sequence[QueueRange], rows_max: int) -> list[list[QueueRange]]:
    """Groups ranges in order, with about ``rows_max`` offsets and at least one range in each group."""
    groups: list[list[QueueRange]] = []
    size = rows_max
    for part in ranges:
        if size + part.count > rows_max or not groups:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += part.count
    return groups
