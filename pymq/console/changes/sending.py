"""Messages that are sent: a new one, and a stored one again as it was or edited."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any, Final, NamedTuple

from pymq.client import Message, MessageQueue, SendResult, StoredMessage
from pymq.client.admin import Admin
from pymq.console.asking.cluster import Cluster
from pymq.console.changes import labels
from pymq.console.changes.fields import Field, Input, form_page
from pymq.console.changes.plan import Outcome, Plan, Prepare, WithMessages
from pymq.console.messages.message import NO_BODIES, find
from pymq.console.messages.rows import BEGIN_BYTES, shortened
from pymq.console.pages.links import message_path
from pymq.console.pages.page import PIPE, NotShown, Page, Redirect, Visit
from pymq.console.pages.sections import Column, Kind, Table, Values
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import ConflictError, NotFoundError, UsageError
from pymq.model.message import DELAY_LEVEL_MAX
from pymq.model.names import RETRY_TOPIC_LENGTH_MAX, check_topic
from pymq.model.properties import SHARDING_KEY
from pymq.model.record import body_crc
from pymq.operations.message.lookup import find_at, parse_place, place_id
from pymq.operations.message.sending import (
    check,
    copy_to_send,
    find_queue,
    new_message,
    result_record,
    send_one,
    with_timer,
)
from pymq.operations.queues import parse_queue_choice
from pymq.operations.times import iso_time

SHORT_LENGTH_MAX: Final = 64
QUEUE_LENGTH_MAX: Final = 300
COMMAND_BODY_LENGTH_MAX: Final = 1_000
ANY_QUEUE: Final = "the brokers' turn"
AGAIN_NOTE: Final = "It gets an id of its own. Groups that have handled the first one handle this one, too."
_SENT: Final = (
    Column("message_id", "Id", Kind.link, path=lambda record: record["path"]),
    Column("status", "Status"),
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.number),
    Column("offset", "Offset", Kind.number),
    Column("recall_handle", "Recall handle", why_unknown="only a message with a delay or a time has one"),
)
_PARTS: Final = (Column("part", "Part"), Column("value", "Value", why_unknown="none"))
_CHANGES: Final = (
    Column("part", "Part"),
    Column("before", "Stored", why_unknown="none"),
    Column("value", "Sent", why_unknown="none"),
)


class Identity(NamedTuple):
    """What tells one stored message from another that takes its place later."""

    message_id: str
    physical_offset: int
    store_timestamp_ms: int
    body_crc: int


def identity_of(message: StoredMessage) -> Identity:
    """Return the identity of a stored message."""
    crc = body_crc(message.body)  # what a broker says of it may be another's
    return Identity(message.message_id, message.physical_offset, message.store_timestamp_ms, crc)


async def form(visit: Visit) -> Page:
    """Return the form of a new message."""
    topic = visit.path["topic"]
    fields = [
        *labels.empty_fields(),
        Field(
            "ordering_key",
            "Ordering key",
            hint="none; messages with one key keep their order",
            length_max=labels.LABEL_LENGTH_MAX,
        ),
        Field("delay", "Delay", hint="none; 90s, 15m, 2d", length_max=SHORT_LENGTH_MAX),
        Field("deliver_at", "Deliver at", hint="at once; 2026-01-31T12:00, or Unix ms", length_max=SHORT_LENGTH_MAX),
        Field("delay_level", "Delay level", Input.number, hint=f"none; 1 to {DELAY_LEVEL_MAX}, for old brokers"),
        Field("queue", "Queue", hint="any; 0, broker-a:0", length_max=QUEUE_LENGTH_MAX),
    ]
    return form_page(f"Send to {topic}", fields, ("send", topic, "BODY"), "Times without a zone are in UTC.")


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the send of a new message. Raises BadRequest."""
    topic = visit.path["topic"]
    body = labels.read_body(given)
    properties = labels.read_properties(given)
    ordering_key = given.text("ordering_key", "", length_max=labels.LABEL_LENGTH_MAX)
    level = given.number("delay_level", minimum=0, maximum=DELAY_LEVEL_MAX) if _is_given(given, "delay_level") else 0
    texts = {name: given.text(name, "", length_max=SHORT_LENGTH_MAX).strip() for name in ("delay", "deliver_at")}
    queue_text = given.text("queue", "", length_max=QUEUE_LENGTH_MAX).strip()
    if ordering_key and queue_text:
        raise BadRequest("queue", "an ordering key chooses the queue: leave one of them empty")
    if ordering_key and properties.setdefault(SHARDING_KEY, ordering_key) != ordering_key:
        raise BadRequest("ordering_key", f"the property {SHARDING_KEY} is another one: give one of them")
    try:
        message = new_message(
            topic,
            body,
            tags=labels.read_label(given, labels.TAG),
            keys=labels.read_label(given, labels.KEYS).split(),
            properties=properties,
            delay_level=level,
        )
        message = with_timer(message, texts["delay"] or None, texts["deliver_at"] or None, visit.clock.now_ms(), UTC)
        check(message)
        choice = parse_queue_choice(queue_text) if queue_text else None
    except UsageError as error:
        raise BadRequest("message", str(error)) from None

    async def plan(admin: Admin) -> Plan:
        await admin.topics.route(topic)
        queue = await find_queue(admin, topic, choice) if choice is not None else None
        record = _record(message, queue)
        rows = [{"part": part, "value": value} for part, value in _parts(message, queue, is_shown=visit.shows_bodies)]

        async def apply(cluster: Cluster, admin: Admin) -> Outcome:
            await _refuse_a_gone_topic(admin, topic)
            async with cluster.producer() as producer:
                return _outcome(message, await send_one(producer, message, queue))

        return Plan(
            f"Send to {topic}",
            "message send",
            f"topic {topic}",
            [Table("Message", _PARTS, rows, "")],
            record,
            _command(message, queue_text, texts["delay"]),
            WithMessages(apply),
        )

    return plan


