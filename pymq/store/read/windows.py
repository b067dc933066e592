"""Which bytes of the log one read fetches: a window around the records at hand, whole blocks, compared with digests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from pymq.errors import CorruptRecordError, NotFoundError, UnreadableError
from pymq.model.layout import MAGIC_V1, MAGIC_V2, RECORD_OVERHEAD_BYTES, RECORD_PLACE
from pymq.store.integrity.damage import Doubts
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.read.prefilter_cache import Memory

Unit = tuple[int, int, int]  # physical offset, record size, tags code
# Bytes, the physical offsets of their begin and end, and doubts about them: None when they are as written.
Window = tuple[memoryview, int, int, Doubts | None]
NO_WINDOW: Window = (memoryview(b""), 0, 0, None)

# Measured with a warm page cache: a read of its own costs as much as copying and comparing 16 KiB that nobody wanted.
GAP_BYTES_MAX = 16_384
CHUNK_SHIFT = 16
CHUNK_BYTES = 1 << CHUNK_SHIFT
CHUNK_COUNT_MAX = 256  # 16 MiB
_LARGE_BYTES = 1 << 20  # a unit that promises a larger record is compared with the record's head first
_FIRST_READ_BYTES = 4096  # holds most records whole


class WindowReader:
    """Reads the log for queues.

    Records that follow each other are fetched together. When a queue's records lie far apart, because many queues share
    the log, the next queue's reader will want the same neighbourhood: a piece of the log that is asked for a second
    time is kept for others.
    """

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.chunks: dict[int, Window] = {}  # by physical offset >> CHUNK_SHIFT
        self.memory = Memory()
        self.batch = bytearray()  # where pymq.store.read.record_batch lays records; empty before it is used
        self._seen: dict[int, None] = {}

    def window(self, segment: Segment, units: Sequence[Unit], number: int, bytes_left: int) -> Window:
        """The part of the log that holds the record of unit ``number``, and the next ones when they are near.

        ``bytes_left``: records beyond it will not be returned. Raises UnreadableError, and CorruptRecordError for a
        unit whose size can't be true.
        """
        start, size, _ = units[number]
        end = start + size
        if size > _LARGE_BYTES:
            self._check_size(segment, start, size)
        if number + 1 < len(units):
            if units[number + 1][0] == end:
                end = _run_end(units, number, bytes_left)
            else:
                reach = _reach(units, number, bytes_left)
                chunk = self._chunk(segment, start, end, reach)
                if chunk is not None:
                    return chunk
                if (end - 1) >> CHUNK_SHIFT not in self.chunks:
                    end = reach
        return read_window(self.log, segment, start, end)

    def _check_size(self, segment: Segment, start: int, size: int) -> None:
        """A damaged unit must not make us read, and hold, a gigabyte."""
        data, data_start, _, _ = read_window(self.log, segment, start, start + RECORD_PLACE.size)
        if RECORD_PLACE.unpack_from(data, start - data_start)[0] != size:
            raise CorruptRecordError(start, "a consume queue unit has another size than its record")

    def _chunk(self, segment: Segment, start: int, end: int, reach: int) -> Window | None:
        """The kept piece that holds a record; None at the log's end and across pieces.

        And None the first time, unless a read up to ``reach`` would fetch most of the piece anyway.
        """
        key = start >> CHUNK_SHIFT
        chunk = self.chunks.get(key)
        if chunk is None:
            if key not in self._seen and 2 * (min(reach, (key + 1) << CHUNK_SHIFT) - start) < CHUNK_BYTES:
                self._seen[key] = None
                _bound(self._seen, CHUNK_COUNT_MAX)
                return None
            chunk = self._load(segment, key << CHUNK_SHIFT)
            if chunk is None:
                return None
            self.chunks[key] = chunk
            _bound(self.chunks, CHUNK_COUNT_MAX)
        return chunk if chunk[1] <= start and end <= chunk[2] else None

    def _load(self, segment: Segment, start: int) -> Window | None:
        end = min(start + CHUNK_BYTES, segment.end)
        if end > self.log.max_offset:
            return None
        data, start, end, doubts = read_window(self.log, segment, max(start, segment.start), end)
        if doubts is not None:
            return None
        # The newest segment's bytes come as a map: a copy stays as it was compared.
        return (data if segment.sealed else memoryview(bytes(data)), start, end, None)


def _bound(table: dict[int, Window] | dict[int, None], count_max: int) -> None:
    if len(table) > count_max:
        del table[next(iter(table))]


def _run_end(units: Sequence[Unit], number: int, bytes_left: int) -> int:
    """How far one read should go for a record that the next one follows: mostly to the last of them at once."""
    start, _, _ = units[number]
    last, last_size, _ = units[-1]
    if last - start == sum([unit[1] for unit in islice(units, number, len(units) - 1)]) <= bytes_left - last_size:
        return last + max(last_size, 0)
    return _reach(units, number, bytes_left)


def _reach(units: Sequence[Unit], number: int, bytes_left: int) -> int:
    """How far one read should go: to the next record while the gap is small and the record will be returned."""
    start, size, _ = units[number]
    end = start + size
    left = bytes_left - size
    for offset, size, _ in islice(units, number + 1, None):
        left -= size
        if size < 0 or not 0 <= offset - end <= GAP_BYTES_MAX or left < 0:
            break
        end = offset + size
    return end


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
