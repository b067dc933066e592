"""Packs plain records: hosts are IPv4, so the head has one layout. Ways to stage a message pack it here.

:meth:`~pymq.store.write.plain_stager.PlainStager.stage` alone has the same head written out, because a call costs a
plain send 3 %. A property test holds the bytes equal to :func:`pymq.model.record.encode_record`, which packs any
record.
"""

from __future__ import annotations

import struct
from zlib import crc32

from pymq.model.draft import Draft
from pymq.model.layout import (
    CRC_MASK,
    HEAD_V4,
    HEAD_V4_MIDDLE,
    PROPERTIES_SIZE_MAX_BYTES,
    SYS_FLAG_V4_MASK,
)
from pymq.model.record import numbers_error
from pymq.store.queue.batch_queue import AnyQueue

Parts = tuple[bytes, bytes | memoryview, bytes, bytes, bytes]

I16 = [n.to_bytes(2, "big") for n in range(PROPERTIES_SIZE_MAX_BYTES + 1)]  # lengths of property areas
_pack_head = HEAD_V4.pack


def pack_record(
    draft: Draft, queue: AnyQueue, size: int, queue_offset: int, at: int, store_ms: int, store_host: bytes
) -> Parts:
    """Return the parts of a record of ``size`` bytes at physical offset ``at``. ``store_ms``: Unix ms.

    The properties have a length that a record can have. Raises DoesNotFitError for a number that its field can't hold.
    """
    body, properties = draft.body, draft.properties
    try:
        head = _pack_head(
            size, queue.magic, crc32(body) & CRC_MASK, queue.queue_id, draft.flag, queue_offset, at,
            draft.sys_flag & SYS_FLAG_V4_MASK, draft.born_timestamp_ms, draft.born_host, store_ms, store_host,
            draft.reconsume_times, draft.prepared_transaction_offset, len(body),
        )  # fmt: skip
    except struct.error as error:
        raise numbers_error(error) from error
    return head, body, queue.topic_part, I16[len(properties)], properties


def pack_middle(draft: Draft, store_ms: int, store_host: bytes) -> bytes:
    """Return what stands between physical offset and body length in each record of a batch like ``draft``.

    Raises struct.error for a number that its field can't hold.
    """
    return HEAD_V4_MIDDLE.pack(
        draft.sys_flag & SYS_FLAG_V4_MASK, draft.born_timestamp_ms, draft.born_host, store_ms, store_host,
        draft.reconsume_times, draft.prepared_transaction_offset,
    )  # fmt: skip
