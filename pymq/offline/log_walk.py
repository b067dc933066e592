"""Walks a log file by file in windows of bounded size: blocks of good records, damaged ranges, and the log's end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from pymq.model.layout import (
    BODY_AT,
    BODY_CRC_AT,
    BOTH_LENGTHS_BYTES,
    CRC_MASK,
    HEAD_TO_SYS_FLAG,
    I16,
    I32,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    PROPERTIES_LENGTH_BYTES,
    RECORD_MAGICS,
    RECORD_OVERHEAD_BYTES,
    RECORD_START,
    SYS_FLAG_AT,
    TOPIC_LENGTH_BYTES,
    host_extra_bytes,
)
from pymq.offline.log_files import LogFiles, SegmentFile
from pymq.store.log.log_record import Scanned, magic_positions, parse_record

WINDOW_BYTES = 4 << 20
# No broker takes longer records: frames end at 16 MiB in RocketMQ and PyMQ. A larger size is damage, and is not read.
RECORD_BYTES_MAX = 64 << 20
CRC_PROPERTY = b"__CRC32#\x01"
_CRC_PROPERTY_BYTES = 20


class Block(NamedTuple):
    """Good records of one window; ``view[record.offset - base]`` is a record's first byte."""

    segment: SegmentFile
    view: memoryview
    base: int
    records: list[Scanned]


class Damaged(NamedTuple):
    """A range from ``start`` to ``end`` (physical) without a good record, but with good ones after it.

    ``at`` is the first bad byte.
    """

    start: int
    end: int
    at: int
    reason: str


class LogEnd(NamedTuple):
    """The end of the last good record. ``remains_at`` is the offset of nonzero bytes after it, if there are any."""

    offset: int
    remains_at: int | None
    reason: str


Step = Block | Damaged | LogEnd


def walk(log: LogFiles, start: int | None = None, *, check_crc: bool = True, last_ms: int = 0) -> Iterator[Step]:
    """Yield all steps from ``start`` on (default: the log's start), with one :class:`LogEnd` last. Raises OSError.

    ``last_ms`` is the store time before ``start``, if it is known: an older record does not continue the log.
    """
    return _Walk(log, log.start if start is None else start, check_crc, last_ms).run()


def record_bytes(log: LogFiles, offset: int, size: int) -> bytes:
    """Return ``size`` bytes at a physical offset; empty where there is no file."""
    segment = log.find(offset)
    return segment.read(offset - segment.start, size) if segment is not None and size > 0 else b""


def record_at(log: LogFiles, offset: int, *, check_crc: bool = False) -> Scanned | None:
    """Return the record that starts at a physical offset, None when there is no good one."""
    head = record_bytes(log, offset, RECORD_START.size)
    if len(head) < RECORD_START.size:
        return None
    size, magic = RECORD_START.unpack(head)
    if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_OVERHEAD_BYTES <= size <= RECORD_BYTES_MAX:
        return None
    return parse_record(memoryview(record_bytes(log, offset, size)), 0, offset, check_crc)


