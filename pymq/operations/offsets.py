"""Plans moves of a group, applies them, and reads them back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.client.admin.offsets import Place
from pymq.errors import NotFoundError, UnreachableError, UsageError
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX, check_group, check_topic
from pymq.operations.queues import QueueChoice
from pymq.operations.start import Start, StartKind
from pymq.operations.sums import online_members

_BROADCASTING = "BROADCASTING"


@dataclass
class Selection:
    """Which queues of a group to show or move: of these topics, or else of all that it reads."""

    group: str
    topics: list[str]
    brokers: list[str] = field(default_factory=list)
    queues: list[QueueChoice] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_group(self.group)
        for topic in self.topics:
            check_topic(topic)

    def wants(self, queue: MessageQueue) -> bool:
        return (not self.brokers or queue.broker_name in self.brokers) and (
            not self.queues or any(choice.takes(queue.broker_name, queue.queue_id) for choice in self.queues)
        )


@dataclass
class Plan:
    """The moves of one group: ``targets`` by queue, in the order of ``places``."""

    group: str
    places: dict[MessageQueue, Place]
    targets: dict[MessageQueue, int]
    members: int
    creates_on: list[str]
    notes: list[str]

    def record(self) -> dict[str, Any]:
        """Return the plan for output."""
        return {
            "group": self.group,
            "members_online": self.members,
            "creates_group_on": self.creates_on,
            "notes": self.notes,
            "applied": False,
            "queues": [self._queue_record(queue, target) for queue, target in self.targets.items()],
        }

    def _queue_record(self, queue: MessageQueue, target: int) -> dict[str, Any]:
        place = self.places[queue]
        before = place.committed
        return {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "first_offset": place.first,
            "end_offset": place.end,
            "before": before,
            "after": target,
            "moves_by": None if before is None else target - before,
        }


async def show(admin: Admin, selection: Selection) -> list[dict[str, Any]]:
    """Return a record per queue with the group's place. Raises NotFoundError for a group without any."""
    places = await _places(admin, selection)
    return [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "first_offset": place.first,
            "committed": place.committed,
            "end_offset": place.end,
        }
        for queue, place in places.items()
    ]


async def plan_reset(admin: Admin, selection: Selection, start: Start) -> Plan:
    """Plan a move to the start, the end, an offset or a time. Raises UsageError for another kind of start."""
    places = await _places(admin, selection)
    notes: list[str] = []
    if start.kind is StartKind.TIME:
        wanted = await _at_time(admin, list(places), start.value)
    elif start.kind is StartKind.FIRST:
        wanted = {queue: place.first for queue, place in places.items()}
    elif start.kind is StartKind.END:
        wanted = {queue: place.end for queue, place in places.items()}
    elif start.kind is StartKind.OFFSET:
        wanted = dict.fromkeys(places, start.value)
    else:
        raise UsageError("--to takes start, end, an offset, -15m or 2026-01-31T12:00")
    return await _plan(admin, selection.group, places, wanted, notes)


async def plan_copy(admin: Admin, source: str, selection: Selection) -> Plan:
    """Plan a move to the places of the group ``source``. Raises NotFoundError when that has none."""
    if source == selection.group:
        raise UsageError(f"both groups are {source!r}: name another one to copy from")
    topics = selection.topics or await _topics_of(admin, source)
    of_source = await _places(admin, Selection(source, topics, selection.brokers, selection.queues))
    wanted = {queue: place.committed for queue, place in of_source.items() if place.committed is not None}
    if not wanted:
        raise NotFoundError(f"group {source!r} has committed nothing in {', '.join(topics)}: nothing to copy")
    places = await _places(admin, Selection(selection.group, topics, selection.brokers, selection.queues))
    missing = len(of_source) - len(wanted)
    notes = [f"{missing} queues stay as they are: {source} has committed nothing in them"] if missing else []
    return await _plan(admin, selection.group, places, wanted, notes)


