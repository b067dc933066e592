"""Plans the ranges to read: turns topics and positions into offsets of queues. Doesn't use Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pymq.errors import UnreachableError
from pymq.spark.planning.cluster import Bounds, ClusterView, Queue
from pymq.spark.planning.identity import Known, Recognizer
from pymq.spark.planning.positions import EARLIEST, LATEST, Position, no_offsets, resolve
from pymq.spark.planning.ranges import Identity, QueueKey, QueueRange, ResumeError, total_count
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.settings import rows_of_a_task

# A task costs about as much as so many rows: smaller ranges share one.
SMALL_TASK_ROWS = 20_000


@dataclass(slots=True)
class Plan:
    """The ranges to read. ``ranges`` leaves out empty ones; ``queues`` has every queue with its range.

    ``origins`` has the queues as brokers serve them, also where filter servers serve the ranges. ``made_again`` says of
    queues that begin again how it shows that they are not those of an earlier run.
    """

    queues: list[QueueRange] = field(default_factory=list)
    origins: list[Queue] = field(default_factory=list)
    made_again: dict[Queue, str] = field(default_factory=dict)

    @property
    def ranges(self) -> list[QueueRange]:
        return [part for part in self.queues if part.count > 0]

    @property
    def rows(self) -> int:
        return total_count(self.queues)

    def limited(self, rows_max: int) -> Plan:
        """Return the first ``rows_max`` offsets in the order of the queues; 0 is no limit."""
        if not rows_max:
            return self
        left = rows_max
        limited: list[QueueRange] = []
        for part in self.queues:
            count = min(left, part.count)
            limited.append(replace(part, to_offset=part.from_offset + count))
            left -= count
        return Plan(limited, self.origins, self.made_again)


def make_plan(
    view: ClusterView,
    topics: TopicChoice,
    start: Position,
    end: Position,
    *,
    only: Callable[[str], bool] = lambda topic: True,
    resume: Mapping[QueueKey, Known] | None = None,
    recognizer: Recognizer | None = None,
    begins_again: bool = False,
    via_filter_servers: bool = False,
) -> Plan:
    """Return the ranges of all queues of these topics; ``via_filter_servers``: read them from filter servers.

    ``only`` leaves out topics. ``resume`` says up to where queues were read earlier, which takes precedence over
    ``start``; ``recognizer`` is kept by a caller that plans again and again. Where a topic was made again since,
    ``begins_again`` has its queues begin as the next generation. Offsets beyond a queue's end become that end. Offsets
    before its beginning stay, so that the reader reports the loss.

    Raises NotFoundError for an unknown topic or a group without offsets, UsageError for a position that names what is
    not read, ResumeError for a resumed queue of a topic that was made again, UnreachableError when only a slave says
    that, or a filter server is required and none is registered.
    """
    queues = topics.all_queues(view)
    for position in (start, end):
        position.check(queues)
    queues = [queue for queue in queues if only(queue.topic)]
    bounds = view.bounds(queues)
    known = {queue: resume[queue[:3]] for queue in queues if queue[:3] in resume} if resume else {}
    others = (recognizer or Recognizer()).others(view, bounds, known)
    if not begins_again:
        _refuse_others(others)
    planner = _Planner(view, start, end, known, others)
    plan = Plan([planner.plan(queue, bounds[queue]) for queue in queues], queues, others)
    planner.refuse_groups_without_offsets(queues)
    if via_filter_servers:
        plan.queues = [_from_filter_servers(part, queue) for part, queue in zip(plan.queues, queues, strict=True)]
    return plan


class _Planner:
    """Resolves the positions of one plan, queue by queue, and notices groups that have no offset anywhere."""

    def __init__(
        self,
        view: ClusterView,
        start: Position,
        end: Position,
        resume: Mapping[Queue, Known],
        others: Mapping[Queue, str],
    ) -> None:
        self._view = view
        self._start = start
        self._end = end
        self._resume = resume
        self._others = others
        self._groups = {position.group for position in (start, end) if position.group is not None}

    def plan(self, queue: Queue, bounds: Bounds) -> QueueRange:
        """Return the range of a queue with these bounds."""
        low, high = bounds[:2]
        last = min(self._offset(queue, self._end, low, high, LATEST), high)
        known = self._resume.get(queue)
        if known is None:
            first = min(self._offset(queue, self._start, low, high, EARLIEST), high)
            return queue.range(first, max(first, last), Identity(bounds.deleted_below))
        if queue in self._others:
            part = queue.range(low, max(low, last), Identity(bounds.deleted_below))
            return replace(part, generation=known.generation + 1)
        first = known.offset
        identity = replace(known.identity, deleted_below=bounds.deleted_below)
        return replace(queue.range(first, max(first, last), identity), generation=known.generation)

    def refuse_groups_without_offsets(self, queues: Sequence[Queue]) -> None:
        # A later run begins at a group's offset only in queues that are new.
        if queues and not self._resume:
            for group in self._groups:
                raise no_offsets(group, (queue.topic for queue in queues))

    def _offset(self, queue: Queue, position: Position, low: int, high: int, otherwise: int) -> int:
        offset = resolve(self._view, queue, position, low, high, otherwise)
        if offset is None:
            return low if otherwise == EARLIEST else high
        self._groups.discard(position.group or "")
        return offset


def _refuse_others(others: Mapping[Queue, str]) -> None:
    for queue in sorted(others):
        raise ResumeError(
            f"{queue.topic} {queue.broker_name}/{queue.queue_id}: {others[queue]}, so the topic was deleted and "
            "created again, or this is another cluster; export to a new directory, or into this one with "
            "--on-data-loss report (the new topic under a name of its own) or without the topic "
            f"(--topic '!{queue.topic}')"
        )


def _from_filter_servers(part: QueueRange, queue: Queue) -> QueueRange:
    """Return the range with the addresses of filter servers; each queue starts with a different one."""
    servers = queue.filter_servers
    if not servers:
        raise UnreachableError(
            f"no filter server is registered with broker {queue.broker_name} at {queue.addresses[0]}: start one with "
            f"pymq filter-server --broker {queue.addresses[0]}"
        )
    first = queue.queue_id % len(servers)
    return replace(part, addresses=(*servers[first:], *servers[:first]))


@dataclass(slots=True, frozen=True)
class PartitionSizes:
    """How a query's ranges are split: at most ``rows_max`` offsets in each part, at least ``count_min`` parts.

    Without ``rows_max`` the parts are so small that this machine's cores share a large queue.
    """

    rows_max: int | None = None
    count_min: int = 1

    def split(self, ranges: Sequence[QueueRange]) -> list[QueueRange]:
        """Return the parts in order."""
        rows_max = self.rows_max or rows_of_a_task(total_count(ranges), os.cpu_count() or 1)
        return split_ranges(ranges, rows_max=rows_max, count_min=self.count_min)

    def tasks(self, ranges: Sequence[QueueRange]) -> list[list[QueueRange]]:
        """Return the parts of each task: small parts share a task, unless that makes too few tasks."""
        parts = self.split(ranges)
        groups = rounds(parts, min(SMALL_TASK_ROWS, self.rows_max or SMALL_TASK_ROWS))
        return groups if len(groups) >= self.count_min else [[part] for part in parts]


def split_ranges(ranges: Iterable[QueueRange], *, rows_max: int, count_min: int = 1) -> list[QueueRange]:
    """Split ranges so that none has more than ``rows_max`` offsets, into ``count_min`` parts or more if possible."""
    ranges = [part for part in ranges if part.count > 0]
    if len(ranges) < count_min and ranges:
        rows_max = min(rows_max, max(1, total_count(ranges) // count_min))
    return [piece for part in ranges for piece in part.split(rows_max)]


def rounds(ranges: Sequence[QueueRange], rows_max: int) -> list[list[QueueRange]]:
    """Group ranges in order, with about ``rows_max`` offsets and at least one range in each group."""
    groups: list[list[QueueRange]] = []
    size = rows_max
    for part in ranges:
        if size + part.count > rows_max or not groups:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += part.count
    return groups
