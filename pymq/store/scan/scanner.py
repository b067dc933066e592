"""Walks the commit log record by record, for recovery, rebuilding and checking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pymq.model.layout import (
    BODY_AT,
    BODY_LENGTH_AT,
    HOST_V6_EXTRA_BYTES,
    I16,
    I32,
    I64,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    PROPERTIES_LENGTH_BYTES,
    RECORD_OVERHEAD_BYTES,
    RECORD_START,
    SYS_FLAG_AT,
    host_extra_bytes,
)
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.log.log_record import Scanned, magic_positions, parse_record

if TYPE_CHECKING:
    pass

SECTOR_SIZE_BYTES = 512
PIECE_BYTES = 1 << 20  # bytes of one read
_HEAD_PIECE_BYTES = 4096  # holds most records whole
_HEAD_BYTES = BODY_AT + 2 * HOST_V6_EXTRA_BYTES  # everything before the body, with IPv6 hosts


class End(NamedTuple):
    """The end of a scan: ``offset`` is the first byte that does not belong to a good record."""

    offset: int


def read_piece(segment: Segment, at: int, size: int) -> memoryview:
    """Read as :meth:`Segment.read` does, but never through a mapping: walking a log must not fill the memory."""
    return segment.read(at, size) if segment.sealed else memoryview(segment.file.pread(at, size))


class Window:
    """A moving piece of one segment's bytes, so that neighboring records share one read.

    ``stop``: the physical offset at which the data ends, None for the segment's end.
    """

    def __init__(self, segment: Segment, piece_bytes: int = PIECE_BYTES, stop: int | None = None) -> None:
        self.segment = segment
        self.end = (segment.end if stop is None else min(stop, segment.end)) - segment.start
        self._piece_bytes = piece_bytes
        self._start = 0
        self._bytes = memoryview(b"")

    def at(self, at: int, size: int) -> tuple[memoryview, int]:
        """Return (piece, place in it) with ``size`` bytes from segment position ``at`` on, fewer only at the end.

        Raises OSError.
        """
        place = at - self._start
        if place < 0 or place + size > len(self._bytes):
            self._bytes = read_piece(self.segment, at, min(max(size, self._piece_bytes), self.end - at))
            self._start, place = at, 0
        return self._bytes, place

    def record(self, at: int, check_crc: bool) -> Scanned | None:
        """Return the record at a segment position, None as :func:`parse_record` does. Raises OSError."""
        head, place = self.at(at, min(_HEAD_BYTES, self.end - at))
        if len(head) - place < RECORD_OVERHEAD_BYTES:
            return None
        size = I32.unpack_from(head, place)[0]
        if size > self.end - at:
            return None
        # A damaged size must not cause a read of a gigabyte into memory.
        if size > self._piece_bytes and not self.lengths_add_up(at, size):
            return None
        view, place = self.at(at, size) if size > 0 else (head, place)
        return parse_record(view, place, self.segment.start + at, check_crc)

    def lengths_add_up(self, at: int, size: int) -> bool:
        """True when the lengths inside a record add up to its size; ignores those behind the window's end.

        Reads only a few bytes of the record.
        """
        head, place = self.at(at, _HEAD_BYTES)
        magic, sys_flag = I32.unpack_from(head, place + MAGIC_AT)[0], I32.unpack_from(head, place + SYS_FLAG_AT)[0]
        hosts = host_extra_bytes(sys_flag)
        body_size = I32.unpack_from(head, place + BODY_LENGTH_AT + hosts)[0]
        topic_at = BODY_AT + hosts + body_size
        if body_size < 0 or topic_at + 4 > size:
            return False
        if at + topic_at + I16.size > self.end:
            return True
        raw = bytes(read_piece(self.segment, at + topic_at, 2))
        topic_end = topic_at + (1 + raw[0] if magic == MAGIC_V1 else 2 + int.from_bytes(raw, "big", signed=True))
        if not topic_at < topic_end <= size - PROPERTIES_LENGTH_BYTES:
            return False
        if at + topic_end + PROPERTIES_LENGTH_BYTES > self.end:
            return True
        properties_size = int.from_bytes(read_piece(self.segment, at + topic_end, 2), "big", signed=True)
        return bool(topic_end + PROPERTIES_LENGTH_BYTES + properties_size == size)


def record_in(segment: Segment, offset: int) -> Scanned | None:
    """Return the record at a physical offset of the segment, its CRC unchecked, with a short read. Raises OSError."""
    return Window(segment, _HEAD_PIECE_BYTES).record(offset - segment.start, False)


def scan(
    log: CommitLog, start: int, *, check_crc: bool, torn_from: int | None = None, stop: int | None = None
) -> Iterator[Scanned | End]:
    """Yield every good record from ``start`` on, then one :class:`End`. Reads what the files hold, committed or not.

    From ``torn_from`` on a power loss may have taken single disk sectors. Reading stops at ``stop``. Raises OSError.
    """
    offset = start
    window: Window | None = None
    while (segment := log.find(offset)) is not None and (stop is None or offset < stop):
        if window is None or window.segment is not segment:
            window = Window(segment, stop=stop)
        at = offset - segment.start
        record = window.record(at, check_crc)
        if record is not None and torn_from is not None and offset >= torn_from and is_torn(record, at):
            break
        if record is not None:
            offset += record.size
            yield record
        elif is_blank(window, at):
            offset = segment.end
        else:
            break
    yield End(offset)


def could_go_on(window: Window, at: int) -> bool:
    """True when the bytes from a segment position on may begin a record or blank record that the window's end cuts off.

    The lengths and the position that are there must be right; missing ones are ignored. Raises OSError.
    """
    left, have = window.segment.end - window.segment.start - at, window.end - at
    if have < RECORD_START.size:
        return have < left
    view, place = window.at(at, min(_HEAD_BYTES, have))
    size, magic = RECORD_START.unpack_from(view, place)
    if magic == MAGIC_BLANK:
        return bool(size == left > have)
    if magic not in (MAGIC_V1, MAGIC_V2) or not max(RECORD_OVERHEAD_BYTES, have + 1) <= size <= left:
        return False
    if have >= SYS_FLAG_AT and I64.unpack_from(view, place + PHYSICAL_OFFSET_AT)[0] != window.segment.start + at:
        return False
    return have < _HEAD_BYTES or window.lengths_add_up(at, size)


def is_blank(window: Window, at: int) -> bool:
    """True when the blank record that ends a segment stands at the position. Raises OSError."""
    left = window.segment.end - window.segment.start - at
    if left < RECORD_START.size or left != window.end - at:
        return False
    view, place = window.at(at, RECORD_START.size)
    return len(view) - place >= RECORD_START.size and tuple(RECORD_START.unpack_from(view, place)) == (
        left,
        MAGIC_BLANK,
    )


def is_torn(record: Scanned, at: int) -> bool:
    """True when a disk sector of the properties was never written, or not to its end: it ends with a zero.

    The CRC covers the body and the lengths prove head and topic, so only damaged properties could go unnoticed. A slave
    gets a record in pieces, so the disk may have the begin of a sector. Brokers end the properties with a separator, so
    a zero there does not belong to a value.
    """
    if b"\0" not in record.properties:
        return False
    start = at + record.size - len(record.properties)
    end = at + record.size
    while start < end:
        stop = min(start - start % SECTOR_SIZE_BYTES + SECTOR_SIZE_BYTES, end)
        share = record.properties[len(record.properties) - (end - start) :][: stop - start]
        if share.endswith(b"\0"):
            return True
        start = stop
    return False


def find_later_record(log: CommitLog, start: int, not_before_ms: int) -> Scanned | None:
    """Return the first whole record behind a damaged place, None when there is none. Checks CRC and position.

    Skips records older than ``not_before_ms``: they are remains of a log that was truncated there before. Raises
    OSError.
    """
    offset = start
    while (segment := log.find(offset)) is not None:
        window = Window(segment)
        size = segment.end - segment.start
        at = segment.file.next_data(offset - segment.start)
        while at is not None and at < size:
            piece = bytes(read_piece(segment, at, PIECE_BYTES + 3))
            for hit in magic_positions(piece):
                record_at = at + hit - MAGIC_AT
                if record_at + segment.start < start or record_at < 0:
                    continue
                record = window.record(record_at, True)
                if record is not None and record.store_ms >= not_before_ms:
                    return record
            at = segment.file.next_data(at + PIECE_BYTES) if at + PIECE_BYTES < size else None
        offset = segment.end
    return None
