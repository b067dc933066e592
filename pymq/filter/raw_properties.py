"""Finds a property in a message's raw properties without decoding them.

A *source* is the raw properties with one separator before them: ``0x02 name 0x01 value 0x02 name 0x01 value``. So every
name, even the first, stands between a separator and its 0x01.
"""

from __future__ import annotations

from collections.abc import Callable

from pymq.model.layout import (
    BODY_AT,
    BOTH_LENGTHS_BYTES,
    HEAD_V4_FILTER,
    HOST_V6_FLAGS,
    MAGIC_V1,
)
from pymq.model.properties import find_property
from pymq.model.record import decode_record

SEPARATOR = b"\x02"
NAME_END = b"\x01"


def source_of(record: memoryview) -> bytes:
    """Return the source of one stored record. Raises MalformedRecordError for bytes that are not a record."""
    magic, flags, body_size = HEAD_V4_FILTER.unpack_from(record)
    topic_at = BODY_AT + body_size
    if magic == MAGIC_V1 and not flags & HOST_V6_FLAGS and BODY_AT <= topic_at < len(record):
        return SEPARATOR + record[topic_at + BOTH_LENGTHS_BYTES + record[topic_at] :].tobytes()
    return SEPARATOR + decode_record(record).raw_properties


def getter(name: str) -> Callable[[bytes], bytes | None]:
    """Return a function from a source to a property's value; None for a missing property or an empty value.

    When a name occurs more than once, the last value counts.
    """
    key = name.encode()
    needle = SEPARATOR + key + NAME_END

    def get(source: bytes) -> bytes | None:
        _, found, rest = source.rpartition(needle)
        if not found:
            return None
        return rest.partition(SEPARATOR)[0] or find_property(source[1:], key)

    return get
