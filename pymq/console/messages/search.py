"""Search for messages: by an id or a key, or through a topic from now on backwards."""

from __future__ import annotations

from typing import Any, Final

from pymq.client import MessageQueue, StoredMessage
from pymq.client.admin import Admin
from pymq.console.messages.export import LIMITS_TEXT, Cut, Lines, download, file_of
from pymq.console.messages.filters import FIELDS, Filters, time_of
from pymq.console.messages.message import NO_BODIES
from pymq.console.messages.positions import POSITION_LENGTH_MAX, decode_position
from pymq.console.messages.rows import message_row
from pymq.console.messages.scan import FOUND_MAX, SCANNED_MAX, TIME_MAX_MS, Scan, Span, scan
from pymq.console.pages.links import message_path
from pymq.console.pages.page import Download, NotShown, Page, Visit
from pymq.console.pages.sections import Column, Kind, Table
from pymq.errors import NotFoundError
from pymq.model.names import RETRY_TOPIC_LENGTH_MAX
from pymq.operations.message.lookup import find_at, find_by_id, parse_place

TEXT_LENGTH_MAX: Final = 1024
KEY_COUNT_MAX: Final = 32
SCANNED_NUMBER_MAX: Final = 10**15
TIME_MS_MAX: Final = 10**14
STOPPED: Final = {
    "found": f"a page shows {FOUND_MAX}",
    "scanned": f"a page looks at {SCANNED_MAX:,} messages",
    "time": f"a page takes {TIME_MAX_MS // 1000} s",
}
COLUMNS: Final = (
    Column("store_time", "Stored", Kind.link, path=lambda row: message_path(row["topic"], row["id"])),
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.number),
    Column("offset", "Offset", Kind.number),
    Column("tags", "Tag", why_unknown=NO_BODIES),
    Column("keys", "Keys", why_unknown=NO_BODIES),
    Column("body_begin", "Body", why_unknown=NO_BODIES),
)


async def messages(visit: Visit) -> Page:
    """Return the messages with an id or key, ``q``, or those of a ``topic`` that match, the newest first."""
    parameters = visit.parameters
    text = parameters.text("q", "", length_max=TEXT_LENGTH_MAX).strip()
    topic = parameters.text("topic", "", length_max=RETRY_TOPIC_LENGTH_MAX).strip()
    filters = Filters.of(parameters, shows_bodies=visit.shows_bodies)
    fields = {"from": parameters.text("from", ""), "to": parameters.text("to", ""), **filters.texts}
    shown: dict[str, Any] = {"q": text, "topic": topic, "fields": fields, "names": FIELDS, "searches": bool(topic)}
    if text:
        return await _looked_up(visit, text, topic, shown)
    if not topic:
        return _page(visit, {"messages": []}, ("message", "get", "ID"), shown)
    return await _scanned(visit, topic, filters, shown)


async def _looked_up(visit: Visit, text: str, topic: str, shown: dict[str, Any]) -> Page:
    found = await _with_id_or_key(visit, text, topic)
    rows = [message_row(one, shows_bodies=visit.shows_bodies) for one in found]
    empty = f"No message has this id or key in {topic}: indexes of keys are kept as long as messages."
    if not topic:
        empty = "No broker made this id. The id of a producer, and a key, are looked for in a topic: name it."
    missing = {"messages": f"the first {KEY_COUNT_MAX} with this key"} if len(rows) >= KEY_COUNT_MAX else {}
    command = ("message", "query", topic, "--key", text) if topic else ("message", "get", text)
    table = Table(f"Found {len(rows):,}", COLUMNS, rows, empty)
    return _page(visit, {"messages": rows}, command, shown | {"sections": [table]}, missing)


async def _with_id_or_key(visit: Visit, text: str, topic: str) -> list[StoredMessage]:
    """Return the messages with a place, an id or a key, the newest first; without a topic only by a broker's id."""
    place = parse_place(topic, text) if topic else None
    if place is not None:
        try:
            return [await find_at(visit.cluster.reader.pull, *place)]
        except NotFoundError:  # a key may look like a place
            pass

    async def ask(admin: Admin) -> list[StoredMessage]:
        if topic:
            with_key = await admin.messages.by_key(topic, text, count_max=KEY_COUNT_MAX)
            if with_key:
                return with_key
        try:
            return await find_by_id(admin, text, topic or None)
        except NotFoundError:
            return []

    found = await visit.cluster.ask_for_bodies(("id or key", topic, text), ask)
    return found[::-1]


