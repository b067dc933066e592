"""Dead letters: the groups that have some, and the letters of one group."""

from __future__ import annotations

from typing import Any, Final

from pymq.client import StoredMessage
from pymq.console.messages.export import LIMITS_TEXT, file_of
from pymq.console.messages.filters import Filters, time_of
from pymq.console.messages.message import NO_BODIES
from pymq.console.messages.positions import POSITION_LENGTH_MAX, decode_position
from pymq.console.messages.rows import message_row
from pymq.console.messages.scan import Scan, Span, scan
from pymq.console.messages.search import SCANNED_NUMBER_MAX, STOPPED, TIME_MS_MAX
from pymq.console.pages.links import dead_letters_path, group_path, message_path
from pymq.console.pages.lists import cut
from pymq.console.pages.page import Download, Page, Visit
from pymq.console.pages.sections import NO_MATCH, Column, Kind, Table
from pymq.console.web.parameters import Parameters
from pymq.errors import NotFoundError
from pymq.model.names import RETRY_TOPIC_LENGTH_MAX, dlq_topic
from pymq.operations.dead_letters import TIME_MAX_MS, Wanted, list_groups, origin_id, origin_topic

ID_LENGTH_MAX: Final = 255
_GROUPS: Final = (
    Column("group", "Group", Kind.link, path=lambda record: dead_letters_path(record["group"])),
    Column("messages", "Dead letters", Kind.number),
    Column("last_stored_ms", "Newest", Kind.time, "there is none now"),
    Column("brokers", "Brokers", Kind.names),
)
_LETTERS: Final = (
    Column("store_time", "Died", Kind.link, path=lambda row: message_path(row["topic"], row["id"])),
    Column("origin_topic", "From topic", why_unknown="no property says it"),
    Column("origin_id", "Id there", why_unknown="no property says it"),
    Column("reconsume_times", "Retries", Kind.number),
    Column("keys", "Keys", why_unknown=NO_BODIES),
    Column("body_begin", "Body", why_unknown=NO_BODIES),
)
_CHOICE: Final = Column("id", "Again", Kind.choice)


async def dead_letter_groups(visit: Visit) -> Page:
    """Return the groups that have a topic of dead letters, the fullest first."""
    records = await visit.cluster.ask("dead letters", list_groups)
    rows = cut(records, visit.parameters, "group", {})
    empty = NO_MATCH if rows.search else "No group has dead letters: no message failed as often as its group allows."
    table = Table("Groups", _GROUPS, rows.rows, empty, rows)
    data = {"groups": rows.rows, **rows.as_record()}
    return Page("Dead letters", "sections.html", data, ("dlq", "list"), {"sections": [table]}, visit.cluster.unreached)


def wanted_of(group: str, parameters: Parameters, now_ms: int) -> Wanted:
    """Return which dead letters of a group the parameters mean. Raises BadRequest, UsageError for a wrong group."""
    origin = parameters.text("origin", "", length_max=RETRY_TOPIC_LENGTH_MAX).strip()
    message_id = parameters.text("id", "", length_max=ID_LENGTH_MAX).strip()
    begin_ms, end_ms = time_of(parameters, "from", now_ms), time_of(parameters, "to", now_ms)
    return Wanted(
        group,
        frozenset([message_id] if message_id else []),
        origin or None,
        begin_ms or 0,
        TIME_MAX_MS if end_ms is None else end_ms,
    )


def span_of(wanted: Wanted, parameters: Parameters) -> Span:
    """Return the part of the topic that a search for dead letters looks at. Raises BadRequest."""
    topic = dlq_topic(wanted.group)
    position = parameters.text("at", "", length_max=POSITION_LENGTH_MAX)
    scanned = parameters.number("scanned", 0, minimum=0, maximum=SCANNED_NUMBER_MAX)
    at = decode_position("at", topic, position) if position else None
    end_ms = None if wanted.end_ms == TIME_MAX_MS else wanted.end_ms
    return Span(topic, wanted.begin_ms or None, end_ms, at, scanned)


async def dead_letters(visit: Visit) -> Page:
    """Return the dead letters of the group that the address names, the newest first."""
    group, parameters, now_ms = visit.path["group"], visit.parameters, visit.clock.now_ms()
    begun_ms = parameters.number("begun", now_ms, minimum=0, maximum=TIME_MS_MAX)
    wanted = wanted_of(group, parameters, now_ms)
    span = span_of(wanted, parameters)
    question = (wanted.origin or "", *wanted.ids)

    def to_row(message: StoredMessage) -> dict[str, Any]:
        row = message_row(message, shows_bodies=visit.shows_bodies)
        return row | {"origin_topic": origin_topic(message) or None, "origin_id": origin_id(message) or None}

    try:
        found = await scan(visit.cluster, visit.clock, span, Filters.none(), to_row, wanted.takes, question=question)
    except NotFoundError:
        found = Scan([], 0, 0, 0, None, None, "")
    goes_on = {"at": found.position, "scanned": found.scanned, "begun": begun_ms}
    goes_on |= {name: ms for name, ms in (("from", span.begin_ms), ("to", span.end_ms)) if ms is not None}
    columns = (*_LETTERS, _CHOICE) if visit.allows_changes else _LETTERS
    empty = "None so far: go on." if found.position else "This group has no such dead letters."
    return Page(
        f"Dead letters of {group}",
        "dead_letters.html",
        {"group": group, **found.record()},
        (
            "dlq",
            "show",
            group,
            *(["--origin", wanted.origin] if wanted.origin else []),
            *(word for each in wanted.ids for word in ("--id", each)),
        ),
        {
            "sections": [Table("Letters", columns, found.rows, empty)],
            "scan": found,
            "why_stopped": STOPPED.get(found.stop or "", ""),
            "goes_on": goes_on if found.position else None,
            "to_ms": begun_ms if span.end_ms is None else span.end_ms,
            "group": group,
            "group_page": group_path(group),
            "group_letters": dead_letters_path(group),
            "chooses": visit.allows_changes,
            "exports": visit.shows_bodies,
            "export_limits": LIMITS_TEXT,
            "fields": {name: parameters.text(name, "") for name in ("origin", "id", "from", "to")},
        },
        found.missing | visit.cluster.unreached,
    )


async def dead_letters_file(visit: Visit) -> Download:
    """Return the dead letters of :func:`dead_letters` as a file of JSON lines. Raises NotShown, NotFoundError."""
    wanted = wanted_of(visit.path["group"], visit.parameters, visit.clock.now_ms())
    span, question = span_of(wanted, visit.parameters), (wanted.origin or "", *wanted.ids)
    return await file_of(visit, "dead-letters", span, Filters.none(), wanted.takes, question=question)
