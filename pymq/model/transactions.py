"""Transactions on disk: the properties of half messages and the bodies of op records, as RocketMQ writes them.

A half message is the message of an open transaction. It stands in the half topic with its target as properties. An op
record stands in the op topic; its body names half messages that have ended, by their offsets in the half topic's queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pymq.model import properties as names
from pymq.model.properties import append_properties, encode_properties, find_property
from pymq.model.record import StoredMessage

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"  # its offsets say how far the half and the op queue are done with
TRANSACTION_QUEUE_ID = 0
OP_TAG = "d"
OP_PROPERTIES = b"WAIT\x01true\x02TAGS\x01d\x02"

# Java: commitOrRollback of END_TRANSACTION, the bits of sysFlag.
UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12

# What the broker may add to a half message later: the number of checks and the offset of the first copy.
ADDED_LATER_BYTES = 100
_OFFSET_DIGITS_MAX = 19
_SECONDS_DIGITS_MAX = 10
_HALF = b"TRAN_MSG\x01"


def is_half(properties: bytes) -> bool:
    """Return True when the properties mark a half message (Java: Boolean.parseBoolean of TRAN_MSG)."""
    if _HALF not in properties:
        return False
    value = find_property(properties, b"TRAN_MSG")
    return value is not None and value.lower() == b"true"


def half_properties(raw: bytes, topic: str, queue_id: int, group: str, unique_key: str) -> bytes:
    """Return a half message's properties: the client's, without the broker's own, with target and transaction id.

    The producer group is added when the client left it out.
    """
    added = {names.TRANSACTION_ID: unique_key, names.REAL_TOPIC: topic, names.REAL_QUEUE_ID: str(queue_id)}
    if find_property(raw, b"PGROUP") is None:
        added[names.PRODUCER_GROUP] = group
    return append_properties(raw, encode_properties(added))


def copy_properties(message: StoredMessage, check_count: int, first_offset: int) -> bytes:
    """Return the properties of a half message's next copy."""
    copied = dict(message.properties)
    if check_count:
        copied[names.TRANSACTION_CHECK_TIMES] = str(check_count)
    copied[names.TRANSACTION_PREPARED_QUEUE_OFFSET] = str(first_offset)
    copied[names.WAIT] = "false"
    return encode_properties(copied)


def target_of(message: StoredMessage) -> tuple[str, int] | None:
    """Return topic and queue id that a half message is for; None when it names none."""
    topic = message.properties.get(names.REAL_TOPIC, "")
    queue_id = message.properties.get(names.REAL_QUEUE_ID, "")
    return (topic, int(queue_id[:9])) if topic and _is_number(queue_id, _OFFSET_DIGITS_MAX) else None


def check_count_of(message: StoredMessage) -> int:
    """Return how often the producers were asked about a half message."""
    text = message.properties.get(names.TRANSACTION_CHECK_TIMES, "")
    return int(text) if _is_number(text, 9) else 0


def first_offset_of(message: StoredMessage) -> int:
    """Return the queue offset of the first copy of a half message."""
    text = message.properties.get(names.TRANSACTION_PREPARED_QUEUE_OFFSET, "")
    return int(text) if _is_number(text, _OFFSET_DIGITS_MAX) else message.queue_offset


def immunity_ms_of(message: StoredMessage) -> int | None:
    """Return the immunity time that a half message asks for itself; None when it asks for none, or for nonsense."""
    text = message.properties.get(names.CHECK_IMMUNITY_SECONDS, "")
    return int(text) * 1000 if _is_number(text, _SECONDS_DIGITS_MAX) else None


def immunity_ms_in(raw: bytes) -> int | None:
    """Return the same from a message's raw properties."""
    if b"CHECK_IMMUNITY_TIME_IN_SECONDS\x01" not in raw:
        return None
    value = find_property(raw, b"CHECK_IMMUNITY_TIME_IN_SECONDS")
    return int(value) * 1000 if value and value.isdigit() and len(value) <= _SECONDS_DIGITS_MAX else None


def encode_op_bodies(offsets: Iterable[int], size_max_bytes: int) -> Iterator[bytes]:
    """Yield the bodies of op records that name these offsets, each at most so large unless one offset alone is."""
    parts: list[bytes] = []
    size = 0
    for offset in offsets:
        part = b"%d," % offset
        if parts and size + len(part) > size_max_bytes:
            yield b"".join(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield b"".join(parts)


def decode_op_body(body: bytes) -> list[int]:
    """Return the offsets that an op record names. Leaves out what is no number.

    RocketMQ 4 writes one number, 5 a list that ends with a comma.
    """
    parts = (part.strip() for part in body.split(b","))
    return [int(part) for part in parts if part.isdigit() and len(part) <= _OFFSET_DIGITS_MAX]


def _is_number(text: str, digits_max: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits_max
