"""Tells a whole record that can't be read from one that a power loss tore.

A disk that lost power may lack any page that was not synced, and nothing that was acknowledged is behind such a hole. A
record that is only unreadable is no hole: what follows it was written and acknowledged as usual.
"""

from __future__ import annotations

import struct

from pymq.model.layout import (
    BODY_AT,
    BODY_CRC_AT,
    BODY_LENGTH_AT,
    I32,
    I64,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    RECORD_OVERHEAD_BYTES,
    RECORD_START,
    SYS_FLAG_AT,
    host_extra_bytes,
)
from pymq.model.record import body_crc
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.scan.scanner import read_piece

_HEAD_BYTES = BODY_AT + host_extra_bytes(-1)
_ZEROS_MAX = 2  # bytes that may be zero behind the body: one in each of the lengths of topic and properties


def are_whole(log: CommitLog, start: int, end: int) -> bool:
    """Return True when nothing but whole records stands between two offsets of the log, readable or not.

    Such a record has its place and its size in its head, a body with the right checksum, and no NUL in what follows
    but its lengths: an unwritten sector would be zeros. Raises OSError.
    """
    segment = log.find(start)
    if segment is None or end > segment.end:
        return False
    while start < end:
        size = _whole_size(segment, start, end)
        if size is None:
            return False
        start += size
    return start == end


def _whole_size(segment: Segment, start: int, end: int) -> int | None:
    """Return the size of the whole record at ``start``; None when it is not whole, or doesn't end before ``end``."""
    at = start - segment.start
    head = bytes(read_piece(segment, at, min(_HEAD_BYTES, end - start)))
    try:
        size, magic = RECORD_START.unpack_from(head)
        (crc,) = I32.unpack_from(head, BODY_CRC_AT)
        (physical,) = I64.unpack_from(head, PHYSICAL_OFFSET_AT)
        hosts = host_extra_bytes(I32.unpack_from(head, SYS_FLAG_AT)[0])
        (body_size,) = I32.unpack_from(head, BODY_LENGTH_AT + hosts)
    except struct.error:
        return None
    body_at = BODY_AT + hosts
    if magic not in (MAGIC_V1, MAGIC_V2) or physical != start or not RECORD_OVERHEAD_BYTES <= size <= end - start:
        return None
    if not 0 <= body_size <= size - body_at or body_crc(read_piece(segment, at + body_at, body_size)) != crc:
        return None
    rest = bytes(read_piece(segment, at + body_at + body_size, size - body_at - body_size))
    return size if rest.count(0) <= _ZEROS_MAX and not rest.endswith(b"\0") else None
