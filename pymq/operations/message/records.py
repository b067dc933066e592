"""Messages as JSON objects: all fields of a stored one, and messages to send from such objects."""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from pymq.errors import UsageError
from pymq.model import sysflag
from pymq.model.message import Message
from pymq.model.properties import RESEND, RESERVED, SHARDING_KEY
from pymq.model.record import StoredMessage
from pymq.operations.message.content import ReadBody, content
from pymq.operations.times import iso_time
from pymq.printable import printable_json

BASE64 = "base64"
COMPRESSED = "base64 of the compressed body"
SHOWN_NAME_LENGTH_MAX = 60
SHOWN_COUNT_MAX = 5

# The members of message_record, in their order.
RECORD_NAMES = (
    "topic",
    "broker",
    "queue",
    "offset",
    "message_id",
    "offset_message_id",
    "tags",
    "keys",
    "born_time",
    "born_host",
    "store_time",
    "store_timestamp_ms",
    "reconsume_times",
    "properties",
    "body_encoding",
    "body_text",
    "body",
)


def message_record(message: StoredMessage, read: ReadBody = content) -> dict[str, Any]:
    """Return all fields of a message; ``body`` is JSON text to insert into an object.

    A body that is a JSON object or array is copied unchanged, but on one line; if that changes it, ``body_text`` is its
    exact text. Other text becomes a string. Binary bytes become a string in base64, and ``body_encoding`` is set.
    """
    raw = read(message)
    host, port = message.born_address
    record: dict[str, Any] = {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "tags": message.tags,
        "keys": message.keys,
        "born_time": iso_time(message.born_timestamp_ms),
        "born_host": f"{host}:{port}",
        "store_time": iso_time(message.store_timestamp_ms),
        "store_timestamp_ms": message.store_timestamp_ms,
        "reconsume_times": message.reconsume_times,
        "properties": message.properties,
    }
    text = _json_text(raw)
    if text is None:
        try:
            text = json.dumps(raw.decode(), ensure_ascii=False)
        except UnicodeDecodeError:
            record["body_encoding"] = BASE64
            if raw is message.body and message.sys_flag & sysflag.COMPRESSED:
                record["body_encoding"] = COMPRESSED
            text = json.dumps(base64.b64encode(raw).decode())
    elif text.encode() != raw:
        record["body_text"] = raw.decode()
    record["body"] = text
    return record


def plain_record(message: StoredMessage, read: ReadBody = content) -> dict[str, Any]:
    """Return all fields of a message, with its body as a value."""
    record = message_record(message, read)
    return record | {"body": msgspec.json.decode(record["body"].encode())}


def json_line(message: StoredMessage, read: ReadBody = content) -> bytes:
    """Return the JSON object of :func:`message_record` on one line, with the body last."""
    record = message_record(message, read)
    body = record.pop("body")
    head = json.dumps(record, ensure_ascii=False)
    line = f'{head[:-1]}, "body": {body}}}'
    return f"{printable_json(line)}\n".encode()


def _json_text(raw: bytes) -> str | None:
    """Return the body as JSON text on one line if it is an object or an array, else None."""
    stripped = raw.strip()
    if not stripped.startswith((b"{", b"[")):
        return None
    try:
        msgspec.json.decode(stripped, type=msgspec.Raw)
        # JSON strings can't contain raw line ends, so these are between members.
        return stripped.decode().replace("\r", " ").replace("\n", " ")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that an application gave: none of RocketMQ's, and no producer's mark of a new attempt."""
    return {name: value for name, value in properties.items() if name not in RESERVED and name != RESEND}


class _JsonMessage(msgspec.Struct):
    """The members of a line of ``pymq send --json-lines`` that are sent."""

    body: msgspec.Raw
    tags: str = ""
    keys: str | list[str] = ""
    properties: dict[str, str] = {}
    body_encoding: str = ""
    body_text: str | None = None
    delay_level: int = 0


class _JsonLine(_JsonMessage, forbid_unknown_fields=True):
    """What else ``pymq tail -o json`` writes, in message_record: it says where a message was, and is not sent.

    A line with any other member is refused, because the member would be lost without a word.
    """

    topic: Any = None
    broker: Any = None
    queue: Any = None
    offset: Any = None
    message_id: Any = None
    offset_message_id: Any = None
    born_time: Any = None
    born_host: Any = None
    store_time: Any = None
    store_timestamp_ms: Any = None
    reconsume_times: Any = None


SEND_MEMBERS = _JsonMessage.__struct_fields__
LINE_MEMBERS = _JsonLine.__struct_fields__
_decode_json_line = msgspec.json.Decoder(_JsonLine).decode


def message_from_json(topic: str, line: bytes) -> Message:
    """Read a message for ``topic`` from a JSON object with ``body`` and optional tags, keys, properties, delay_level.

    A string body becomes its text (or the bytes its base64 encodes), any other body its JSON text, or ``body_text`` as
    long as it is the same JSON. RocketMQ's reserved properties are left out, so that the output of ``pymq tail -o
    jsonl`` can be sent again. Raises UsageError, also for a member that is neither sent nor written by ``pymq tail``.
    """
    return message_in_lane(topic, line)[0]


def message_in_lane(topic: str, line: bytes) -> tuple[Message, str]:
    """Read a message as :func:`message_from_json`, and what it keeps its order with: its key, or its former queue.

    The text is empty for a line without both.
    """
    try:
        parsed = _decode_json_line(line)
        body = _body_of(parsed)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"no message: {_unknown_members(line) or error}") from error
    if parsed.body_encoding == COMPRESSED:
        raise UsageError(
            "no message: its body is compressed and beyond what pymq tail inflates: give it a higher --inflate-ratio"
        )
    message = Message(
        topic,
        body,
        tags=parsed.tags,
        keys=parsed.keys,
        properties=own_properties(parsed.properties),
        delay_level=parsed.delay_level,
    )
    place = f"{parsed.broker}/{parsed.queue}" if parsed.queue is not None else ""
    return message, message.properties.get(SHARDING_KEY, place)


def _body_of(parsed: _JsonMessage) -> bytes:
    body = bytes(parsed.body)
    if body.startswith(b'"'):
        text = msgspec.json.decode(body, type=str)
        return base64.b64decode(text, validate=True) if parsed.body_encoding == BASE64 else text.encode()
    # A program may have changed the body and left the text as it was.
    if parsed.body_text is not None and _json_text(parsed.body_text.encode()) == body.decode():
        return parsed.body_text.encode()
    return body


def _unknown_members(line: bytes) -> str:
    """Name the members of an object that no message has, each with the name that it may stand for; empty if none."""
    try:
        parsed = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(parsed, dict):
        return ""
    texts = []
    for name in parsed:
        if name not in LINE_MEMBERS:
            near = difflib.get_close_matches(name.lower(), SEND_MEMBERS, 1)
            texts.append(f"{name[:SHOWN_NAME_LENGTH_MAX]!r}" + (f" (do you mean {near[0]!r}?)" if near else ""))
    if not texts:
        return ""
    return f"unknown member {', '.join(texts[:SHOWN_COUNT_MAX])}: use {', '.join(SEND_MEMBERS)}"
