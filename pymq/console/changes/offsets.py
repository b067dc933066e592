"""Moves of a group's place: reset, skip, and a copy of another group's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.console.changes.fields import Field, Input, form_page
from pymq.console.changes.plan import Outcome, Plan, Prepare
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import ConflictError, UsageError
from pymq.operations import offsets
from pymq.operations.offsets import Selection
from pymq.operations.start import parse_start

NAME_LENGTH_MAX: Final = 255
START_LENGTH_MAX: Final = 64
TO, COPY, SKIP = "to", "copy", "skip"
ALL = "all"
_BEFORE: Final = (
    Column("topic", "Topic"),
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.number),
    Column("first_offset", "First", Kind.number),
    Column("end_offset", "End", Kind.number),
    Column("before", "Now", Kind.number, "nothing is committed yet"),
    Column("after", "New", Kind.number),
    Column("effect", "Effect"),
)
_AFTER: Final = (
    *_BEFORE[:3],
    Column("before", "Before", Kind.number, "nothing was committed"),
    Column("now", "Now", Kind.number, "the broker does not say it"),
    Column("problem", "Problem", why_unknown="none"),
)


async def form(visit: Visit) -> Page:
    """Return the page that asks where a group is to go."""
    group = visit.path["group"]
    topic = visit.parameters.text("topic", "", length_max=NAME_LENGTH_MAX)
    fields = [
        Field("topic", "Topic", value=topic, hint="all that the group reads"),
        Field("kind", "Move", Input.choice, TO, choices=(TO, SKIP, COPY)),
        Field("value", "Where", hint="start, end, 1200, -15m, 2026-01-31T12:00", is_required=True),
    ]
    note = "to: start, end, an offset or a time; skip: so many messages, or all; copy: the place of another group."
    return form_page(f"Move {group}", fields, ("offset", "show", group), note)


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the move that a form asks for. Raises BadRequest."""
    group = visit.path["group"]
    topic = given.text("topic", "", length_max=NAME_LENGTH_MAX)
    kind = given.choice("kind", TO, (TO, COPY, SKIP))
    value = given.text("value", length_max=NAME_LENGTH_MAX)
    try:
        selection = Selection(group, [topic] if topic else [])
    except UsageError as error:
        raise BadRequest("topic", str(error)) from None
    options = ("--topic", topic) if topic else ()

    async def plan(admin: Admin) -> Plan:
        if kind == COPY:
            found = await offsets.plan_copy(admin, value, selection)
            return plan_of(found, ("offset", "copy", value, group, *options))
        if kind == SKIP:
            found = await offsets.plan_skip(admin, selection, _count(value))
            count = [] if value == ALL else ["--count", value]
            return plan_of(found, ("offset", "skip", group, *options, *count))
        found = await offsets.plan_reset(admin, selection, parse_start(value, visit.clock.now_ms()))
        return plan_of(found, ("offset", "reset", group, "--to", value, *options))

    return plan


def _count(value: str) -> int | None:
    if value == ALL:
        return None
    if not value.isdecimal() or len(value) > 18:
        raise UsageError(f"{value[:60]!r} is no number of messages: write one, or all")
    return int(value)


def plan_of(found: offsets.Plan, command: tuple[str, ...], *, is_undo: bool = False) -> Plan:
    """Return the plan of moves that were found."""
    record = found.record()
    rows = [{**row, "effect": _effect(row)} for row in record["queues"]]
    notes = list(found.notes)
    if found.members:
        who = "1 member is" if found.members == 1 else f"{found.members} members are"
        notes.append(f"{who} on-line: the new place counts when it is asked for the next time")
    if found.creates_on:
        notes.append(f"the group is made on {', '.join(found.creates_on)}, where it is not known")

    async def apply(admin: Admin) -> Outcome:
        await _refuse_conflicts(admin, found)
        return _outcome(await offsets.apply(admin, found), found, is_undo=is_undo)

    return Plan(
        f"{'Take back the move of' if is_undo else 'Move'} {found.group}",
        "offset move",
        f"group {found.group}",
        [Table("Queues", _BEFORE, rows, "No queue would move.")],
        record,
        command,
        apply,
        tuple(notes),
        confirm=found.group if any((row["moves_by"] or 0) > 0 for row in rows) else "",
    )


def _effect(row: Mapping[str, Any]) -> str:
    moves_by = row["moves_by"]
    if moves_by is None:
        return f"begins there: {row['after'] - row['first_offset']:,} skipped"
    if moves_by == 0:
        return "stays"
    return f"{moves_by:,} skipped" if moves_by > 0 else f"{-moves_by:,} read again"


async def _refuse_conflicts(admin: Admin, found: offsets.Plan) -> None:
    """Raise ConflictError when someone has moved the group since, or queues were made again. Members may go on."""
    for topic in sorted({queue.topic for queue in found.targets}):
        for queue, now in (await admin.offsets.places(found.group, topic)).items():
            planned = found.places.get(queue)
            if planned is None or queue not in found.targets:
                continue
            if now.end < planned.end or _is_back(planned.committed, now.committed):
                place = f"{queue.topic} {queue.broker_name} {queue.queue_id}"
                raise ConflictError(
                    f"{place} was at {planned.committed} of {planned.end} when the plan was made, and is at "
                    f"{now.committed} of {now.end}: nothing is changed; make the plan again"
                )


def _is_back(planned: int | None, now: int | None) -> bool:
    return planned is not None and (now is None or now < planned)


def _outcome(record: dict[str, Any], found: offsets.Plan, *, is_undo: bool) -> Outcome:
    failed = {
        f"{row['topic']} {row['broker']} {row['queue']}": row["problem"] for row in record["queues"] if row["problem"]
    }
    before = {queue: place.committed for queue, place in found.places.items() if queue in found.targets}
    known = {queue: offset for queue, offset in before.items() if offset is not None}
    undo = None if is_undo or not known else _back_to(found.group, known)
    return Outcome([Table("Queues", _AFTER, record["queues"], "No queue moved.")], record, failed, undo)


def _back_to(group: str, offsets_before: dict[MessageQueue, int]) -> Prepare:
    """Return what plans the move back. Queues without an offset before stay: a broker forgets no offset."""

    async def plan(admin: Admin) -> Plan:
        found = await offsets.plan_offsets(admin, group, offsets_before)
        return plan_of(found, ("offset", "show", group), is_undo=True)

    return plan
