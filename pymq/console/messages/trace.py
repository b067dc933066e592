"""The trace of one message: when it was produced, stored, delivered and consumed, as a table and as a time line."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.messages.message import find
from pymq.console.messages.rows import shortened
from pymq.console.messages.timeline import timeline_of
from pymq.console.pages.links import message_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table
from pymq.operations.message import trace as work
from pymq.operations.message.lookup import parse_place
from pymq.operations.times import iso_time

PROBLEMS_MAX: Final = 20
_EVENTS: Final = (
    Column("time", "Time", why_unknown="its writer left it out"),
    Column("event", "Event"),
    Column("group", "Group"),
    Column("client", "Client"),
    Column("cost_ms", "Took (ms)", Kind.number, "such an event has no duration"),
    Column("retry", "Retry", Kind.number, "this is no delivery"),
    Column("ok", "OK", Kind.flag),
    Column("detail", "Detail"),
)


async def trace(visit: Visit) -> Page:
    """Return the events of the message that the address names. Raises NotFoundError without a message and a trace."""
    topic, text = visit.path["topic"], visit.path["id"]
    if parse_place(topic, text) is not None:
        text = (await find(visit)).message_id

    async def ask(admin: Admin) -> dict[str, Any]:
        return await work.trace(admin, text, topic, None)

    record = await visit.cluster.ask(("trace", topic, text), ask)
    events = [event | {"time": _time(event["time_ms"])} for event in record["events"]]
    why = [reason for reason in (record["why_no_trace"], record["why_not_stored"]) if reason]
    problems = record["problems"]
    missing = {f"trace message {number}": why for number, why in enumerate(problems[:PROBLEMS_MAX], 1)}
    if len(problems) > PROBLEMS_MAX:
        missing["more trace messages"] = f"{len(problems) - PROBLEMS_MAX} more could not be decoded"
    return Page(
        f"Trace of {shortened(text)}",
        "trace.html",
        record,
        ("message", "trace", text, "--topic", topic),
        {
            "sections": [Table("Events", _EVENTS, events, "Nothing is known about this message.")],
            "why": why,
            "timeline": timeline_of(record["events"]),
            "groups": record["groups"],
            "path": message_path(topic, visit.path["id"]),
        },
        missing | visit.cluster.unreached,
    )


def _time(time_ms: int) -> str | None:
    return iso_time(time_ms) if time_ms > 0 else None
