"""Parses one record of the log, as far as queues and index need it."""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from pymq.model import sysflag
from pymq.model.javahash import tags_code
from pymq.model.layout import (
    BODY_AT,
    CRC_MASK,
    HEAD_TO_SYS_FLAG,
    HOST_V6_EXTRA_BYTES,
    HOST_V6_FLAGS,
    I16,
    I32,
    I64,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH_BYTES,
    RECORD_MAGICS,
    RECORD_OVERHEAD_BYTES,
    STORE_TIMESTAMP_AT,
    TOPIC_LENGTH_BYTES,
    host_extra_bytes,
)
from pymq.model.properties import DELAY, TAGS, find_property
from pymq.store.settings import StoreSettings, is_schedule_topic

_TAGS, _DELAY = TAGS.encode(), DELAY.encode()


class Scanned(NamedTuple):
    """The parts of a record from which queues and index are built. ``store_ms`` is Unix time."""

    offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_ms: int
    properties: bytes


def parse_record(view: memoryview, at: int, offset: int, check_crc: bool) -> Scanned | None:
    """Parse the record at ``at`` of ``view``, whose physical offset must be ``offset``.

    Returns None when the bytes are not a record, are damaged, or belong to another offset.
    """
    try:
        size, magic, crc, queue_id, _, queue_offset, physical, sys_flag = HEAD_TO_SYS_FLAG.unpack_from(view, at)
        if (
            magic not in (MAGIC_V1, MAGIC_V2)
            or physical != offset
            or not RECORD_OVERHEAD_BYTES <= size <= len(view) - at
        ):
            return None
        store_at = at + STORE_TIMESTAMP_AT
        body_at = at + BODY_AT
        if sys_flag & HOST_V6_FLAGS:
            store_at += HOST_V6_EXTRA_BYTES if sys_flag & sysflag.BORN_HOST_V6 else 0
            body_at += host_extra_bytes(sys_flag)
        body_size = I32.unpack_from(view, body_at - I32.size)[0]
        topic_at = body_at + body_size + TOPIC_LENGTH_BYTES
        if body_size < 0 or topic_at > at + size:
            return None
        topic_size = view[topic_at - 1]
        if magic == MAGIC_V2:
            topic_size = I16.unpack_from(view, topic_at - 1)[0]
            topic_at += 1
        properties_at = topic_at + topic_size + PROPERTIES_LENGTH_BYTES
        properties_size = I16.unpack_from(view, properties_at - PROPERTIES_LENGTH_BYTES)[0]
        if topic_size < 0 or properties_size < 0 or properties_at + properties_size != at + size:
            return None
        if check_crc and crc32(view[body_at : body_at + body_size]) & CRC_MASK != crc:
            return None
        topic = str(view[topic_at : topic_at + topic_size], "utf-8")
        if "\0" in topic:
            return None
        store_ms = I64.unpack_from(view, store_at)[0]
        properties = bytes(view[properties_at : properties_at + properties_size])
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    return Scanned(offset, size, topic, queue_id, queue_offset, sys_flag, store_ms, properties)


def magic_positions(chunk: bytes) -> list[int]:
    """Return the positions of record magics, in ascending order. A record may begin 4 bytes before each."""
    found = []
    for magic in RECORD_MAGICS:
        at = chunk.find(magic)
        while at >= 0:
            found.append(at)
            at = chunk.find(magic, at + 1)
    return sorted(found)


def unit_tags_code(record: Scanned, settings: StoreSettings) -> int:
    """Return the tags code of a record's consume queue unit (Java: CommitLog.checkMessageAndReturnSize)."""
    if is_schedule_topic(record.topic):
        level = find_property(record.properties, _DELAY)
        if level is not None and level.isdigit():
            return settings.schedule_deliver_ms(int(level), record.store_ms)
    tags = find_property(record.properties, _TAGS)
    return tags_code(tags.decode("utf-8", "replace")) if tags else 0


def has_queue_unit(sys_flag: int) -> bool:
    """False for half messages and rollbacks, which have no consume queue unit."""
    return sys_flag & sysflag.TRANSACTION_MASK in (sysflag.TRANSACTION_NONE, sysflag.TRANSACTION_COMMIT)


def has_index_entries(sys_flag: int) -> bool:
    """False for rollbacks, which can't be looked up by key."""
    return sys_flag & sysflag.TRANSACTION_MASK != sysflag.TRANSACTION_ROLLBACK
