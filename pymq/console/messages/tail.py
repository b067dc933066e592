"""The tail of a topic: the last messages as a page, and the new ones as a stream of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.console.messages.filters import FIELDS, Filters
from pymq.console.messages.following import SHOWN_COUNT_MAX, Follower, Row
from pymq.console.messages.message import NO_BODIES
from pymq.console.messages.rows import message_row
from pymq.console.messages.scan import Span, scan
from pymq.console.messages.search import COLUMNS
from pymq.console.pages.links import message_path, messages_path, tail_path
from pymq.console.pages.page import Events, NotShown, Page, Visit
from pymq.console.pages.sections import Table
from pymq.errors import PymqError
from pymq.operations.message.search import Range, ranges_of

ROUND_S: Final = 1.0
ENDS_KEPT_MS: Final = 500
ROWS_KEPT: Final = 500  # in the page; the script has the same number
FAILURES_MAX: Final = 30  # rounds in a row without an answer, before the stream ends


async def tail(visit: Visit) -> Page:
    """Return the last messages of the topic that the address names. With a script, the page follows it."""
    topic = visit.path["topic"]
    filters = _filters(visit)
    found = await scan(
        visit.cluster, visit.clock, Span(topic), filters, lambda one: message_row(one, shows_bodies=True)
    )
    return Page(
        f"Tail of {topic}",
        "tail.html",
        {"topic": topic, **found.record()},
        ("tail", topic, "-50", *filters.options()),
        {
            "sections": [Table("Messages", COLUMNS, found.rows, "No message yet: pymq send stores one.")],
            "scan": found,
            "names": FIELDS,
            "fields": filters.texts,
            "events": f"{tail_path(topic)}/events",
            "messages": messages_path(topic),
            "rows_kept": ROWS_KEPT,
            "shown_max": SHOWN_COUNT_MAX,
        },
        found.missing | visit.cluster.unreached,
    )


async def tail_events(visit: Visit) -> Events:
    """Return the stream of new messages of the topic that the address names. Raises BadRequest, PymqError."""
    topic = visit.path["topic"]
    selection, _ = _filters(visit).selection()

    async def ask(admin: Admin) -> dict[MessageQueue, Range]:
        return await ranges_of(admin, topic, None, None)

    async def ends() -> Mapping[MessageQueue, Range]:
        return await visit.cluster.ask(("ends", topic), ask, kept_ms=ENDS_KEPT_MS)

    follower = Follower(
        visit.cluster.reader.pull, ends, selection, lambda one: message_row(one, shows_bodies=visit.shows_bodies)
    )
    await follower.begin()
    return Events(_events(visit, follower))


async def _events(visit: Visit, follower: Follower) -> AsyncIterator[bytes]:
    with visit.cluster.used():
        failures = 0
        while failures < FAILURES_MAX:
            await asyncio.sleep(ROUND_S)
            try:
                found = await follower.round()
                failures = 0
            except PymqError as error:
                failures += 1
                yield event("problem", str(error))
                continue
            rows = [row | {"path": message_path(row["topic"], row["id"])} for row in found.rows]
            yield event("round", _plain(rows, found.arrived, found.unread, found.unshown, found.failed))
    yield event("end", "the cluster does not answer: load the page again")


def event(name: str, data: Any) -> bytes:
    """Return one event with JSON as its data."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=True)}".encode("ascii")


def _plain(rows: list[Row], arrived: int, unread: int, unshown: int, failed: dict[str, str]) -> dict[str, Any]:
    return {"rows": rows, "arrived": arrived, "unread": unread, "unshown": unshown, "failed": failed}


def _filters(visit: Visit) -> Filters:
    if not visit.shows_bodies:
        raise NotShown("tail", NO_BODIES)
    return Filters.of(visit.parameters, shows_bodies=True)
