"""Follower: a log that grows by another broker's bytes, as a slave's does by its master's.

Bytes come in pieces of any size and are written as they are, so the files equal the master's byte for byte. The log may
end within a record; only whole records are dispatched, to queues, index and waiting consumers. The rules of recovery
decide where a record belongs (:mod:`pymq.store.dispatch.queue_dispatcher`). A place that holds no readable record is
stepped over as soon as a later record is there, so no content of the master's log stops a slave.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.dispatch.queue_dispatcher import QueueDispatcher
from pymq.store.dispatch.quick_dispatcher import QuickDispatcher
from pymq.store.index.keyed_records import KeyedRecords
from pymq.store.lifecycle.store_data import StoreData
from pymq.store.lifecycle.store_times import StoreTimes
from pymq.store.log.log_record import Scanned, has_index_entries
from pymq.store.queue.batch_queue import AnyQueue
from pymq.store.scan.scanner import End, Window, could_go_on, find_later_record, read_piece, scan
from pymq.store.write.appender import Appender

if TYPE_CHECKING:
    from pymq.store.scan.columns import Records

BULK_BYTES_MIN = 32 << 10  # below, numpy is slower: see pymq.store.dispatch.quick_dispatcher
_QUICK_BYTES = 1 << 20  # read at a time while numpy is not loaded
# New records come from the master's memory, over a connection with checksums: their CRC is not calculated again, which
# is a fifth of the work. They count as new while the record before them is not older than this. Older ones were on the
# master's disk. Where the two machines' clocks are further apart, no age is known, and every CRC is checked.
UNCHECKED_AGE_MS_MAX = 60_000
_SEARCH_BYTES = 1 << 20  # a search behind damage that covers more is repeated only when an eighth of it is new
_DAMAGED_COUNT_MAX = 100  # damaged places kept in memory

log = logging.getLogger(__name__)


class Follower:
    """Grows the log of an open store. One thread calls everything; the store's syncs may run in another.

    The log ends at :attr:`end`; the store's ``synced_offset`` says how much of it is on the disk.
    """

    def __init__(
        self,
        data: StoreData,
        *,
        appender: Appender,
        is_open: Callable[[], bool],
    ) -> None:
        self._log = data.log
        self._queues = data.queues
        self._lights = data.lights
        self._index = data.index
        self._digests = data.digests
        self._appender = appender
        self._clock = data.clock
        self._settings = data.settings
        self._is_open = is_open
        self._dispatcher: QueueDispatcher | None = None
        self._quick: QuickDispatcher | None = None
        self._times: StoreTimes | None = None
        self._grown: dict[AnyQueue, int] = {}
        self._count = 0  # of records dispatched
        self._search_from = 0  # the next search behind damage waits until the log ends here
        self._waits_at = -1  # a damaged place behind which no record has come yet
        self._queue_problem: str | None = None
        self.damaged: deque[tuple[int, int]] = deque(maxlen=_DAMAGED_COUNT_MAX)
        self.damaged_count = 0

    @property
    def end(self) -> int:
        """The next byte's physical offset."""
        return self._log.max_offset

    @property
    def dispatched_end(self) -> int:
        """Records below this physical offset were dispatched."""
        whole_end = self._log.whole_end
        return self._log.max_offset if whole_end is None else whole_end

    def start_at(self, offset: int) -> None:
        """Let an empty log begin at ``offset``, a segment's start. Raises StoreError for any other log or offset."""
        self._check_open()
        self._log.begin_at(offset)

    def append(self, position: int, data: bytes | memoryview) -> None:
        """Write bytes of the master's log that begin at ``position``.

        Raises StoreError when they do not begin at :attr:`end`, StoreUnavailableError when the disk fails. Then none of
        them is kept, and the same bytes may come again.
        """
        self._check_open()
        if position != self._log.max_offset:
            raise StoreError(f"the log ends at {self._log.max_offset}, bytes from {position} on can't follow it")
        self._log.append_raw(data)

    def _check_open(self) -> None:
        if not self._is_open():
            raise StoreUnavailableError("the store is not open: the broker starts or stops")

    # -- dispatching --------------------------------------------------------------------------------------------

    def dispatch(self, bytes_max: int | None = None) -> int:
        """Dispatch the whole records behind :attr:`dispatched_end`; return their number.

        ``bytes_max`` is about the size of log to dispatch; the rest waits for another call. A failing disk becomes a
        problem, and the next call tries again.
        """
        begin, end = self.dispatched_end, self._log.max_offset
        if begin == end:
            return 0
        stop = end if bytes_max is None else min(end, begin + max(bytes_max, self._size_at(begin)))
        count_before = self._count
        try:
            while True:
                self._dispatch_between(self.dispatched_end, stop)
                at = self.dispatched_end
                if at >= stop or (begin < at and stop < end):
                    break
                if stop < end:
                    stop = end  # all bytes there are decide whether it is damage
                elif not self._step_over(at):
                    break
            self._queue_problem = None
        except OSError as error:
            self._queue_problem = (
                f"records from {self.dispatched_end} on can't be dispatched: {error.filename}: {error.strerror} "
                f"(errno {error.errno}); mend the disk, it is tried again"
            )
        return self._count - count_before

    def dispatch_to(self, end: int, bytes_max: int) -> int:
        """Dispatch records below the physical offset ``end``, where one ends, of about ``bytes_max`` bytes; return
        their number.
        """
        size = min(end, self._log.max_offset) - self.dispatched_end
        return self.dispatch(min(size, bytes_max)) if size > 0 else 0

    def finish(self) -> bool:
        """Dispatch all whole records and truncate what lies behind them: the next start finds no partial record.

        False when that can't be done now; then the stop is not a clean one. Raises OSError.
        """
        self.dispatch()
        if self._queue_problem is not None:
            return False
        if self.dispatched_end < self.end:
            self._log.truncate(self.dispatched_end, self._log.last_store_ms)
            if self._digests is not None:
                self._digests.truncate(self.end)
        return True

    def _size_at(self, offset: int) -> int:
        """The size in the head of the record at ``offset``; 0 while the head is not there."""
        return int.from_bytes(self._log.read(offset, 4), "big", signed=True)

    def _dispatch_between(self, at: int, stop: int) -> None:
        """Dispatch the whole records between two physical offsets, up to the first partial one. Raises OSError."""
        dispatcher, times = self._ready()
        if stop - at < BULK_BYTES_MIN or not self._appender.bulk_ready:
            at = self._dispatch_quickly(at, stop)
        keys, end = KeyedRecords(), at
        try:
            for part in self._scan(at, stop):
                if isinstance(part, End):
                    end = part.offset  # a blank may lie before it
                elif isinstance(part, Scanned):
                    dispatcher.take(part)
                    self._lights.take(part)
                    if has_index_entries(part.sys_flag):
                        keys.add(part.topic, part.properties, part.offset, part.store_ms)
                    self._log.time_steps.note(part.offset, times.newest_ms, part.store_ms)
                    times.add(part.store_ms)
                    end = part.offset + part.size
                    self._count += 1
                else:
                    self._dispatch_many(part, keys)
                    end, keys = part.end, KeyedRecords()
                    self._count += len(part)
        finally:
            self._publish(end, keys)

    def _dispatch_quickly(self, at: int, stop: int) -> int:
        """Dispatch the records that the quick dispatcher can read between two offsets; return where they end."""
        assert self._quick is not None
        _, times = self._ready()
        check_crc = not self._is_fresh
        while (segment := self._log.find(at)) is not None and at < stop:
            size, keys = min(_QUICK_BYTES, stop - at, segment.end - at), KeyedRecords()
            piece = bytes(read_piece(segment, at - segment.start, size))
            taken = self._quick.take(piece, at, keys, check_crc=check_crc, newest_ms=times.newest_ms)
            if not taken.record_count:
                break
            if taken.goes_back:
                self._note_time_steps(at, at + taken.size, times.newest_ms)
            times.add(taken.before_ms, taken.newest_ms)
            self._count += taken.record_count
            at += taken.size
            self._publish(at, keys)
        return at

    @property
    def _is_fresh(self) -> bool:
        return abs(self._clock.now_ms() - self._log.last_store_ms) < UNCHECKED_AGE_MS_MAX

    def _dispatch_many(self, records: Records, keys: KeyedRecords) -> None:
        """Dispatch records with numpy. ``keys``: those of the records before them."""
        from pymq.store.dispatch.bulk_dispatch import record_keys  # noqa: PLC0415 - it needs numpy

        dispatcher, times = self._ready()
        dispatcher.take_many(records)
        self._lights.take_many(records)
        times_ms = records.store_ms
        if times_ms[0] < times.newest_ms or (times_ms[1:] < times_ms[:-1]).any():
            self._note_time_steps(int(records.offsets[0]), records.end, times.newest_ms)
        times.add(*times_ms[-2:].tolist())
        self._publish(records.end, keys)
        if self._index is not None:
            self._index.add_columns(record_keys(records))

    def _scan(self, at: int, stop: int) -> Iterator[Records | Scanned | End]:
        if stop - at < BULK_BYTES_MIN or not self._appender.bulk_ready:
            return scan(self._log, at, check_crc=not self._is_fresh, stop=stop)
        from pymq.store.scan.bulk import scan_bulk  # noqa: PLC0415 - it needs numpy

        return scan_bulk(self._log, at, check_crc=not self._is_fresh, stop=stop)

    def take_again(self, starts: Mapping[str, int]) -> None:
        """Dispatch the records of these topics again, each topic from its physical offset on, where a record begins.

        The first message of a topic that was deleted and made again looks like damage until the old queue is gone.
        Raises OSError; then call again.
        """
        dispatcher, _ = self._ready()
        for key in [key for key in dispatcher.suspects if key[0] in starts]:
            del dispatcher.suspects[key]
        start = max(min(starts.values()), self._log.min_offset)
        try:
            for part in scan(self._log, start, check_crc=False, stop=self.dispatched_end):
                if isinstance(part, Scanned) and part.offset >= starts.get(part.topic, part.offset + 1):
                    dispatcher.take(part)
        finally:
            self._publish(self.dispatched_end, KeyedRecords())

    def _ready(self) -> tuple[QueueDispatcher, StoreTimes]:
        """The dispatcher and store times, made at the first use: then the log's newest store time is known."""
        now_ms = self._clock.now_ms()
        if self._dispatcher is None or self._times is None:
            self._times = StoreTimes(self._log.last_store_ms, now_ms)
            self._dispatcher = QueueDispatcher(
                self._log, self._queues, self._settings, on_grown=self._note_grown, on_gap=lambda text: None,
                on_damage=lambda start, end, why: log.warning("%s", why), note=lambda text: log.warning("%s", text),
            )  # fmt: skip
            self._quick = QuickDispatcher(self._queues, self._lights, self._dispatcher, self._note_grown)
        self._times.now(now_ms)
        return self._dispatcher, self._times

    def _note_grown(self, queue: AnyQueue, first: int) -> None:
        self._grown[queue] = min(self._grown.get(queue, first), first)

    def _publish(self, end: int, keys: KeyedRecords) -> None:
        """Publish the records below ``end``, which are in their queues now: to readers, long polls and the index."""
        appender = self._appender
        if end > self.dispatched_end:
            self._set_whole(end)
        grown, self._grown = self._grown, {}
        for queue, first in grown.items():
            appender.tell_grown(queue, queue.tail_from(first))
        if keys:
            appender.hand_over_keys(keys)

    def _note_time_steps(self, start: int, end: int, before_ms: int) -> None:
        """Find where among the records between two physical offsets times go back. ``before_ms``: of the one before."""
        for part in scan(self._log, start, check_crc=False, stop=end):
            if isinstance(part, Scanned):
                self._log.time_steps.note(part.offset, before_ms, part.store_ms)
                before_ms = part.store_ms

    def _set_whole(self, end: int) -> None:
        _, times = self._ready()
        self._log.set_whole(end, times.last_ms)
        self._appender.last_store_ms = times.last_ms

    # -- damage -------------------------------------------------------------------------------------------------

    def _step_over(self, at: int) -> bool:
        """Step over a place that holds no record and will hold none. False while no later record is there.

        As in recovery, queue offsets of records that are lost there stay taken.
        """
        end = self._log.max_offset
        segment = self._log.find(at)
        assert segment is not None
        if end < self._search_from or could_go_on(Window(segment, stop=end), at - segment.start):
            return False
        dispatcher, _ = self._ready()
        # Whatever its time: a log that follows another one has no remains, and the master's clock may have been wrong.
        later = find_later_record(self._log, at, 0)
        if later is None:
            waiting = end - at
            self._search_from = end + (waiting // 8 if waiting > _SEARCH_BYTES else 1)
            self._waits_at = at
            return False
        self._search_from, self._waits_at = 0, -1
        self._note_damage(at, later.offset)
        dispatcher.note_damage(later.offset)
        self._set_whole(later.offset)
        return True

    def _note_damage(self, start: int, end: int) -> None:
        self.damaged_count += 1
        self.damaged.append((start, end))
        if self._digests is not None:
            self._digests.leave_unknown(start, end)
        log.error("the master's log holds no record from offset %d to %d: what was there is left out", start, end)

    @property
    def problem(self) -> str | None:
        """What an operator should know; None when nothing is wrong."""
        if self._queue_problem is not None:
            return self._queue_problem
        if self._waits_at >= 0:
            return f"the master's log holds no record at offset {self._waits_at}: following goes on behind the damage"
        if self.damaged_count:
            start, end = self.damaged[-1]
            return (
                f"the master's log is damaged in {self.damaged_count} places, last from offset {start} to {end}: "
                f"messages there were left out; `pymq store verify` on the stopped master lists them"
            )
        return None
