"""Which bytes of the log one read fetches: a window around the records at hand, whole blocks, compared with digests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from pymq.errors import CorruptRecordError, NotFoundError, UnreadableError
from pymq.model.record import MAGIC_V1, MAGIC_V2, RECORD_OVERHEAD_BYTES
from pymq.store.commit_log import RECORD_HEAD, CommitLog, Segment
from pymq.store.damage import Doubts
from pymq.store.digest_file import BLOCK_SIZE_BYTES

Unit = tuple[int, int, int]  # physical offset, record size, tags code

# Measured with a warm page cache: a read of its own costs as much as copying and comparing 8 KiB that nobody wanted.
GAP_BYTES_MAX = 8192
_FIRST_READ_BYTES = 4096  # holds most records whole
SPAN_BYTES_MAX = 65_536  # records that lie within this are fetched at once, whatever lies between them


class CheckedWindow(NamedTuple):
    """Bytes ``start`` to ``end`` (physical offsets) of the log. ``doubts`` is None when they are as written."""

    data: memoryview
    start: int
    end: int
    doubts: Doubts | None


NO_WINDOW = CheckedWindow(memoryview(b""), 0, 0, None)


def window_end(units: Sequence[Unit], number: int, bytes_left: int) -> int:
    """How far one read should go that begins with record ``number`` of a queue: further when the next ones are near.

    ``bytes_left``: records beyond it will not be returned.
    """
    start, size, _ = units[number]
    last, last_size, _ = units[-1]
    end = start + size
    if size <= last + last_size - start <= SPAN_BYTES_MAX:
        return last + last_size
    left = bytes_left - size
    for offset, size, _ in islice(units, number + 1, None):
        left -= size
        if not 0 <= offset - end <= GAP_BYTES_MAX or left < 0:
            break
        end = offset + size
    return end


def read_window(log: CommitLog, segment: Segment, start: int, end: int) -> CheckedWindow:
    """Physical offsets ``start`` to ``end`` of a segment, widened to whole blocks. Raises UnreadableError."""
    base = segment.start
    at = (start - base) // BLOCK_SIZE_BYTES * BLOCK_SIZE_BYTES
    to = min(-(-(end - base) // BLOCK_SIZE_BYTES) * BLOCK_SIZE_BYTES, segment.end - base)
    try:
        data = segment.read(at, to - at)
        doubts = log.guard.check(segment, data, at) if log.guard is not None else None
    except OSError as error:
        raise UnreadableError(
            f"{segment.file.path} can't be read at {at}: {error.strerror} (errno {error.errno}); messages elsewhere "
            f"are served; mend the disk, or go on behind this message"
        ) from error
    segment.note_read(to - at, log.resident_bytes_max)
    return CheckedWindow(data, base + at, base + to, doubts)


def read_record(log: CommitLog, offset: int) -> memoryview:
    """The record that starts at a physical offset, as it was written.

    Raises NotFoundError outside the log, CorruptRecordError when no whole record of this position is there or it was
    damaged, UnreadableError when the disk fails.
    """
    segment = log.find(offset)
    if segment is None or offset >= log.max_offset:
        raise NotFoundError(f"the log holds {log.min_offset} to {log.max_offset}, not offset {offset}")
    room = min(segment.end, log.max_offset) - offset
    window = read_window(log, segment, offset, offset + min(room, _FIRST_READ_BYTES))
    at = offset - window.start
    if room < RECORD_OVERHEAD_BYTES:
        raise CorruptRecordError(offset, f"no message record starts at offset {offset}")
    size, magic, _, _, physical_offset = RECORD_HEAD.unpack_from(window.data, at)
    fits = RECORD_OVERHEAD_BYTES <= size <= room
    if magic not in (MAGIC_V1, MAGIC_V2) or not fits or physical_offset != offset:
        error = CorruptRecordError(offset, f"no message record starts at offset {offset}, or it is corrupt")
        if window.doubts is not None and window.doubts.touch(offset, offset + RECORD_OVERHEAD_BYTES):
            log.on_corrupt(error)  # an offset that somebody made up counts for nothing
        raise error
    if offset + size > window.end:
        window = read_window(log, segment, offset, offset + size)
        at = offset - window.start
    record = window.data[at : at + size]
    if window.doubts is not None and window.doubts.refuse(record, offset):
        error = CorruptRecordError(offset, f"the record at offset {offset} is corrupt: its bytes are not those written")
        log.on_corrupt(error)
        raise error
    return record
