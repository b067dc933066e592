"""Reads the log in whole blocks and compares them with their digests, so that no damaged record is served."""

from __future__ import annotations

from pymq.errors import CorruptRecordError, NotFoundError, UnreadableError
from pymq.model import sysflag
from pymq.model.layout import (
    HOST_V6_EXTRA_BYTES,
    I32,
    I64,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_OVERHEAD_BYTES,
    RECORD_PLACE,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
)
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.log.doubts import Doubts

# Bytes, the physical offsets of their start and end, and doubts about them: None when they are as written.
Window = tuple[memoryview, int, int, Doubts | None]
_FIRST_READ_BYTES = 4096  # holds most records whole


def read_window(log: CommitLog, segment: Segment, start: int, end: int) -> Window:
    """Physical offsets ``start`` to ``end`` of a segment, widened to whole blocks. Raises UnreadableError."""
    base = segment.start
    at = (start - base) // BLOCK_SIZE_BYTES * BLOCK_SIZE_BYTES
    to = min(-(-(end - base) // BLOCK_SIZE_BYTES) * BLOCK_SIZE_BYTES, segment.end - base)
    try:
        data = segment.read(at, to - at)
        guard = log.guard
        doubts = guard.check(segment, data, at) if guard is not None else None
    except OSError as error:
        raise UnreadableError(
            f"{segment.file.path} can't be read at {at}: {error.strerror} (errno {error.errno}); messages elsewhere "
            f"are served; mend the disk, or go on behind this message"
        ) from error
    if not segment.sealed:
        segment.note_read(to - at, log.resident_bytes_max)
    return data, base + at, base + to, doubts


def read_record(log: CommitLog, offset: int) -> memoryview:
    """The record that starts at a physical offset, as it was written.

    Raises NotFoundError outside the log, CorruptRecordError when no whole record of this position is there or it was
    damaged, UnreadableError when the disk fails.
    """
    segment = log.find(offset)
    if segment is None or offset >= log.max_offset:
        raise NotFoundError(f"the log holds {log.min_offset} to {log.max_offset}, not offset {offset}")
    room = min(segment.end, log.max_offset) - offset
    if room < RECORD_OVERHEAD_BYTES:
        raise CorruptRecordError(offset, f"no message record starts at offset {offset}")
    data, start, end, doubts = read_window(log, segment, offset, offset + min(room, _FIRST_READ_BYTES))
    size, magic, _, _, physical_offset = RECORD_PLACE.unpack_from(data, offset - start)
    fits = RECORD_OVERHEAD_BYTES <= size <= room
    if magic not in (MAGIC_V1, MAGIC_V2) or not fits or physical_offset != offset:
        error = CorruptRecordError(offset, f"no message record starts at offset {offset}, or it is corrupt")
        if doubts is not None and doubts.touch(offset, offset + RECORD_OVERHEAD_BYTES):
            log.on_corrupt(error)  # an offset that somebody made up counts for nothing
        raise error
    if offset + size > end:
        data, start, end, doubts = read_window(log, segment, offset, offset + size)
    record = data[offset - start : offset - start + size]
    if doubts is not None and doubts.refuse(record, offset):
        error = CorruptRecordError(offset, f"the record at offset {offset} is corrupt: its bytes are not those written")
        log.on_corrupt(error)
        raise error
    return record


def record_store_ms(log: CommitLog, physical_offset: int) -> int:
    """Store timestamp of the record at a physical offset; -1 when no good record is there."""
    try:
        record = read_record(log, physical_offset)
    except (NotFoundError, CorruptRecordError, UnreadableError):
        return -1
    at = STORE_TIMESTAMP_AT
    if I32.unpack_from(record, SYS_FLAG_AT)[0] & sysflag.BORN_HOST_V6:
        at += HOST_V6_EXTRA_BYTES
    return I64.unpack_from(record, at)[0]  # type: ignore[no-any-return]