class _Walk:
    def __init__(self, log: LogFiles, start: int, check_crc: bool, last_ms: int = 0) -> None:
        self._log = log
        self._offset = start
        self._check_crc = check_crc
        self._last_ms = last_ms

    def run(self) -> Iterator[Step]:
        while True:
            segment = self._log.find(self._offset)
            if segment is None:
                following = next((s for s in self._log.segments if s.start > self._offset), None)
                if following is None:
                    yield LogEnd(self._offset, None, "the last segment is full")
                    return
                yield Damaged(self._offset, following.start, self._offset, "the segment's file is missing")
                self._offset = following.start
                continue
            yield from self._records(segment)
            if self._offset >= segment.end:
                continue
            at = self._offset - segment.start
            if _is_blank(segment, at):
                self._offset = segment.end
                continue
            step = self._damage_or_end(segment, at)
            yield step
            if isinstance(step, LogEnd):
                return
            self._offset = step.end

    def _records(self, segment: SegmentFile) -> Iterator[Block]:
        """Yield blocks of good records up to the first bytes in the segment that are not one."""
        window = WINDOW_BYTES
        while self._offset < segment.end:
            base = self._offset
            view = memoryview(segment.read(base - segment.start, window))
            records = self._parse(view, base)
            if records:
                # The earlier of the last two: one record with a damaged time must not make all later ones look old.
                self._last_ms = min([self._last_ms, *[r.store_ms for r in records[-2:]]][-2:])
                yield Block(segment, view, base, records)
            rest = view[self._offset - base :]
            missing = self._offset + len(rest) < segment.end
            if records and missing:
                window = WINDOW_BYTES
                continue
            needed = (
                I32.unpack_from(rest)[0]
                if missing and len(rest) >= RECORD_START.size and rest[MAGIC_AT:BODY_CRC_AT] in RECORD_MAGICS
                else 0
            )
            if not len(rest) < needed <= RECORD_BYTES_MAX:
                return
            window = needed  # one long record

    def _parse(self, view: memoryview, base: int) -> list[Scanned]:
        records = []
        offset, check = self._offset, self._check_crc
        while True:
            record = parse_record(view, offset - base, offset, check)
            if record is None:
                break
            if check and CRC_PROPERTY in record.properties and not property_crc_fits(view, offset - base, record):
                break
            records.append(record)
            offset += record.size
        self._offset = offset
        return records

    def _damage_or_end(self, segment: SegmentFile, at: int) -> Damaged | LogEnd:
        """Decide what a place without a good record is: damage with good records after it, or the log's end."""
        offset = segment.start + at
        bad_at, reason = explain(segment, at)
        later = self._later_record(segment, at)
        if later is not None:
            return Damaged(offset, later, offset + bad_at, reason)
        for candidate in self._log.segments[self._log.segments.index(segment) :]:
            dirty = candidate.first_nonzero(at if candidate is segment else 0)
            if dirty is not None:
                return LogEnd(offset, candidate.start + dirty, reason)
        return LogEnd(offset, None, "only zeros follow")

    def _later_record(self, segment: SegmentFile, at: int) -> int | None:
        """Return where good records continue; a segment's end when they continue at the next one's first byte.

        Remains of a truncated log can only lie in its last segment, because truncation removes the later ones. There, a
        record that is older than the last good one does not count.
        """
        following = [other for other in self._log.segments if other.start > segment.start]
        goes_on = [other for other in following if record_at(self._log, other.start, check_crc=True) is not None]
        if segment.start + at < self._log.vouched_end:
            # As a start decides: what the checkpoint vouches for is no remains, however old it looks.
            found = _search(segment, at, 0)
            if found is not None and found < self._log.vouched_end:
                return found
        found = _search(segment, at, 0 if goes_on else self._last_ms)
        if found is not None:
            return found
        if goes_on:
            return segment.end
        # A following segment may have lost its first record.
        for other in following:
            found = _search(other, 0, self._last_ms)
            if found is not None:
                return segment.end
        return None


def _search(segment: SegmentFile, at: int, not_before_ms: int) -> int | None:
    """Return the offset of the first whole record after position ``at``, found by its magic, position and CRC."""
    position = segment.first_nonzero(at)
    first = at + 1
    while position is not None:
        chunk = segment.read(position, WINDOW_BYTES)
        for hit in magic_positions(chunk):
            start = position + hit - MAGIC_AT
            if start < first:
                continue
            record = _whole_record(segment, start)
            if record is not None and record.store_ms >= not_before_ms:
                return record.offset
        if position + len(chunk) >= segment.size:
            return None
        # A magic may lie across the chunk's end.
        position = segment.first_nonzero(position + len(chunk) - 3)
    return None


def _whole_record(segment: SegmentFile, at: int) -> Scanned | None:
    head = segment.read(at, HEAD_TO_SYS_FLAG.size)
    if len(head) < HEAD_TO_SYS_FLAG.size:
        return None
    size, _, _, _, _, _, physical, _ = HEAD_TO_SYS_FLAG.unpack(head)
    if physical != segment.start + at or not RECORD_OVERHEAD_BYTES <= size <= RECORD_BYTES_MAX:
        return None
    view = memoryview(segment.read(at, size))
    record = parse_record(view, 0, segment.start + at, True)
    return record if record is not None and property_crc_fits(view, 0, record) else None


def _is_blank(segment: SegmentFile, at: int) -> bool:
    raw = segment.read(at, RECORD_START.size)
    return len(raw) == RECORD_START.size and RECORD_START.unpack(raw) == (segment.size - at, MAGIC_BLANK)


