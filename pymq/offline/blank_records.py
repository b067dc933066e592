"""Replaces damage in a repaired log by records and blanks that every broker skips.

RocketMQ ends its log at the first bad record and skips nothing. So a damaged range becomes whole records again, of the
transaction type "rolled back", which neither broker shows in a queue or in the index. A range at the segment's end
ends in a blank. All other records stay where they are.
"""

from __future__ import annotations

import json

from pymq.model import sysflag
from pymq.model.layout import BLANK_SIZE_BYTES, RECORD_OVERHEAD_BYTES
from pymq.model.names import REPAIR_TOPIC
from pymq.model.record import encode_blank, encode_record

BLANK_RECORD_TOPIC = REPAIR_TOPIC.encode()
BLANK_RECORD_BYTES_MIN = RECORD_OVERHEAD_BYTES + 1
BLANK_RECORD_BYTES_MAX = 1 << 20  # RocketMQ reads a record into memory at once
_HOST = b"\x7f\x00\x00\x01\x00\x00\x00\x00"


def blank_record(offset: int, size: int, store_ms: int, lost: tuple[int, int]) -> bytes:
    """Return a record of ``size`` bytes for physical offset ``offset``; its body names the lost range, if it fits."""
    assert BLANK_RECORD_BYTES_MIN <= size <= BLANK_RECORD_BYTES_MAX
    topic = BLANK_RECORD_TOPIC[: size - RECORD_OVERHEAD_BYTES]
    room = size - RECORD_OVERHEAD_BYTES - len(topic)
    text = json.dumps({"lost_from": lost[0], "lost_to": lost[1]}).encode()
    return encode_record(
        topic=topic,
        queue_id=0,
        queue_offset=0,
        physical_offset=offset,
        body=(text if len(text) <= room else b"").ljust(room),
        properties=b"",
        flag=0,
        sys_flag=sysflag.TRANSACTION_ROLLBACK,
        born_timestamp_ms=store_ms,
        born_host=_HOST,
        store_timestamp_ms=store_ms,
        store_host=_HOST,
    )


def fill(start: int, end: int, segment_end: int, store_ms: int) -> list[tuple[int, bytes]]:
    """Return (physical offset, bytes) of all parts that make ``start`` to ``end`` of one segment readable.

    A range inside the segment needs :data:`BLANK_RECORD_BYTES_MIN`, one at its end :data:`BLANK_SIZE_BYTES`.
    """
    lost = (start, end)
    parts: list[tuple[int, bytes]] = []
    at = start
    if end == segment_end:
        # One record first: RocketMQ reads the first record of a segment to find out its age.
        first = min(BLANK_RECORD_BYTES_MIN + 64, end - at - BLANK_SIZE_BYTES)
        if first >= BLANK_RECORD_BYTES_MIN:
            parts.append((at, blank_record(at, first, store_ms, lost)))
            at += first
        assert end - at >= BLANK_SIZE_BYTES
        parts.append((at, encode_blank(end - at)))
        return parts
    while at < end:
        size = min(end - at, BLANK_RECORD_BYTES_MAX)
        if 0 < end - at - size < BLANK_RECORD_BYTES_MIN:
            size -= BLANK_RECORD_BYTES_MIN
        parts.append((at, blank_record(at, size, store_ms, lost)))
        at += size
    return parts