async def plan_skip(admin: Admin, selection: Selection, count: int | None) -> Plan:
    """Plan a move forwards by ``count`` messages in each queue, or to the end."""
    places = await _places(admin, selection)
    if count is None:
        wanted = {queue: place.end for queue, place in places.items()}
    else:
        wanted = {
            queue: (place.first if place.committed is None else max(place.committed, place.first)) + count
            for queue, place in places.items()
        }
    return await _plan(admin, selection.group, places, wanted, [])


async def plan_offsets(admin: Admin, group: str, wanted: dict[MessageQueue, int]) -> Plan:
    """Plan a move of single queues to an offset each. Raises NotFoundError when none of the queues is left."""
    places = await _places(admin, Selection(group, _topics(wanted)))
    return await _plan(admin, group, places, {queue: at for queue, at in wanted.items() if queue in places}, [])


async def apply(admin: Admin, plan: Plan) -> dict[str, Any]:
    """Carry a plan out, read the places back, and return the record with ``now`` and ``problem`` by queue."""
    problems: dict[MessageQueue, str] = {}
    now: dict[MessageQueue, Place] = {}
    for topic in _topics(plan.targets):
        moves = {queue: offset for queue, offset in plan.targets.items() if queue.topic == topic}
        problems |= await admin.offsets.move(plan.group, moves)
        now |= await admin.offsets.places(plan.group, topic)
    record = plan.record()
    record["applied"] = True
    for queue, entry in zip(plan.targets, record["queues"], strict=True):
        entry["now"] = at = now[queue].committed if queue in now else None
        entry["problem"] = problems.get(queue)
        if entry["problem"] is None and at != entry["after"] and not plan.members:
            entry["problem"] = f"the broker says {at} after the move"
    return record


async def _plan(
    admin: Admin, group: str, places: dict[MessageQueue, Place], wanted: dict[MessageQueue, int], notes: list[str]
) -> Plan:
    """Return the plan with offsets within the queues, and what an operator should know about it."""
    found = [one for _, one in await admin.groups.online(group)]
    if any(one.message_model == _BROADCASTING for one in found):
        raise UsageError(
            f"group {group!r} is broadcasting: its members keep their offsets themselves, and a broker can't move them"
        )
    targets: dict[MessageQueue, int] = {}
    outside = 0
    for queue, offset in wanted.items():
        place = places[queue]
        targets[queue] = min(max(offset, place.first), place.end)
        outside += targets[queue] != offset
    if outside:
        notes.append(f"{outside} queues have no such offset: they get the nearest one")
    creates_on: list[str] = []
    for topic in _topics(targets):
        creates_on += await admin.offsets.missing_on(group, topic)
    members = len(online_members(found))
    return Plan(group, places, dict(sorted(targets.items())), members, sorted(set(creates_on)), notes)


async def _places(admin: Admin, selection: Selection) -> dict[MessageQueue, Place]:
    topics = selection.topics or await _topics_of(admin, selection.group)
    found: dict[MessageQueue, Place] = {}
    for places in await asyncio.gather(*(admin.offsets.places(selection.group, topic) for topic in topics)):
        found |= {queue: place for queue, place in places.items() if selection.wants(queue)}
    missing = [
        reason for broker, reason in admin.unreached.items() if not selection.brokers or broker in selection.brokers
    ]
    if not found and missing:
        raise UnreachableError("; ".join(missing))
    if not found:
        raise NotFoundError(f"no queue of {', '.join(topics)} is left: check --broker and --queue")
    return dict(sorted(found.items()))


async def _topics_of(admin: Admin, group: str) -> list[str]:
    topics = [topic for topic in await admin.groups.topics(group) if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    if not topics and admin.unreached:
        raise UnreachableError("; ".join(admin.unreached.values()))
    if not topics:
        raise NotFoundError(f"group {group!r} has read no topic yet: name one with --topic")
    return topics


async def _at_time(admin: Admin, queues: list[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
    found: dict[MessageQueue, int] = {}
    for topic in _topics(queues):
        found |= await admin.offsets.at_time([queue for queue in queues if queue.topic == topic], timestamp_ms)
    return found


def _topics(queues: Any) -> list[str]:
    return sorted({queue.topic for queue in queues})