def property_crc_fits(view: memoryview, at: int, record: Scanned) -> bool:
    """Return False when RocketMQ's CRC over the whole record is present and wrong (Java: enabledAppendPropCRC)."""
    if CRC_PROPERTY not in record.properties:
        return True
    tail = record.properties[-_CRC_PROPERTY_BYTES:]
    if not tail.startswith(CRC_PROPERTY) or not tail[9:19].isdigit():
        return True  # a producer's property of that name
    # Ten digits, the least significant first.
    covered = view[at : at + record.size - _CRC_PROPERTY_BYTES]
    return crc32(covered) & CRC_MASK == int(tail[9:19][::-1])


def explain(segment: SegmentFile, at: int) -> tuple[int, str]:
    """Return (distance from ``at``, text) for the first byte that spoils a record: where it is and what is wrong."""
    head = segment.read(at, HEAD_TO_SYS_FLAG.size)
    left = segment.size - at
    if not any(head):
        return 0, "zeros where a record should start"
    if len(head) < HEAD_TO_SYS_FLAG.size:
        return 0, f"{left} bytes are left: too few for a record, and not a blank"
    size, magic, crc, _, _, _, physical, sys_flag = HEAD_TO_SYS_FLAG.unpack(head)
    if magic == MAGIC_BLANK:
        return 0, f"a blank of {size} bytes, but {left} are left in the segment"
    if magic not in (MAGIC_V1, MAGIC_V2):
        return MAGIC_AT, f"magic {magic & 0xFFFFFFFF:08x}, a record has {MAGIC_V1 & 0xFFFFFFFF:08x}"
    if not RECORD_OVERHEAD_BYTES <= size <= min(left, RECORD_BYTES_MAX):
        return 0, f"size {size}, a record here has {RECORD_OVERHEAD_BYTES} to {min(left, RECORD_BYTES_MAX)} bytes"
    if physical != segment.start + at:
        return PHYSICAL_OFFSET_AT, f"the record says physical offset {physical} but is at {segment.start + at}"
    return _explain_parts(memoryview(segment.read(at, size)), magic, crc, sys_flag)


def _explain_parts(view: memoryview, magic: int, crc: int, sys_flag: int) -> tuple[int, str]:
    size = len(view)
    body_at = BODY_AT + host_extra_bytes(sys_flag)
    if body_at > size:
        return SYS_FLAG_AT, f"sysFlag {sys_flag:#x} says IPv6 hosts, for which {size} bytes are too few"
    body_size = I32.unpack_from(view, body_at - I32.size)[0]
    topic_at = body_at + body_size
    if body_size < 0 or topic_at + BOTH_LENGTHS_BYTES > size:
        return body_at - I32.size, f"body length {body_size} in a record of {size} bytes"
    topic_size, topic_start = view[topic_at], topic_at + TOPIC_LENGTH_BYTES
    if magic == MAGIC_V2:
        topic_size, topic_start = I16.unpack_from(view, topic_at)[0], topic_at + I16.size
    properties_at = topic_start + topic_size + PROPERTIES_LENGTH_BYTES
    found = -1
    if topic_size >= 0 and properties_at <= size:
        found = int.from_bytes(view[properties_at - PROPERTIES_LENGTH_BYTES : properties_at], "big", signed=True)
    if found < 0 or properties_at + found != size:
        return topic_at, f"topic length {topic_size} and properties length {found} don't add up to {size} bytes"
    if crc32(view[body_at:topic_at]) & CRC_MASK != crc:
        return body_at, f"the body's CRC is {crc32(view[body_at:topic_at]) & CRC_MASK:08x}, the record says {crc:08x}"
    try:
        topic = str(view[topic_start : topic_start + topic_size], "utf-8")
    except UnicodeDecodeError:
        return topic_start, "the topic is not UTF-8"
    if "\0" in topic:
        return topic_start, "the topic holds a zero byte"
    return size - _CRC_PROPERTY_BYTES, "the CRC over the whole record (__CRC32#) does not fit"


def last_record(segment: SegmentFile, end: int) -> Scanned | None:
    """Return the last whole record before position ``end``, searched for in one window; None when there is none."""
    end = min(end, segment.size)
    base = max(0, end - WINDOW_BYTES)
    chunk = segment.read(base, end - base) if end > 0 else b""
    for hit in reversed(magic_positions(chunk)):
        record = _whole_record(segment, base + hit - MAGIC_AT) if base + hit >= MAGIC_AT else None
        if record is not None and record.offset + record.size <= segment.start + end:
            return record
    return None
