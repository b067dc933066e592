"""LogScan: looks for damaged blocks of the log, the newest bytes included, and writes good ones in their place.

The scrubber reads sealed segments, at its own pace. A node of a Raft group has to know soon whether it may lead, and
others have the same bytes. A block counts as damaged when it is not as its digest says. Bytes from elsewhere take its
place only when that digest fits them.
"""

from __future__ import annotations

from collections.abc import Callable

from pymq.errors import CorruptRecordError
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES
from pymq.store.integrity.digests import RESIDENT_BYTES_MAX, Digests, block_start
from pymq.store.log.commit_log import CommitLog, Segment

SCANNED_BYTES_MAX = 1 << 30  # of the newest log that a start looks at; the rest is left to the scrubber
PLACES_MAX = 1024  # damaged blocks that are remembered, and places to look at


class LogScan:
    """The damaged blocks of one store's log. One thread calls everything. ``found``: what the scrubber found."""

    def __init__(self, log: CommitLog, digests: Digests, found: Callable[[], dict[int, int]]) -> None:
        self.damaged: dict[int, int] = {}  # physical offset of a block's begin -> of its end
        self._log = log
        self._digests = digests
        self._found = found
        self._next: int | None = None  # where the scan goes on; None before it began
        self._suspects: set[int] = set()
        note = log.on_corrupt

        def note_corrupt(error: CorruptRecordError) -> None:
            note(error)
            if len(self._suspects) < PLACES_MAX:
                self._suspects.add(error.physical_offset)

        log.on_corrupt = note_corrupt

    @property
    def is_over(self) -> bool:
        """True when all that had a digest at the last step was looked at."""
        return self._next is not None and self._next >= self._digests.next_offset

    def step(self, size_max: int) -> None:
        """Look at ``size_max`` bytes more, and at what readers or the scrubber met."""
        for offset in (*self._suspects, *self._found()):
            self._look(offset, 1)
        self._suspects.clear()
        if self._next is None:
            self._next = max(self._log.min_offset, self._log.max_offset - SCANNED_BYTES_MAX)
        self._next = max(self._next, self._log.min_offset)
        if not self.is_over:
            self._next += self._look(self._next, size_max)

    def _look(self, offset: int, size_max: int) -> int:
        """Look at the blocks from the one with this offset on; return how many bytes behind the offset are done."""
        segment = self._log.find(offset)
        if segment is None:
            return size_max
        at = block_start(offset - segment.start)
        end = min(segment.end, self._log.max_offset) - segment.start
        size = min(max(BLOCK_SIZE_BYTES, block_start(size_max)), end - at)
        if size <= 0:
            return size_max
        try:
            data = segment.read(at, size)
            doubts = self._digests.check(segment, data, at)
        except OSError:
            doubts, data = None, None
        if data is None or (doubts is not None and doubts.damaged):
            for block in range(at, at + size, BLOCK_SIZE_BYTES):
                self._judge(segment, block, min(BLOCK_SIZE_BYTES, end - block))
        segment.note_read(size, min(self._log.resident_bytes_max, RESIDENT_BYTES_MAX))
        return segment.start + at + size - offset

    def _judge(self, segment: Segment, at: int, size: int) -> None:
        start = segment.start + at
        if self._is_damaged(segment, at, size):
            if len(self.damaged) < PLACES_MAX:
                self.damaged[start] = start + size
        else:
            self.damaged.pop(start, None)

    def _is_damaged(self, segment: Segment, at: int, size: int) -> bool:
        try:
            doubts = self._digests.check(segment, segment.read(at, size), at)
        except OSError:
            return True
        return doubts is not None and bool(doubts.damaged)

    def mend(self, start: int, data: bytes | memoryview) -> bool:
        """Write these bytes in the place of the damaged block at ``start``. Returns False when they are not its own.

        Raises OSError.
        """
        segment = self._log.find(start)
        if segment is None or len(data) != self.damaged.get(start, start) - start:
            return False
        at = start - segment.start
        if self._digests.check(segment, memoryview(data), at) is not None:
            return False
        segment.file.pwrite(at, data)
        segment.file.sync()
        if self._is_damaged(segment, at, len(data)):
            return False
        del self.damaged[start]
        for place in [place for place in self._found() if start <= place < start + len(data)]:
            del self._found()[place]
        return True

    def forget_behind(self, end: int) -> None:
        """The log ends at ``end`` now, or begins behind a damaged place: what is gone needs nothing."""
        begin = self._log.min_offset
        self.damaged = {start: to for start, to in self.damaged.items() if begin <= start and to <= end}
