"""One message: where it is, its body and its properties, and what each group did with it."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pymq.client import StoredMessage
from pymq.client.admin import Admin
from pymq.console.messages.bodies import (
    CHARSETS,
    HEX,
    SHOWN_BYTES,
    SHOWN_BYTES_MAX,
    TEXT,
    VIEWS,
    BodyView,
    content_of,
    view_of,
)
from pymq.console.messages.rows import shortened, without_content
from pymq.console.pages.links import group_path, message_path, topic_path
from pymq.console.pages.page import Download, NotShown, Page, Visit
from pymq.console.pages.sections import Column, Kind, Table, Values
from pymq.errors import NotFoundError
from pymq.operations.asking.deadline import within
from pymq.operations.dead_letters import origin_id, origin_topic
from pymq.operations.message.bodies import AUTO
from pymq.operations.message.lookup import find_at, find_by_id, parse_place, place_id
from pymq.operations.message.readers import GROUPS_MAX, reader_records
from pymq.operations.message.records import plain_record

GROUPS_TIMEOUT_S: Final = 4.0
JSON_DEPTH_MAX: Final = 100  # so that it can be written again
BODY_FILE: Final = "message-body.bin"
NO_BODIES: Final = "this console was started with --no-bodies"

_PLACE: Final = (
    Column("topic", "Topic", Kind.link, path=lambda record: topic_path(record["topic"])),
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.number),
    Column("offset", "Offset", Kind.number),
    Column("message_id", "Id"),
    Column("offset_message_id", "Broker's id"),
    Column("tags", "Tag", why_unknown=NO_BODIES),
    Column("keys", "Keys", why_unknown=NO_BODIES),
    Column("store_time", "Stored"),
    Column("born_time", "Born"),
    Column("born_host", "Born at"),
    Column("reconsume_times", "Retries", Kind.number),
    Column("stored_bytes", "Stored size", Kind.size),
)
_PROPERTIES: Final = (Column("name", "Name"), Column("value", "Value"))
_GROUPS: Final = (
    Column("group", "Group", Kind.link, path=lambda record: group_path(record["group"])),
    Column("state", "This message"),
    Column("before", "Before it", Kind.number, "nothing is before it, or the group's offset is unknown"),
    Column("committed", "Offset", Kind.number, "nothing is committed in this queue"),
    Column("invisible", "Invisible", Kind.number, "a broker does not count them"),
    Column("why", "Why"),
)


_NO_GROUPS: Final = "No group reads this topic."


async def message(visit: Visit) -> Page:
    """Return the message that the address names, by either of its ids or its place. Raises NotFoundError."""
    view = visit.parameters.choice("as", AUTO, VIEWS)
    charset = visit.parameters.choice("charset", "utf-8", CHARSETS)
    chosen = visit.parameters.number("bytes", 0, minimum=0, maximum=SHOWN_BYTES_MAX)
    found = await find(visit)
    records, missing = await _readers(visit, found)
    record = shown_record(found, chosen or SHOWN_BYTES, missing, shows_bodies=visit.shows_bodies)
    place = record | {"stored_bytes": found.size_bytes}
    properties = [{"name": name, "value": value} for name, value in sorted((record["properties"] or {}).items())]
    body = _body(visit, found, view, charset, chosen) if visit.shows_bodies else None
    return Page(
        f"Message {shortened(found.message_id)}",
        "message.html",
        record | {"groups": records},
        ("message", "get", found.message_id, "--topic", found.topic),
        {
            "sections": [
                Values("Place", _PLACE, place),
                *([Table("Properties", _PROPERTIES, properties, "It has none.")] if visit.shows_bodies else []),
                Table("Groups", _GROUPS, records, _NO_GROUPS if "groups" not in missing else "Groups are unknown now."),
            ],
            "origin": _origin(found),
            "body": body,
            "no_bodies": NO_BODIES,
            "views": VIEWS,
            "view": view,
            "charsets": CHARSETS,
            "charset": charset,
            "more_bytes": _more(body, chosen),
            "path": message_path(found.topic, place_id(found.broker_name, found.queue_id, found.queue_offset)),
        },
        missing | visit.cluster.unreached,
    )


def _body(visit: Visit, found: StoredMessage, view: str, charset: str, chosen: int) -> BodyView:
    schemas = visit.schemas
    decode = partial(schemas.decode, found.topic) if schemas is not None and found.topic in schemas else None
    return view_of(found, view, charset, chosen or None, decode)


async def message_body(visit: Visit) -> Download:
    """Return the body as its producer wrote it, or as it is stored if it can't be inflated.

    Raises NotFoundError, NotShown.
    """
    if not visit.shows_bodies:
        raise NotShown("body", NO_BODIES)
    return Download(content_of(await find(visit)).raw, BODY_FILE)


async def find(visit: Visit) -> StoredMessage:
    """Return the newest message with the id, or at the place, of the address. Raises NotFoundError."""
    topic, text = visit.path["topic"], visit.path["id"]
    place = parse_place(topic, text)
    if place is not None:
        return await find_at(visit.cluster.reader.pull, *place)

    async def ask(admin: Admin) -> StoredMessage:
        return (await find_by_id(admin, text, topic))[-1]

    found = await visit.cluster.ask_for_bodies(("message", topic, text), ask)
    if found.topic != topic:
        raise NotFoundError(f"{text} is a message of {found.topic!r}, not of {topic!r}")
    return found


def shown_record(
    found: StoredMessage, bytes_max: int, missing: dict[str, str], *, shows_bodies: bool
) -> dict[str, Any]:
    """Return all fields of a message. A body that is too large is None, with the reason in ``missing``."""
    if not shows_bodies:
        missing["body"] = missing["properties"] = NO_BODIES
        return without_content(plain_record(found, lambda message: b""))
    raw = content_of(found).raw
    if len(raw) > bytes_max:
        missing["body as JSON"] = f"it has {len(raw):,} bytes, the limit is {bytes_max:,}: download the body"
        return plain_record(found, lambda message: b"") | {"body": None}
    record = plain_record(found, lambda message: raw)
    if _is_deep(record["body"]):
        missing["body as JSON"] = f"it is nested deeper than {JSON_DEPTH_MAX}: download the body"
        return record | {"body": None}
    return record


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(JSON_DEPTH_MAX + 1):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


async def _readers(visit: Visit, found: StoredMessage) -> tuple[list[dict[str, Any]], dict[str, str]]:
    key = ("readers", found.topic, found.broker_name, found.queue_id, found.queue_offset)
    asked = visit.cluster.ask(key, lambda admin: reader_records(admin, found))
    answers = await within(GROUPS_TIMEOUT_S, {"groups": asked})
    if "groups" not in answers.came:
        return [], answers.missing
    records, left_out = answers.came["groups"]
    return records, {"groups": f"{left_out} more, the limit is {GROUPS_MAX}: pymq group lag"} if left_out else {}


def _origin(found: StoredMessage) -> dict[str, str]:
    """Return where a retry or a dead letter came from: its topic and the id that it had there, "" where unknown."""
    topic, message_id = origin_topic(found), origin_id(found)
    return {"topic": topic, "message_id": message_id or found.message_id} if topic or message_id else {}


def _more(body: BodyView | None, chosen: int) -> int | None:
    """Return how many bytes "show more" asks for; None when there is no more, or no more may be shown."""
    if body is None or body.kind not in (TEXT, HEX) or not body.is_cut or body.shown_bytes >= SHOWN_BYTES_MAX:
        return None
    return min(SHOWN_BYTES_MAX, 4 * max(chosen, body.shown_bytes))
