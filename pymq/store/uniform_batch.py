"""Encodes a batch whose entries all have the same sizes, column by column with numpy instead of entry by entry.

Producers that batch mostly send such batches. The result is byte for byte that of the loop in
:meth:`~pymq.store.plain_stage.PlainStager.stage_batch`; a property test holds them equal.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

import numpy as np

from pymq.model.properties import PROPERTIES_SIZE_MAX_BYTES, tags_code_of
from pymq.model.record import BATCH_ENTRY_OVERHEAD_BYTES, HEAD_V4, MAGIC_V1

COUNT_MIN = 8  # below this the loop is faster
_SEPARATOR = 2
_TAGS = b"TAGS\x01"
_unpack_entry = struct.Struct(">i8xii").unpack_from  # size, flag, body length
_ENTRY_FLAG = slice(12, 16)
_ENTRY_BODY_AT = 20
_CRC, _FLAG, _QUEUE_OFFSET, _PHYSICAL = slice(8, 12), slice(16, 20), slice(20, 28), slice(28, 36)
_BODY_AT = 88
_CRC_MASK = np.uint32(0x7FFFFFFF)
_UNIT = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags", ">i8")])


class Encoded(NamedTuple):
    """Records back to back, their units, where each record starts, and the entries' own properties joined."""

    records: bytes
    units: bytes
    offsets: list[int]
    own: bytes


class BatchPlace(NamedTuple):
    """Where a batch goes and what its records share. Hosts are IPv4."""

    topic_part: bytes
    overhead_bytes: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes


def encode_uniform(entries: bytes, shared: bytes, place: BatchPlace) -> Encoded | None:
    """The records of a batch request's body, or None when its entries differ in size or are malformed.

    ``shared`` properties, without TAGS, stand behind each entry's own.
    """
    if len(entries) < COUNT_MIN * BATCH_ENTRY_OVERHEAD_BYTES:
        return None
    size, _, body_size = _unpack_entry(entries, 0)
    if size < BATCH_ENTRY_OVERHEAD_BYTES or len(entries) % size or not 0 <= body_size <= size - 22:
        return None
    count = len(entries) // size
    own_at = _ENTRY_BODY_AT + body_size + 2
    own_size = size - own_at
    grid = np.frombuffer(entries, np.uint8).reshape(count, size)
    if count < COUNT_MIN or not _is_uniform(entries, size, count, own_at, own_size):
        return None
    own = grid[:, own_at:].tobytes()
    code = _common_tags_code(own, own_size, count)
    if code is None or own_size + len(shared) > PROPERTIES_SIZE_MAX_BYTES:
        return None
    template = _template(body_size, own_size, shared, place)
    total = len(template)
    records = np.empty((count, total), np.uint8)
    records[:] = np.frombuffer(template, np.uint8)
    first, step = place.physical_offset, total
    physical = np.arange(first, first + count * step, step, dtype=np.int64)
    body_ends = range(_ENTRY_BODY_AT + body_size, len(entries), size)
    crcs = np.array([crc32(entries[end - body_size : end]) for end in body_ends], np.uint32) & _CRC_MASK
    records[:, _CRC] = crcs.astype(">u4").view(np.uint8).reshape(count, 4)
    records[:, _FLAG] = grid[:, _ENTRY_FLAG]
    queue_offsets = np.arange(place.queue_offset, place.queue_offset + count, dtype=np.int64)
    records[:, _QUEUE_OFFSET] = queue_offsets.astype(">i8").view(np.uint8).reshape(count, 8)
    records[:, _PHYSICAL] = physical.astype(">i8").view(np.uint8).reshape(count, 8)
    records[:, _BODY_AT : _BODY_AT + body_size] = grid[:, _ENTRY_BODY_AT : _ENTRY_BODY_AT + body_size]
    own_to = total - len(shared)
    records[:, own_to - own_size : own_to] = grid[:, own_at:]
    units = np.zeros(count, _UNIT)
    units["offset"] = physical
    units["size"] = total
    if code:
        units["tags"] = code
    return Encoded(records.tobytes(), units.tobytes(), physical.tolist(), own)


def _is_uniform(entries: bytes, size: int, count: int, own_at: int, own_size: int) -> bool:
    """True when every entry has the first one's sizes; a column of bytes is a slice with the entry's size as step."""
    if own_size != entries[own_at - 2] << 8 | entries[own_at - 1]:
        return False
    columns = [0, 1, 2, 3, 16, 17, 18, 19, own_at - 2, own_at - 1]
    if own_size:
        columns.append(size - 1)
        if entries[size - 1] != _SEPARATOR:
            return False
    return all(entries[column::size] == entries[column : column + 1] * count for column in columns)


def _common_tags_code(own: bytes, size: int, count: int) -> int | None:
    """The tags code that all entries share, 0 without tags; None when they differ or can't be told apart by columns.

    ``own``: the properties of ``count`` entries, ``size`` bytes each.
    """
    found = own.count(_TAGS)
    if not found:
        return 0
    at = own.rfind(_TAGS, 0, size)
    end = own.find(b"\x02", at, size) + 1
    if found != count or at < 0 or not end:
        return None
    start = at - 1 if at else at  # with the separator before it, so that the name is no longer one's end
    if any(own[column::size] != own[column : column + 1] * count for column in range(start, end)):
        return None
    return tags_code_of(own[:size])


def _template(body_size: int, own_size: int, shared: bytes, place: BatchPlace) -> bytes:
    """A record with zeros where the entries differ."""
    properties_size = own_size + len(shared)
    head = HEAD_V4.pack(
        place.overhead_bytes + body_size + properties_size,
        MAGIC_V1,
        0,
        place.queue_id,
        0,
        0,
        0,
        place.sys_flag,
        place.born_timestamp_ms,
        place.born_host,
        place.store_ms,
        place.store_host,
        0,
        0,
        body_size,
    )
    middle = place.topic_part + properties_size.to_bytes(2, "big")
    return b"".join((head, bytes(body_size), middle, bytes(own_size), shared))