async def messages_file(visit: Visit) -> Download:
    """Return what a search finds as a file of JSON lines. Raises NotShown, BadRequest, NotFoundError."""
    parameters = visit.parameters
    text = parameters.text("q", "", length_max=TEXT_LENGTH_MAX).strip()
    topic = parameters.text("topic", length_max=RETRY_TOPIC_LENGTH_MAX).strip()
    if not visit.shows_bodies:
        raise NotShown("export", NO_BODIES)
    filters = Filters.of(parameters, shows_bodies=True)
    if not text:
        return await file_of(visit, "messages", span_of(visit, topic, visit.clock.now_ms()), filters)
    lines = Lines(visit.cluster.reader.pull, visit.clock, 0)
    for found in reversed(await _with_id_or_key(visit, text, topic)):
        lines.add(found)
    return download("messages", lines, Cut.found if len(lines.all) >= KEY_COUNT_MAX else None)


def span_of(visit: Visit, topic: str, now_ms: int) -> Span:
    """Return the part of a topic that the address means."""
    position = visit.parameters.text("at", "", length_max=POSITION_LENGTH_MAX)
    scanned = visit.parameters.number("scanned", 0, minimum=0, maximum=SCANNED_NUMBER_MAX)
    at: dict[MessageQueue, int] | None = decode_position("at", topic, position) if position else None
    begin_ms, end_ms = (time_of(visit.parameters, name, now_ms) for name in ("from", "to"))
    return Span(topic, begin_ms, end_ms, at, scanned)


def begun_of(visit: Visit, now_ms: int) -> int:
    """Return when the search of the address began."""
    return visit.parameters.number("begun", now_ms, minimum=0, maximum=TIME_MS_MAX)


def fixed_times(span: Span, begun_ms: int) -> dict[str, Any]:
    """Return the parameters of a search that goes on: spans such as -1h would move with each page."""
    times = {name: ms for name, ms in (("from", span.begin_ms), ("to", span.end_ms)) if ms is not None}
    return {"begun": begun_ms, **times}


async def _scanned(visit: Visit, topic: str, filters: Filters, shown: dict[str, Any]) -> Page:
    now_ms = visit.clock.now_ms()
    begun_ms = begun_of(visit, now_ms)
    span = span_of(visit, topic, now_ms)
    begin_ms, end_ms = span.begin_ms, span.end_ms
    found = await scan(
        visit.cluster, visit.clock, span, filters, lambda one: message_row(one, shows_bodies=visit.shows_bodies)
    )
    data = {"topic": topic, **found.record(), "from_ms": begin_ms, "to_ms": end_ms}
    table = Table(f"Messages of {topic}", COLUMNS, found.rows, _empty(found, bool(filters.given)))
    goes_on = fixed_times(span, begun_ms) | {"at": found.position, "scanned": found.scanned}
    return _page(
        visit,
        data,
        ("tail", topic, "--from", _text(begin_ms) or "start", *_to(end_ms), "--no-follow", *filters.options()),
        shown
        | {
            "sections": [table],
            "scan": found,
            "why_stopped": STOPPED.get(found.stop or "", ""),
            "goes_on": goes_on if found.position else None,
            "to_ms": begun_ms if end_ms is None else end_ms,
        },
        found.missing,
    )


def _page(
    visit: Visit,
    data: dict[str, Any],
    command: tuple[str, ...],
    shown: dict[str, Any],
    missing: dict[str, str] | None = None,
) -> Page:
    defaults: dict[str, Any] = {"sections": [], "scan": None, "goes_on": None, "why_stopped": "", "to_ms": None}
    more = {"shows_bodies": visit.shows_bodies, "export_limits": LIMITS_TEXT}
    return Page(
        "Messages", "messages.html", data, command, defaults | shown | more, (missing or {}) | visit.cluster.unreached
    )


def _empty(found: Scan, is_filtered: bool) -> str:
    if found.position:
        return "None so far: go on, or search in another time."
    return "No message matches." if is_filtered else "No message is stored in this time: pymq send stores one."


def _text(time_ms: int | None) -> str:
    return "" if time_ms is None else str(time_ms)


def _to(time_ms: int | None) -> list[str]:
    return [] if time_ms is None else ["--to", str(time_ms)]
