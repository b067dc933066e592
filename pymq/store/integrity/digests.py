"""Digests of the log: calculated after the log is written, kept in side files, compared on every read.

A record's CRC covers its body alone, and checking it takes a calculation for each message. One xxh3 for each block of
4 KiB covers every byte, and checking it adds three microseconds to a pull of 64 KiB. Digests never fail a send: a side
file that can't be written is reported as a problem and written later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from xxhash import xxh3_64_digest

from pymq.store.disk.fs import Files, make_directory, sync_if_there
from pymq.store.integrity.damage import explain, find_flip
from pymq.store.integrity.digest_file import (
    BAD,
    BLOCK_SIZE_BYTES,
    DIGEST_SIZE_BYTES,
    UNKNOWN,
    DigestFiles,
    DigestHeader,
    OpenBlock,
    split_digests,
)
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.log.doubts import Doubts, Span

WORK_BYTES = 8 << 20  # digested in one call of :meth:`Digests.work`: about a millisecond
CATCH_UP_BYTES_MAX = 64 << 20  # a start that finds more without digests leaves it to the scrubber
RESIDENT_BYTES_MAX = 8 << 20  # mapped bytes digested before their pages are given back, to keep memory small
EXPLAINED_COUNT_MAX = 1024  # damaged blocks whose explanation is cached


def block_digests(data: memoryview) -> bytes:
    """The digests of consecutive blocks, 8 bytes each; the last block may be shorter."""
    digest = xxh3_64_digest
    if len(data) <= BLOCK_SIZE_BYTES:
        return digest(data)
    return b"".join([digest(data[at : at + BLOCK_SIZE_BYTES]) for at in range(0, len(data), BLOCK_SIZE_BYTES)])


def block_start(position: int) -> int:
    """The begin of the block that holds a position of a segment."""
    return position - position % BLOCK_SIZE_BYTES


class Digests:
    """The digests of a log's segments. One thread calls everything; only :meth:`sync` may run in another.

    A block at the log's end that is not full yet has a digest too, the *tail*. A segment is *settled* when all of it is
    digested and on the disk: after that, only damage changes it.
    """

    def __init__(self, files: Files, directory: str, log: CommitLog) -> None:
        self._files = files
        self._log = log
        self.table = DigestFiles(files, directory)
        self.next_offset = 0  # blocks below this physical offset have a digest, or are known to have none
        self._worked_end = -1  # the log's end when :meth:`work` last had nothing left to do
        self.problem: str | None = None
        self._tail: OpenBlock | None = None
        self._tail_segment_start = -1
        self._with_file: set[int] = set()  # segments that have a side file
        self._settled: set[int] = set()
        self._written_tail: OpenBlock | None = None
        self._explained: OrderedDict[tuple[int, bytes], list[Span]] = OrderedDict()
        self._lock = Lock()
        self._unsynced: set[str] = set()
        self._directory_unsynced = False

    # -- opening ------------------------------------------------------------------------------------------------

    def open(self, *, durable_offset: int | None, checked_from: int, damaged: Iterable[Span] = ()) -> None:
        """Keep the digests that can be trusted after recovery. Raises OSError.

        ``durable_offset``: the bytes below it have not changed since they were digested; None when another broker may
        have written since. Recovery has compared every record from ``checked_from`` on with its CRC, except those in
        ``damaged``.
        """
        make_directory(self._files, self.table.directory)
        starts = {segment.start for segment in self._log.segments}
        for start in self.table.segment_starts():
            if start not in starts:
                self.table.remove(start)
            else:
                self._with_file.add(start)
        keep_below = 0 if durable_offset is None else min(durable_offset, self._log.max_offset)
        for segment in self._log.segments:
            self._take_over(segment, keep_below)
        self._start_live(checked_from if durable_offset is None else keep_below)
        for start, end in damaged:
            self.leave_unknown(start, end)
        self._log.guard = self

    def _take_over(self, segment: Segment, keep_below: int) -> None:
        header = self.table.header(segment.start)
        if header is None:
            return
        size = segment.end - segment.start
        kept = min(keep_below, segment.end) - segment.start
        if header.settled and segment.sealed and (kept == size or self._last_block_fits(segment)):
            self._settled.add(segment.start)
            return
        first = -(-kept // BLOCK_SIZE_BYTES) if kept == size else max(0, kept) // BLOCK_SIZE_BYTES
        count = -(-size // BLOCK_SIZE_BYTES)
        if any(self.table.get(segment.start, first, count)):
            self._forget(segment, first, count)
        if header.tail is not None and header.tail.at + header.tail.size <= kept:
            self._tail, self._tail_segment_start = header.tail, segment.start

    def _forget(self, segment: Segment, first: int, end: int) -> None:
        """Drop the digests of blocks that may be written again; the disk has that before the blocks. Raises OSError."""
        try:
            self.table.put(segment.start, first, UNKNOWN * (end - first))
            self.table.write(segment.start, DigestHeader())
            sync_if_there(self._files, self.table.path(segment.start))
        except OSError:
            self._remove(segment.start)
            self._files.sync_dir(self.table.directory)

    def _last_block_fits(self, segment: Segment) -> bool:
        """False when another broker has truncated and rewritten the segment: then its last block is different."""
        size = segment.end - segment.start
        at = block_start(size - 1)
        number = at // BLOCK_SIZE_BYTES
        return self.table.get(segment.start, number, number + 1) == xxh3_64_digest(segment.read(at, size - at))

    def _start_live(self, live_from: int) -> None:
        """Set where :meth:`work` begins: in the part that recovery has read, or at the log's end."""
        log_end = self._log.max_offset
        while (settled := self._log.find(live_from)) is not None and settled.start in self._settled:
            live_from = settled.end
        if log_end - live_from > CATCH_UP_BYTES_MAX:
            live_from = log_end
        segment = self._log.find(live_from)
        self.next_offset = live_from if segment is None else segment.start + block_start(live_from - segment.start)
        if self._tail is not None and self._tail_segment_start + self._tail.at != self.next_offset:
            self._tail = None

    def leave_unknown(self, start: int, end: int) -> None:
        """Leave the blocks between two physical offsets without digests: records there were found damaged."""
        self._worked_end = -1
        segment = self._log.find(start)
        while segment is not None and segment.start < end:
            first = (max(start, segment.start) - segment.start) // BLOCK_SIZE_BYTES
            after = -(-(min(end, segment.end) - segment.start) // BLOCK_SIZE_BYTES)
            self.table.put(segment.start, first, UNKNOWN * (after - first))
            border = min(segment.start + after * BLOCK_SIZE_BYTES, segment.end)
            if border > self.next_offset:
                self.next_offset, self._tail = min(border, self._block_of(self._log.max_offset)), None
            segment = self._log.find(segment.end)

    def truncate(self, end: int) -> None:
        """The log was truncated and ends at ``end``: drop the digests of what lay behind."""
        self._worked_end = -1
        start = self._block_of(end)
        if self._tail is not None and self._tail_segment_start + self._tail.at + self._tail.size > end:
            self._tail = None
        if self.next_offset <= start:
            return
        segment = self._log.find(start)
        if segment is not None:
            first = (start - segment.start) // BLOCK_SIZE_BYTES
            after = -(-(min(self.next_offset, segment.end) - segment.start) // BLOCK_SIZE_BYTES)
            self.table.put(segment.start, first, UNKNOWN * (after - first))
            self._settled.discard(segment.start)
        self.next_offset = start

    def _block_of(self, offset: int) -> int:
        segment = self._log.find(offset)
        return offset if segment is None else segment.start + block_start(offset - segment.start)

    # -- making -------------------------------------------------------------------------------------------------

    def work(self, budget_bytes: int = WORK_BYTES) -> None:
        """Digest what was committed since the last call, at most ``budget_bytes`` of it. Never fails."""
        end, left = self._log.max_offset, budget_bytes
        if end == self._worked_end:
            return
        self.next_offset = max(self.next_offset, self._log.min_offset)
        while left > 0 and self.next_offset < end:
            segment = self._log.find(self.next_offset)
            if segment is None:
                return
            at = self.next_offset - segment.start
            complete = segment.end - segment.start if end >= segment.end else block_start(end - segment.start)
            size = min(complete - at, block_start(left + BLOCK_SIZE_BYTES - 1))
            if size <= 0:
                break
            left -= size
            try:
                self._digest(segment, at, size)
            except OSError as error:
                self._note_problem("can't be read for their digests", error)
                return
        if self._renew_tail(end) and left > 0:
            self._worked_end = end

    def _digest(self, segment: Segment, at: int, size: int) -> None:
        data = segment.read(at, size)
        digests = block_digests(data)
        tail = self._tail_at(segment, at)
        if tail is not None and xxh3_64_digest(data[: tail.size]) != tail.digest:
            digests = self._wanted_digest(data[:BLOCK_SIZE_BYTES], tail) + digests[DIGEST_SIZE_BYTES:]
        self.table.put(segment.start, at // BLOCK_SIZE_BYTES, digests)
        segment.note_read(size, min(self._log.resident_bytes_max, RESIDENT_BYTES_MAX))
        self.next_offset = segment.start + at + size
        self._tail = None

    def _tail_at(self, segment: Segment, at: int) -> OpenBlock | None:
        tail = self._tail
        return tail if tail is not None and (self._tail_segment_start, tail.at) == (segment.start, at) else None

    def _wanted_digest(self, block: memoryview, tail: OpenBlock) -> bytes:
        """The digest that a block would have without the damage its tail took before the block was full."""
        if tail.digest == BAD:
            return BAD
        flipped = find_flip(bytes(block[: tail.size]), tail.digest, range(tail.size))
        if flipped is None:
            return BAD
        mended = bytearray(block)
        mended[flipped // 8] ^= 1 << flipped % 8
        return xxh3_64_digest(mended)

    def _renew_tail(self, end: int) -> bool:
        """Digest the block at the log's end, which holds the newest messages. False when it can't be read."""
        segment = self._log.find(self.next_offset)
        if segment is None or not 0 < end - self.next_offset < BLOCK_SIZE_BYTES:
            return True
        at, size = self.next_offset - segment.start, end - self.next_offset
        before = self._tail_at(segment, at)
        if before is not None and before.size == size:
            return True
        try:
            data = segment.read(at, size)
        except OSError as error:
            self._note_problem("can't be read for their digests", error)
            return False
        if before is None or xxh3_64_digest(data[: before.size]) == before.digest:
            self._tail, self._tail_segment_start = OpenBlock(at, size, xxh3_64_digest(data)), segment.start
        else:
            wanted = self._wanted_digest(data, before)
            self._tail = OpenBlock(at, size, wanted)
        return True

    def set_checked(self, segment: Segment, at: int, digests: bytes) -> None:
        """Set the digests of blocks whose records passed all checks. A block that has a digest keeps it."""
        first = at // BLOCK_SIZE_BYTES
        known = split_digests(self.table.get(segment.start, first, first + len(digests) // DIGEST_SIZE_BYTES))
        merged = [new if old == UNKNOWN else old for old, new in zip(known, split_digests(digests), strict=True)]
        self.table.put(segment.start, first, b"".join(merged))

    # -- checking -----------------------------------------------------------------------------------------------

    def check(self, segment: Segment, data: memoryview, at: int) -> Doubts | None:
        """Compare bytes that were read from position ``at`` of a segment, a block's begin. None: all are as written.

        Bytes newer than the last :meth:`work` have no digest yet and pass. Raises OSError.
        """
        size, known = len(data), self.next_offset - segment.start - at
        doubts = None
        if known < size:
            if known <= 0:
                return self._check_tail(segment, data, at) if known == 0 else None
            doubts = self._check_tail(segment, data[known:], at + known)
            data = data[:known]
        actual = block_digests(data)
        first = at // BLOCK_SIZE_BYTES
        wanted = self.table.get(segment.start, first, first + len(actual) // DIGEST_SIZE_BYTES)
        if actual == wanted:
            return doubts
        return self._doubts(segment, at, data, wanted, actual, doubts)

    def _check_tail(self, segment: Segment, data: memoryview, at: int) -> Doubts | None:
        tail = self._tail_at(segment, at)
        if tail is None or len(data) < tail.size or xxh3_64_digest(data[: tail.size]) == tail.digest:
            return None
        damaged = self._explain(segment, at, bytes(data[: tail.size]), tail.digest)
        return Doubts(damaged, [(segment.start + at, segment.start + at + tail.size)])

    def _doubts(
        self,
        segment: Segment,
        at: int,
        data: memoryview,
        wanted: bytes | bytearray,
        actual: bytes,
        doubts: Doubts | None,
    ) -> Doubts:
        damaged, unproven = doubts or Doubts([], [])
        for number, (old, new) in enumerate(zip(split_digests(wanted), split_digests(actual), strict=True)):
            if old == new:
                continue
            position = at + number * BLOCK_SIZE_BYTES
            block = bytes(data[position - at : position - at + BLOCK_SIZE_BYTES])
            unproven.append((segment.start + position, segment.start + position + len(block)))
            if old != UNKNOWN:
                damaged += self._explain(segment, position, block, old)
        return Doubts(damaged, unproven)

    def _explain(self, segment: Segment, at: int, block: bytes, wanted: bytes) -> list[Span]:
        """The result of :func:`pymq.store.integrity.damage.explain`, cached by the content of the block."""
        key = (segment.start + at, xxh3_64_digest(block))
        spans = self._explained.get(key)
        if spans is None:
            spans = self._explained[key] = explain(segment, at, block, wanted)
            if len(self._explained) > EXPLAINED_COUNT_MAX:
                self._explained.popitem(last=False)
        return spans

    # -- files --------------------------------------------------------------------------------------------------

    @property
    def is_written(self) -> bool:
        """True when the side files hold every digest. Segments that may settle or are gone are not considered."""
        return self.problem is None and self._tail == self._written_tail and not self.table.has_changes

    def write(self) -> None:
        """Write new digests and remove side files of deleted segments. A failure is a problem, and is tried again."""
        try:
            for start in [start for start in self._with_file if start < self._log.min_offset]:
                self._remove(start)
            for segment in self._log.segments:
                if self._is_due(segment):
                    self._write(segment)
        except OSError as error:
            self._note_problem("can't be written", error)
            return
        self.problem = None

    def _remove(self, segment_start: int) -> None:
        self.table.remove(segment_start)
        self._with_file.discard(segment_start)
        self._settled.discard(segment_start)

    def _is_due(self, segment: Segment) -> bool:
        if segment.start in self._settled:
            return segment.start in self.table.changed()
        if segment.start == self._tail_segment_start and self._tail != self._written_tail:
            return True
        return segment.start in self.table.changed() or (segment.start in self._with_file and self._can_settle(segment))

    def _can_settle(self, segment: Segment) -> bool:
        return segment.sealed and segment.end <= self._log.synced_offset

    def _write(self, segment: Segment) -> None:
        is_settled = self._can_settle(segment)
        has_tail = segment.start == self._tail_segment_start
        self.table.write(segment.start, DigestHeader(is_settled, self._tail if has_tail else None))
        if has_tail:
            self._written_tail = self._tail
        with self._lock:
            self._unsynced.add(self.table.path(segment.start))
            self._directory_unsynced |= segment.start not in self._with_file
        self._with_file.add(segment.start)
        if is_settled:
            self._settled.add(segment.start)

    def sync(self) -> None:
        """Bring what was written before the call to the disk; a failure becomes a problem. Any thread may call it."""
        with self._lock:
            paths, self._unsynced = self._unsynced, set()
            directory, self._directory_unsynced = self._directory_unsynced, False
        try:
            for path in sorted(paths):
                sync_if_there(self._files, path)
            if directory:
                self._files.sync_dir(self.table.directory)
        except OSError as error:
            # Nothing depends on this: each sector has a checksum, and digests that a power loss takes are made again.
            self._note_problem("can't be synced", error)

    def _note_problem(self, what: str, error: OSError) -> None:
        self.problem = (
            f"the digests in {self.table.directory} {what}: {error.strerror} (errno {error.errno}); messages without "
            f"a digest are checked by their CRC alone until it works again"
        )