async def again_form(visit: Visit) -> Page | Redirect:
    """Return the form that sends the message of the address again: its parts as far as a form carries them."""
    topic, text = visit.path["topic"], visit.path["id"]
    found = await find(visit)
    if parse_place(topic, text) is None:
        place = place_id(found.broker_name, found.queue_id, found.queue_offset)
        return Redirect(f"{message_path(topic, place)}/send")
    fields = [Field("topic", "Topic", value=topic, is_required=True, length_max=RETRY_TOPIC_LENGTH_MAX)]
    note = f"{NO_BODIES}: it is sent as it is."
    if visit.shows_bodies:
        shown, left_out = labels.fields_of(copy_to_send(found, topic))
        fields += shown
        note = f"A form can't carry this, which is sent as it is: {', '.join(left_out)}." if left_out else ""
    return form_page(f"Send {shortened(found.message_id)} again", fields, _again_command(found, topic), note)


def again(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans that a stored message is sent again, with the parts of a form. Raises BadRequest, NotShown."""
    source = visit.path["topic"]
    target = given.text("topic", length_max=RETRY_TOPIC_LENGTH_MAX).strip()
    named = parse_place(source, visit.path["id"])
    if named is None:
        raise BadRequest("id", "it is no place of a message: open the form from the message's page")
    _refuse_edits(visit, given)
    try:
        check_topic(target)
    except UsageError as error:
        raise BadRequest("topic", str(error)) from None

    async def plan(admin: Admin) -> Plan:
        await admin.topics.route(target)
        async with visit.cluster.holding():
            found = await find_at(visit.cluster.reader.pull, *named)
            before = copy_to_send(found, target)
            message = labels.edited(before, given)
            check(message)
            identity, is_same_body = identity_of(found), message.body == before.body
            rows = [
                {"part": part, "before": old, "value": new}
                for (part, old), (_, new) in zip(
                    _parts(replace(before, topic=source), named[0], is_shown=visit.shows_bodies),
                    _parts(message, None, is_shown=visit.shows_bodies),
                    strict=True,
                )
            ]
            record = _record(message, None) | {
                "from_topic": source,
                "from_message_id": shortened(found.message_id),
                "place": visit.path["id"],
                "is_same_body": is_same_body,
            }
            is_same = is_same_body and message == before
            command = _again_command(found, target) if is_same else _command(message)
        # A plan waits for minutes: it keeps what the form said, and no stored body.
        keep = replace(message, body=b"") if is_same_body else message

        async def apply(cluster: Cluster, admin: Admin) -> Outcome:
            await _refuse_a_gone_topic(admin, target)
            async with cluster.producer() as producer:
                stored = await _same(cluster, named, identity)
                sent = replace(keep, body=copy_to_send(stored, target).body) if is_same_body else keep
                return _outcome(sent, await send_one(producer, sent, None))

        return Plan(
            f"Send {shortened(found.message_id)} again",
            "message send again",
            f"topic {target}",
            [Table("Message", _CHANGES, rows, "")],
            record,
            command,
            WithMessages(apply),
            (AGAIN_NOTE,),
        )

    return plan


def _refuse_edits(visit: Visit, given: Parameters) -> None:
    """Raise NotShown for a form with contents in a console that shows none."""
    contents = (labels.TAG, labels.KEYS, labels.PROPERTIES, labels.BODY)
    if not visit.shows_bodies and any(given.has(name) for name in contents):
        raise NotShown("body", NO_BODIES)


async def _same(cluster: Cluster, named: tuple[MessageQueue, int], identity: Identity) -> StoredMessage:
    """Return the message at a place. Raises ConflictError when another one is there now, or none."""
    queue, offset = named
    try:
        found = await find_at(cluster.reader.pull, queue, offset)
    except NotFoundError as error:
        raise ConflictError(f"the message is gone since the plan was made: nothing is sent ({error})") from error
    if identity_of(found) != identity:
        raise ConflictError(
            f"another message is at offset {offset} of {queue.topic} now: the topic was made again, and nothing is sent"
        )
    return found


async def _refuse_a_gone_topic(admin: Admin, topic: str) -> None:
    """Raise ConflictError for a topic that was deleted since the plan: a send might make it again."""
    try:
        await admin.topics.route(topic)
    except NotFoundError as error:
        raise ConflictError(f"topic {topic} was deleted since the plan was made: nothing is sent") from error


def _record(message: Message, queue: MessageQueue | None) -> dict[str, Any]:
    """Return what the audit says of a message: sizes and no contents."""
    return {
        "topic": message.topic,
        "queue": None if queue is None else f"{queue.broker_name}:{queue.queue_id}",
        "body_bytes": len(message.body),
        "tag_bytes": len(message.tags.encode("utf-8", "surrogatepass")),
        "keys": len(message.keys.split()),
        "properties": len(message.properties),
        "delay_ms": message.delay_ms or None,
        "deliver_at_ms": message.deliver_at_ms or None,
        "delay_level": message.delay_level or None,
    }


def _parts(message: Message, queue: MessageQueue | None, *, is_shown: bool) -> list[tuple[str, str | None]]:
    """Return the parts of a message for people, each with its name."""
    begin = message.body[:BEGIN_BYTES].decode("utf-8", "replace") if is_shown else NO_BODIES
    delay = f"{message.delay_ms:,} ms later" if message.delay_ms else ""
    delay = delay or (iso_time(message.deliver_at_ms) if message.deliver_at_ms else "")
    delay = delay or (f"level {message.delay_level}" if message.delay_level else "")
    shown = [
        ("Tag", shortened(message.tags)),
        ("Keys", shortened(message.keys)),
        ("Properties", shortened(", ".join(f"{name}={value}" for name, value in message.properties.items()))),
    ]
    return [
        ("Topic", message.topic),
        ("Queue", ANY_QUEUE if queue is None else f"{queue.broker_name}:{queue.queue_id}"),
        *((name, text or None) for name, text in shown if is_shown),
        ("Delivered", delay or None),
        ("Size of the body", f"{len(message.body):,} bytes"),
        ("Begin of the body", begin),
    ]


def _outcome(message: Message, result: SendResult) -> Outcome:
    record = result_record(result)
    place = place_id(result.queue.broker_name, result.queue.queue_id, result.queue_offset)
    # A message with a delay is not in its topic yet.
    shown = (
        {"recall_handle": None}
        | record
        | {"path": None if message.is_delayed else message_path(result.queue.topic, place)}
    )
    kept = {name: value for name, value in record.items() if name != "recall_handle"}
    return Outcome([Values("Sent", _SENT, shown)], kept)


def _command(message: Message, queue: str = "", delay: str = "") -> tuple[str, ...]:
    """Return the command line that sends a message; a body that is long, or no line of text, comes from a file."""
    words = ["send", message.topic]
    words += ["--tag", message.tags] if message.tags else []
    words += [word for key in message.keys.split() for word in ("--key", key)]
    words += [word for name, value in message.properties.items() for word in ("--property", f"{name}={value}")]
    words += ["--delay-level", str(message.delay_level)] if message.delay_level else []
    words += ["--delay", delay] if delay else []
    # A time without a zone is in UTC here, and in local time there.
    words += ["--deliver-at", str(message.deliver_at_ms)] if message.deliver_at_ms else []
    words += ["--queue", queue] if queue else []
    text = message.body.decode("utf-8", "replace")
    if len(text) > COMMAND_BODY_LENGTH_MAX or not text.isprintable() or text == "-":
        return (*words, "@FILE")
    return (*words, "--", f"@{text}" if text.startswith("@") else text)


def _again_command(found: StoredMessage, target: str) -> tuple[str, ...]:
    return ("message", "get", found.offset_message_id, "-o", "jsonl", PIPE, "pymq", "send", target, "--jsonl")


def _is_given(given: Parameters, name: str) -> bool:
    return bool(given.text(name, "").strip())
