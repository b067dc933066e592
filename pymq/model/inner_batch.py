"""Inner batches: one record that holds many messages, in topics with ``queue.type=BatchCQ``.

The body is that of a batch request, entry after entry. The record takes as many queue offsets as it has messages, and
its own offset is the first one's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pymq.model import sysflag
from pymq.model.compression import InflateError
from pymq.model.layout import (
    BATCH_ENTRY_BODY_AT,
    BATCH_ENTRY_OVERHEAD_BYTES,
    BATCH_ENTRY_SIZES,
    INNER_COUNT_MAX,
    PROPERTIES_LENGTH_BYTES,
    UniformEntries,
    uniform_entries,
)
from pymq.model.properties import INNER_NUM, find_property
from pymq.model.record import (
    MalformedRecordError,
    StoredMessage,
    body_crc,
    decode_batch,
    decode_record,
    encode_message,
    stated_size,
)

QUEUE_TYPE = "queue.type"  # the attribute of a topic
SIMPLE_CQ, BATCH_CQ = QUEUE_TYPES = ("SimpleCQ", "BatchCQ")

INNER_FLAGS = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP  # an inner batch's record has both
INNER_PROPERTIES_SIZE_MAX_BYTES = 48  # of INNER_NUM and INNER_BASE, which the broker adds to an inner batch
_INNER_NUM = INNER_NUM.encode()
_INNER_NUM_HEAD = _INNER_NUM + b"\x01"
_COUNT_DIGITS_MAX = 5
_NO_ENTRIES = (0, 0, b"")


def has_batch_queues(attributes: Mapping[str, Any] | None) -> bool:
    """Return True for the attributes of a topic that keeps batches as inner batches."""
    return bool(attributes) and attributes.get(QUEUE_TYPE) == BATCH_CQ  # type: ignore[union-attr]


def message_count(sys_flag: int, properties: bytes) -> int:
    """Return the number of queue offsets that a record takes: one, or what an inner batch says of itself."""
    if not sys_flag & sysflag.INNER_BATCH:
        return 1
    text = find_property(properties, _INNER_NUM)
    if text is None or not text.isdigit() or len(text) > _COUNT_DIGITS_MAX:
        return 1
    return min(max(int(text), 1), INNER_COUNT_MAX)


def sized_entries(frame: bytes, at: int = 0) -> tuple[int, int]:
    """Return the number of entries of a batch request's body, and the bytes of the longest properties.

    The body is what stands in ``frame`` from ``at`` on. Zeros when the entries don't add up, or there is none: then
    :func:`~pymq.model.record.decode_batch` says why.
    """
    uniform = _uniform(frame, at)
    return _areas(frame[at:])[:2] if uniform is None else (uniform.entry_count, uniform.properties_size)


def own_properties(frame: bytes, at: int = 0) -> tuple[int, int, bytes]:
    """Return what :func:`sized_entries` returns, and all properties: back to back, each behind its length."""
    uniform = _uniform(frame, at)
    if uniform is None:
        return _areas(frame[at:])
    return uniform.entry_count, uniform.properties_size, b"".join(uniform.areas.unpack_from(frame, at))


def _uniform(frame: bytes, at: int) -> UniformEntries | None:
    """Return what reads the entries from ``at`` on, None unless all have the same lengths, as in most batches."""
    total = len(frame) - at
    if total < BATCH_ENTRY_OVERHEAD_BYTES:
        return None
    size, _, body_size = BATCH_ENTRY_SIZES.unpack_from(frame, at)
    if size < BATCH_ENTRY_OVERHEAD_BYTES or total % size:
        return None
    found = uniform_entries(size, body_size, total // size)
    return found if found is not None and found.lengths.unpack_from(frame, at) == found.wanted else None


def _areas(entries: bytes) -> tuple[int, int, bytes]:
    """Do as :func:`own_properties`, entry by entry."""
    areas: list[bytes] = []
    longest = at = 0
    end = len(entries)
    try:
        while at < end:
            size, _, body_size = BATCH_ENTRY_SIZES.unpack_from(entries, at)
            area_at = at + BATCH_ENTRY_BODY_AT + body_size
            at += size
            own_size = entries[area_at] << 8 | entries[area_at + 1]
            if body_size < 0 or at > end or area_at + PROPERTIES_LENGTH_BYTES + own_size != at:
                return _NO_ENTRIES
            longest = max(longest, own_size)
            areas.append(entries[area_at:at])
    except (struct.error, IndexError):
        return _NO_ENTRIES
    return len(areas), longest, b"".join(areas)


def is_inner_batch(message: StoredMessage) -> bool:
    """Return True for a record that holds other messages."""
    return message.sys_flag & INNER_FLAGS == INNER_FLAGS


def unwrap(message: StoredMessage) -> list[StoredMessage]:
    """Return the messages of an inner batch's record.

    As in Java (MessageDecoder.decodeMessage) each has the offset ``base + i``, its own properties, body and flag, and
    everything else of the record. Raises MalformedRecordError.
    """
    sys_flag = message.sys_flag & ~(INNER_FLAGS | sysflag.COMPRESSED | sysflag.COMPRESSION_MASK)
    return [
        replace(
            message,
            queue_offset=message.queue_offset + number,
            body=body,
            raw_properties=properties,
            flag=flag,
            sys_flag=sys_flag,
            body_crc=body_crc(body),
            _properties=None,
        )
        for number, (flag, body, properties) in enumerate(decode_batch(message.content()))
    ]


def unwrapped(messages: Iterable[StoredMessage]) -> Iterator[StoredMessage]:
    """Yield the messages, and those of an inner batch in place of its record. One that is damaged stays as it is."""
    for message in messages:
        if is_inner_batch(message):
            with suppress(MalformedRecordError, InflateError):
                yield from unwrap(message)
                continue
        yield message


def with_single_records(raw: bytes, from_offset: int) -> bytes:
    """Return records that stand back to back with a record for each message of an inner batch in place of its own.

    Messages of a batch below the queue offset ``from_offset``, where a reader asked, are left out. Bytes without inner
    batches are returned as they are, and so is a record that can't be decoded. Raises MalformedRecordError when nothing
    says where such a one ends.
    """
    if _INNER_NUM_HEAD not in raw:
        return raw
    parts: list[bytes] = []
    at = 0
    while at < len(raw):
        try:
            message = decode_record(raw, at)
        except MalformedRecordError:
            if (size := stated_size(raw, at)) is None:
                raise
            parts.append(raw[at : at + size])
            at += size
            continue
        at += message.size_bytes
        for each in unwrapped((message,)):
            if each is message:
                parts.append(encode_message(message))
            elif each.queue_offset >= from_offset:
                parts.append(encode_message(each))
    return b"".join(parts)
