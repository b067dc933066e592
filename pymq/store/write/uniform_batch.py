"""Encodes a batch whose entries all have the same sizes, column by column with numpy instead of entry by entry.

Most batches of producers are such. The result has the same bytes as that of the loop in
:meth:`~pymq.store.write.plain_stager.PlainStager.stage_batch`; a property test holds them equal.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from pymq.model.draft import Draft
from pymq.model.layout import (
    BATCH_ENTRY_BODY_AT,
    BATCH_ENTRY_BODY_LENGTH_AT,
    BATCH_ENTRY_OVERHEAD_BYTES,
    BATCH_ENTRY_SIZES,
    I32,
    SENT_PROPERTIES_MAX_BYTES,
)
from pymq.model.layout_dtypes import CRC_MASK, UNITS, batch_entries, batch_records
from pymq.model.properties import tags_code_of
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.write.plain_record import pack_record

COUNT_MIN = 8  # below this the loop is faster
_SEPARATOR = b"\x02"
_TAGS = b"TAGS\x01"
_UNIQUE = b"UNIQ_KEY\x01"


class Encoded(NamedTuple):
    """Records back to back, their units, the offset of each record, and the entries' own properties.

    ``own``: the properties of one entry when all entries have the same ones except for the value of UNIQ_KEY, otherwise
    those of all entries, joined. ``own_size``: bytes of one entry's properties. ``joined``: those of all entries.
    """

    records: bytes
    units: bytes
    offsets: list[int]
    own: bytes
    own_size: int
    joined: bytes


class BatchPlace(NamedTuple):
    """The place of a batch, and the store's time (Unix ms) and IPv4 host. Its offsets in the queue are the next."""

    queue: ConsumeQueue
    physical_offset: int
    store_ms: int
    store_host: bytes


def encode_uniform(draft: Draft, place: BatchPlace) -> Encoded | None:
    """Encode the records of a batch request's body. Returns None when its entries differ in size or are malformed.

    The draft's properties, which have no TAGS, stand behind each entry's own. Raises DoesNotFitError for a number that
    its field can't hold.
    """
    entries, shared, queue = bytes(draft.body), draft.properties, place.queue
    if len(entries) < COUNT_MIN * BATCH_ENTRY_OVERHEAD_BYTES:
        return None
    size, _, body_size = BATCH_ENTRY_SIZES.unpack_from(entries)
    if (
        size < BATCH_ENTRY_OVERHEAD_BYTES
        or len(entries) % size
        or not 0 <= body_size <= size - BATCH_ENTRY_OVERHEAD_BYTES
    ):
        return None
    count = len(entries) // size
    own_size = size - BATCH_ENTRY_OVERHEAD_BYTES - body_size
    if count < COUNT_MIN or own_size + len(shared) > SENT_PROPERTIES_MAX_BYTES:
        return None
    columns = np.frombuffer(entries, batch_entries(body_size, own_size))
    joined = columns["own"].tobytes()
    if not _is_uniform(columns, entries, own_size) or not _all_end_properly(joined, own_size, count):
        return None
    own = _without_repeats(joined, own_size, count)
    code = tags_code_of(own) if len(own) == own_size else _common_tags_code(own, own_size, count)
    if code is None:
        return None
    template = _template(body_size, own_size, draft, place)
    total = len(template)
    physical = np.arange(place.physical_offset, place.physical_offset + count * total, total)
    encoded = bytearray(template) * count
    records = np.frombuffer(encoded, batch_records(body_size, own_size, len(queue.topic_part), total))
    records["crc"] = np.fromiter(map(crc32, columns["body"].tolist()), np.uint32, count) & CRC_MASK
    records["flag"] = columns["flag"]
    records["queue_offset"] = np.arange(queue.next_offset, queue.next_offset + count)
    records["physical"] = physical
    records["body"] = columns["body"]
    records["own"] = columns["own"]
    units = np.empty(count, UNITS)
    units["offset"] = physical
    units["size"] = total
    units["tags"] = code
    return Encoded(bytes(encoded), units.tobytes(), physical.tolist(), own, own_size, joined)


def _is_uniform(columns: np.ndarray[Any, np.dtype[np.void]], entries: bytes, own_size: int) -> bool:
    """True when every entry has the first one's sizes."""
    count = len(columns)
    return (
        columns["size"].tobytes() == entries[: I32.size] * count
        and columns["body_size"].tobytes() == entries[BATCH_ENTRY_BODY_LENGTH_AT:BATCH_ENTRY_BODY_AT] * count
        and columns["own_size"].tobytes() == own_size.to_bytes(2, "big") * count
    )


def _all_end_properly(own: bytes, size: int, count: int) -> bool:
    """True when the properties of each entry end with a separator; ``own``: ``count`` times ``size`` bytes."""
    return not size or own[size - 1 :: size] == _SEPARATOR * count


def _without_repeats(own: bytes, size: int, count: int) -> bytes:
    """Return the first entry's properties if all entries have the same except for the value of UNIQ_KEY, else ``own``.

    In the first case names and tags can be looked up in one entry instead of in all.
    """
    first = own[:size]
    at = first.find(_UNIQUE)
    if at < 0 or (at and first[at - 1 : at] != _SEPARATOR):
        return first if own == first * count else own
    at += len(_UNIQUE)
    end = first.find(_SEPARATOR, at)
    parts = np.frombuffer(own, np.dtype([("before", f"V{at}"), ("key", f"V{end - at}"), ("behind", f"V{size - end}")]))
    if (
        parts["before"].tobytes() == first[:at] * count
        and parts["behind"].tobytes() == first[end:] * count
        and parts["key"].tobytes().isalnum()  # so that no separator hides in one of them
    ):
        return first
    return own


def _common_tags_code(own: bytes, size: int, count: int) -> int | None:
    """Return the tags code that all entries share, 0 without tags, None when they differ or columns can't tell.

    ``own``: the properties of ``count`` entries, ``size`` bytes each.
    """
    found = own.count(_TAGS)
    if not found:
        return 0
    at = own.rfind(_TAGS, 0, size)
    end = own.find(b"\x02", at, size) + 1
    if found != count or at < 0 or not end:
        return None
    start = at - 1 if at else at  # with the separator before it, so that it is not the end of a longer name
    if any(own[column::size] != own[column : column + 1] * count for column in range(start, end)):
        return None
    return tags_code_of(own[:size])


def _template(body_size: int, own_size: int, draft: Draft, place: BatchPlace) -> bytes:
    """Return a record in which zeros stand for what differs between entries; its checksum is that of the zeros."""
    empty = Draft(
        bytes(body_size), bytes(own_size) + draft.properties, draft.born_timestamp_ms, draft.born_host,
        sys_flag=draft.sys_flag,
    )  # fmt: skip
    size = place.queue.overhead_bytes + body_size + len(empty.properties)
    return b"".join(pack_record(empty, place.queue, size, 0, 0, place.store_ms, place.store_host))
