"""Fewer queues of a topic without loss: three steps, of which each is a plan of its own.

First no more messages go to the upper queues. Then every group reads them: the page shows what is left. Then consumers
stop reading them, which is refused while something is left, and until no producer can have an older route.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.draining import Draining
from pymq.console.changes.fields import Field, Input, form_page
from pymq.console.changes.plan import Prepare
from pymq.console.changes.replanned import Records, replanned
from pymq.console.pages.links import group_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table, Values
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import UnsafeError
from pymq.operations.topic.resizing import SETTLE_S, Settling, Shrinking, plan_record

QUEUES_MAX: Final = 65_535
STOP_WRITING, STOP_READING, GIVE_UP = "stop writing", "stop reading", "give up"
STEPS: Final = (STOP_WRITING, STOP_READING, GIVE_UP)
_BROKERS: Final = (
    Column("broker", "Broker"),
    Column("read_queues", "Read queues", Kind.number),
    Column("write_queues", "Write queues", Kind.number),
    Column("next", "Next step"),
)
_CHANGED: Final = (
    *_BROKERS[:3],
    Column("new_read_queues", "New read queues", Kind.number),
    Column("new_write_queues", "New write queues", Kind.number),
)
_GROUPS: Final = (
    Column("group", "Group", Kind.link, path=lambda record: f"{group_path(record['group'])}/reset"),
    Column("mode", "Members"),
    Column("unread", "Not read", Kind.number, "its members alone know it"),
    Column("waits", "Waited for", Kind.flag),
)
_STATE: Final = (
    Column("messages", "Messages in the upper queues", Kind.number),
    Column("quiet_ms", "Quiet", Kind.span, "they are written"),
)


class Move(NamedTuple):
    """One broker, and the numbers of queues that it gets there; None for one that stays."""

    target: BrokerTarget
    read_queues: int | None
    write_queues: int | None


async def form(visit: Visit) -> Page:
    """Return how far a topic is on its way to ``to`` queues, and the form of the next step. Raises NotFoundError."""
    topic = visit.path["topic"]
    to = visit.parameters.number("to", 0, minimum=0, maximum=QUEUES_MAX)
    fields = [Field("to", "Queues on each broker", Input.number, str(to) if to else "", is_required=True)]
    if not to:
        note = "How many queues is each broker to have? The next page shows what is in the queues above them."
        return form_page(f"Shrink {topic}", fields, ("topic", "shrink", topic, "--to", "N"), note, is_question=True)
    settling = _settling(visit)

    async def ask(admin: Admin) -> Draining:
        return await _shrinking(admin, topic, to).check()

    state = await visit.cluster.ask(("shrink", topic, to), ask)
    record = plan_record(state, ())
    record["quiet_ms"] = None if state.written else int(1000 * settling.quiet_s(_key(visit, to), state))
    fields.append(Field("step", "Step", Input.choice, _next(state), choices=STEPS))
    sections: list[Table | Values] = [
        Table("Brokers", _BROKERS, record["brokers"], "No broker has it."),
        Values(f"Queues {to} and above", _STATE, record),
        Table("Groups", _GROUPS, record["groups"], "No group reads the topic."),
    ]
    return form_page(
        f"Shrink {topic} to {to}",
        fields,
        ("topic", "shrink", topic, "--to", str(to)),
        f"Load this page again until nothing is left and {SETTLE_S:g} s are quiet. A group that is off-line reads "
        "nothing: start a member, or move its place to the end.",
        sections=sections,
        data=record,
    )


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans one step. Raises BadRequest."""
    topic, settling = visit.path["topic"], _settling(visit)
    to = given.number("to", minimum=1, maximum=QUEUES_MAX)
    step = given.choice("step", STOP_WRITING, STEPS)
    key = _key(visit, to)

    async def run(admin: Admin, is_dry: bool) -> Records:
        shrinking = _shrinking(admin, topic, to)
        state = await shrinking.check()
        quiet_s = settling.quiet_s(key, state)
        if step == STOP_READING:
            _check_is_read(state, quiet_s)
        moves = _moves(state, step)
        if not is_dry:
            for target, read_queues, write_queues in moves:
                await admin.topics.update(topic, [target], read_queues=read_queues, write_queues=write_queues)
            if step == STOP_WRITING:
                settling.quiet_s(key, await shrinking.look())
        rows = {each["broker"]: each for each in plan_record(state, ())["brokers"]}
        return [
            rows[target.name]
            | {
                "new_read_queues": read_queues or rows[target.name]["read_queues"],
                "new_write_queues": write_queues or rows[target.name]["write_queues"],
            }
            for target, read_queues, write_queues in moves
        ]

    command = ("topic", "shrink", topic, "--to", str(to), "--yes")
    return replanned(
        f"Shrink {topic} to {to}: {step}", f"topic {topic}", command, _CHANGED, run, action=f"topic shrink: {step}"
    )


def _moves(state: Draining, step: str) -> list[Move]:
    """Return what a step changes. Raises UnsafeError when that is nothing."""
    found = []
    for target, config in state.brokers:
        if step == STOP_WRITING and config.write_queue_nums > state.to:
            found.append(Move(target, None, state.to))
        elif step == STOP_READING and config.read_queue_nums > state.to:
            found.append(Move(target, state.to, None))
        elif step == GIVE_UP and config.write_queue_nums < config.read_queue_nums:
            found.append(Move(target, None, config.read_queue_nums))
    if not found:
        raise UnsafeError(f"no broker has queues of {state.topic} for the step {step!r}: the page shows the next one")
    return found


def _check_is_read(state: Draining, quiet_s: float) -> None:
    """Raise UnsafeError while upper queues are written, have something for a group, or may still get something."""
    if state.written:
        raise UnsafeError(f"the upper queues of {state.topic} are still written: {STOP_WRITING} first")
    if awaited := state.awaited():
        left = ", ".join(f"{each.group} {each.unread:,}" for each in awaited)
        raise UnsafeError(f"groups have not read the upper queues of {state.topic}: {left}")
    if quiet_s < SETTLE_S:
        raise UnsafeError(
            f"the upper queues of {state.topic} are quiet for {quiet_s:.0f} s, as far as this console has looked: "
            f"producers may write to them for {SETTLE_S:g} s; try again in {SETTLE_S - quiet_s:.0f} s"
        )


def _next(state: Draining) -> str:
    return STOP_WRITING if state.written else STOP_READING


def _shrinking(admin: Admin, topic: str, to: int) -> Shrinking:
    return Shrinking(admin, topic, to, [], without=[], settle_s=SETTLE_S)


def _key(visit: Visit, to: int) -> tuple[str, str, int]:
    return visit.path["context"], visit.path["topic"], to


def _settling(visit: Visit) -> Settling:
    if visit.settling is None:
        raise BadRequest("address", "this console makes no changes")
    return visit.settling
