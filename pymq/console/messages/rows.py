"""A message as a row of a list: its place, its labels, and the begin of its body."""

from __future__ import annotations

import codecs
from typing import Any, Final

from pymq.client import StoredMessage
from pymq.model.compression import InflateError, inflated_begin
from pymq.operations.message.lookup import place_id
from pymq.operations.times import iso_time

BEGIN_BYTES: Final = 200
HEX_BEGIN_BYTES: Final = 32
MORE: Final = "\u2026"
LABEL_CHARACTERS_MAX: Final = 200

# What --no-bodies hides of a record or a row.
HIDDEN: Final = ("tags", "keys", "properties", "body_encoding", "body_text", "body", "body_begin", "size_bytes")


def message_row(message: StoredMessage, *, shows_bodies: bool) -> dict[str, Any]:
    """Return a row with the field names of a message's record. Long labels are shortened."""
    row: dict[str, Any] = {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "message_id": shortened(message.message_id),
        "id": place_id(message.broker_name, message.queue_id, message.queue_offset),
        "tags": shortened(message.tags),
        "keys": shortened(message.keys),
        "store_time": iso_time(message.store_timestamp_ms),
        "store_timestamp_ms": message.store_timestamp_ms,
        "reconsume_times": message.reconsume_times,
        "size_bytes": message.size_bytes,
        "body_begin": body_begin(message) if shows_bodies else None,
    }
    return row if shows_bodies else without_content(row)


def without_content(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of a message with None in place of its body and its properties."""
    return {name: None if name in HIDDEN else value for name, value in record.items()}


def body_begin(message: StoredMessage) -> str:
    """Return the first :data:`BEGIN_BYTES` of the body as text; of binary bytes a few in hex."""
    try:
        raw = inflated_begin(message.body, message.sys_flag, BEGIN_BYTES)
    except InflateError as error:
        return f"<{error}>"
    try:
        text = codecs.getincrementaldecoder("utf-8")("strict").decode(raw)
    except UnicodeDecodeError:
        more = f" {MORE}" if len(raw) > HEX_BEGIN_BYTES else ""
        return f"<binary: {raw[:HEX_BEGIN_BYTES].hex(' ')}{more}>"
    return text + (MORE if len(raw) == BEGIN_BYTES else "")


def shortened(text: str) -> str:
    """Return a label of a message with at most :data:`LABEL_CHARACTERS_MAX` characters."""
    return text if len(text) <= LABEL_CHARACTERS_MAX else text[:LABEL_CHARACTERS_MAX] + MORE
