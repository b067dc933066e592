"""WindowReader: decides which bytes of the log one read fetches, a window around the records that are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from pymq.errors import CorruptRecordError
from pymq.model.layout import RECORD_PLACE
from pymq.store.integrity.checked_read import Window, read_window
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.read.prefilter_cache import PrefilterCache

Unit = tuple[int, int, int]  # physical offset, record size, tags code
NO_WINDOW: Window = (memoryview(b""), 0, 0, None)

# Measured with a warm page cache: a separate read costs as much as copying and comparing 16 KiB that are not wanted.
GAP_BYTES_MAX = 16_384
CHUNK_SHIFT = 16
CHUNK_BYTES = 1 << CHUNK_SHIFT
CHUNK_COUNT_MAX = 256  # 16 MiB
RUN_PROBE_COUNT = 64  # records that are looked at before all of them
_LARGE_BYTES = 1 << 20  # a unit of a larger record is compared with the record's head first


class WindowReader:
    """Reads the log for queues.

    It fetches records that follow each other together. A queue's records lie far apart when many queues share the log;
    then readers of the other queues soon want the bytes between them. So a chunk of the log that is wanted a second
    time is kept.
    """

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.chunks: dict[int, Window] = {}  # by physical offset >> CHUNK_SHIFT
        self.prefilter_cache = PrefilterCache()
        self.batch_buffer = bytearray()  # of pymq.store.read.record_batch, empty before its first use
        self._seen: dict[int, None] = {}

    def window(self, segment: Segment, units: Sequence[Unit], number: int, bytes_left: int) -> Window:
        """The part of the log that holds the record of unit ``number``, and those of the next units when they are near.

        ``bytes_left``: the read returns no records beyond it. Raises UnreadableError, and CorruptRecordError for a
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
        """Raise CorruptRecordError when unit and record disagree: a damaged unit must not cost a read of a gigabyte."""
        data, data_start, _, _ = read_window(self.log, segment, start, start + RECORD_PLACE.size)
        if RECORD_PLACE.unpack_from(data, start - data_start)[0] != size:
            raise CorruptRecordError(start, "a consume queue unit has another size than its record")

    def _chunk(self, segment: Segment, start: int, end: int, reach: int) -> Window | None:
        """The chunk that holds a record; None at the log's end, and for a record that lies in two chunks.

        Also None the first time, unless a read up to ``reach`` would fetch most of the chunk anyway.
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
        # The newest segment is mapped, so its bytes could change after the comparison: keep a copy.
        return (data if segment.sealed else memoryview(bytes(data)), start, end, None)


def _bound(table: dict[int, Window] | dict[int, None], count_max: int) -> None:
    if len(table) > count_max:
        del table[next(iter(table))]


def _run_end(units: Sequence[Unit], number: int, bytes_left: int) -> int:
    """Where a read should end when the next record follows at once: mostly at the last record."""
    last = len(units) - 1
    # A batch of a queue that shares the log is a short run: most lists of units need not be summed to the end.
    is_run = _are_adjacent(units, number, min(number + RUN_PROBE_COUNT, last)) and _are_adjacent(units, number, last)
    offset, size, _ = units[last]
    if is_run and offset - units[number][0] <= bytes_left - size:
        return offset + max(size, 0)
    return _reach(units, number, bytes_left)


def _are_adjacent(units: Sequence[Unit], first: int, last: int) -> bool:
    """True when the records from unit ``first`` to unit ``last`` follow each other without gaps."""
    return units[last][0] - units[first][0] == sum([unit[1] for unit in islice(units, first, last)])


def _reach(units: Sequence[Unit], number: int, bytes_left: int) -> int:
    """Where a read should end: it takes in the next record while the gap is small and the record is returned."""
    start, size, _ = units[number]
    end = start + size
    left = bytes_left - size
    for offset, size, _ in islice(units, number + 1, None):
        left -= size
        if size < 0 or not 0 <= offset - end <= GAP_BYTES_MAX or left < 0:
            break
        end = offset + size
    return end
