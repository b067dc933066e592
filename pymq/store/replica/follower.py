"""A log that grows by another's bytes: what a slave does with what its master sends.

Bytes come in any pieces and are written as they are, so the files become the master's, byte for byte. The log's end may
lie within a record; only whole records are handed on, to queues, index and whoever waits for messages. Recovery's
rules decide where a record belongs (:mod:`pymq.store.dispatch.queue_dispatcher`), and a place where no record can be read is stepped
over as soon as a later one is there: following goes on, whatever the master's log holds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from pymq.clock import Clock
from pymq.errors import StoreError, StoreUnavailableError
from pymq.model.layout import UNIT_SIZE_BYTES
from pymq.store.dispatch.queue_dispatcher import QueueDispatcher
from pymq.store.dispatch.quick_dispatcher import QuickDispatcher
from pymq.store.index.index_service import IndexService
from pymq.store.index.keyed_records import KeyedRecords
from pymq.store.integrity.digests import Digests
from pymq.store.lifecycle.store_times import StoreTimes
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, has_index_entries
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_table import QueueTable
from pymq.store.scan.scanner import End, Window, could_go_on, find_later_record, read_piece, scan
from pymq.store.settings import StoreSettings
from pymq.store.write.appender import Appender

if TYPE_CHECKING:
    from pymq.store.scan.columns import Records

BULK_BYTES_MIN = 32 << 10  # for less numpy does not pay
_QUICK_BYTES = 1 << 20  # read at a time while it is not loaded
# Records whose forerunner is younger come from the master's memory, over a connection with checksums: their CRC is not
# calculated again, which is a fifth of the work. Older ones were on its disk; and where the two machines' clocks are
# further apart than this, no age is known.
UNCHECKED_AGE_MS_MAX = 60_000
_SEARCH_BYTES = 1 << 20  # behind damage so much is searched again with each call; more of it, when an eighth is new
_DAMAGED_COUNT_MAX = 100  # places remembered

log = logging.getLogger(__name__)


class Follower:
    """Grows the log of an open store. One thread calls everything; the store's syncs may run in another.

    :attr:`end` is what the log has, the store's ``synced_offset`` what of it is on the disk.
    """

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueTable,
        index: IndexService | None,
        digests: Digests | None,
        appender: Appender,
        clock: Clock,
        settings: StoreSettings,
        is_open: Callable[[], bool],
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._digests = digests
        self._appender = appender
        self._clock = clock
        self._settings = settings
        self._is_open = is_open
        self._dispatcher: QueueDispatcher | None = None
        self._quick: QuickDispatcher | None = None
        self._times: StoreTimes | None = None
        self._grown: dict[ConsumeQueue, int] = {}
        self._count = 0  # of records handed on
        self._search_from = 0  # the log's end that makes a search behind damage worth while
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
        """Records below this physical offset were handed on."""
        whole_end = self._log.whole_end
        return self._log.max_offset if whole_end is None else whole_end

    def start_at(self, offset: int) -> None:
        """An empty log begins at ``offset``, a segment's start. Raises StoreError for any other log or offset."""
        self._check_open()
        self._log.begin_at(offset)

    def append(self, position: int, data: bytes | memoryview) -> None:
        """Writes bytes of the master's log that begin at ``position``.

        Raises StoreError when they do not begin at :attr:`end`, StoreUnavailableError when the disk fails; then
        nothing of them is kept, and the same bytes may come again.
        """
        self._check_open()
        if position != self._log.max_offset:
            raise StoreError(f"the log ends at {self._log.max_offset}, bytes from {position} on can't follow it")
        try:
            self._log.append_raw(data)
        except StoreUnavailableError as error:
            self._appender.note_failed_write(str(error))
            raise
        self._appender.write_problem = None

    def _check_open(self) -> None:
        if not self._is_open():
            raise StoreUnavailableError("the store is not open: the broker starts or stops")

    # -- handing on ---------------------------------------------------------------------------------------------

    def dispatch(self, bytes_max: int | None = None) -> int:
        """Hands whole records on that lie behind :attr:`dispatched_end`; returns how many.

        ``bytes_max``: about so much of the log, then the rest waits for another call. A disk that fails is told as a
        problem, and the next call tries again.
        """
        begin, end = self.dispatched_end, self._log.max_offset
        if begin == end:
            return 0
        stop = end if bytes_max is None else min(end, begin + max(bytes_max, self._size_at(begin)))
        count_before = self._count
        try:
            while True:
                self._hand_on(self.dispatched_end, stop)
                at = self.dispatched_end
                if at >= stop or (begin < at and stop < end):
                    break
                if stop < end:
                    stop = end  # all that is there decides whether it is damage
                elif not self._step_over(at):
                    break
            self._queue_problem = None
        except OSError as error:
            self._queue_problem = (
                f"records from {self.dispatched_end} on can't be handed on: {error.filename}: {error.strerror} "
                f"(errno {error.errno}); mend the disk, it is tried again"
            )
        return self._count - count_before

    def finish(self) -> bool:
        """Hands on all whole records and cuts what is behind them, so that the next start finds no record in part.

        False when that can't be done now: the stop is no clean one then. Raises OSError.
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
        """The size that a record says it has, 0 when that has not come yet."""
        return int.from_bytes(self._log.read(offset, 4), "big", signed=True)

    def _hand_on(self, at: int, stop: int) -> None:
        """Hands on the whole records between two physical offsets, up to the first one that isn't. Raises OSError."""
        dispatcher, times = self._ready()
        if stop - at < BULK_BYTES_MIN or not self._appender.bulk_ready:
            at = self._hand_on_quickly(at, stop)
        keys, end = KeyedRecords(), at
        try:
            for part in self._scan(at, stop):
                if isinstance(part, End):
                    end = part.offset  # a blank may lie before it
                elif isinstance(part, Scanned):
                    dispatcher.take(part)
                    if has_index_entries(part.sys_flag):
                        keys.add(part.topic, part.properties, part.offset, part.store_ms)
                    times.add(part.store_ms)
                    end = part.offset + part.size
                    self._count += 1
                else:
                    self._hand_on_many(part, keys)
                    end, keys = part.end, KeyedRecords()
                    self._count += len(part)
        finally:
            self._show(end, keys)

    def _hand_on_quickly(self, at: int, stop: int) -> int:
        """Hands on what lies whole between the two, up to something unusual, and returns where that is."""
        assert self._quick is not None
        _, times = self._ready()
        check_crc = not self._is_fresh
        while (segment := self._log.find(at)) is not None and at < stop:
            size, keys = min(_QUICK_BYTES, stop - at, segment.end - at), KeyedRecords()
            piece = bytes(read_piece(segment, at - segment.start, size))
            taken = self._quick.take(piece, at, keys, check_crc=check_crc)
            if not taken.record_count:
                break
            times.add(taken.before_ms, taken.newest_ms)
            self._count += taken.record_count
            at += taken.size
            self._show(at, keys)
        return at

    @property
    def _is_fresh(self) -> bool:
        return abs(self._clock.now_ms() - self._log.last_store_ms) < UNCHECKED_AGE_MS_MAX

    def _hand_on_many(self, records: Records, keys: KeyedRecords) -> None:
        """``keys``: those of the records before them."""
        from pymq.store.dispatch.bulk_dispatch import record_keys  # noqa: PLC0415 - it needs numpy

        dispatcher, times = self._ready()
        dispatcher.take_many(records)
        times.add(*records.store_ms[-2:].tolist())
        self._show(records.end, keys)
        if self._index is not None:
            self._index.add_columns(record_keys(records))

    def _scan(self, at: int, stop: int) -> Iterator[Records | Scanned | End]:
        if stop - at < BULK_BYTES_MIN or not self._appender.bulk_ready:
            return scan(self._log, at, check_crc=not self._is_fresh, stop=stop)
        from pymq.store.scan.bulk import scan_bulk  # noqa: PLC0415 - it needs numpy

        return scan_bulk(self._log, at, check_crc=not self._is_fresh, stop=stop)

    def take_again(self, starts: Mapping[str, int]) -> None:
        """Gives queues of these topics the records they lack, each from a physical offset on where some record begins.

        A topic's first message after it was deleted and made again looks like damage until the old queue is gone.
        Raises OSError; then ask again.
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
            self._show(self.dispatched_end, KeyedRecords())

    def _ready(self) -> tuple[QueueDispatcher, StoreTimes]:
        """The store is open now, so the log's newest store time is known."""
        now_ms = self._clock.now_ms()
        if self._dispatcher is None or self._times is None:
            self._times = StoreTimes(self._log.last_store_ms, now_ms)
            self._dispatcher = QueueDispatcher(
                self._log, self._queues, self._settings, on_grown=self._note_grown, on_gap=lambda text: None,
                on_damage=lambda start, end, why: log.warning("%s", why), tell=lambda text: log.warning("%s", text),
            )  # fmt: skip
            self._quick = QuickDispatcher(self._queues, self._dispatcher, self._note_grown)
        self._times.now(now_ms)
        return self._dispatcher, self._times

    def _note_grown(self, queue: ConsumeQueue, first: int) -> None:
        self._grown[queue] = min(self._grown.get(queue, first), first)

    def _show(self, end: int, keys: KeyedRecords) -> None:
        """Records below ``end`` are in their queues: readers, long polls and the index learn of them."""
        appender = self._appender
        if end > self.dispatched_end:
            self._set_whole(end)
        grown, self._grown = self._grown, {}
        for queue, first in grown.items():
            at = max(first - queue.tail_offset, 0) * UNIT_SIZE_BYTES
            appender.tell_grown(queue, bytes(queue.tail[at:]))
        if keys:
            appender.hand_over_keys(keys)

    def _set_whole(self, end: int) -> None:
        _, times = self._ready()
        self._log.set_whole(end, times.last_ms)
        self._appender.last_store_ms = times.last_ms

    # -- damage -------------------------------------------------------------------------------------------------

    def _step_over(self, at: int) -> bool:
        """Goes on behind a place where no record is, and none can come any more; False when there is nothing yet.

        As in a recovery, offsets of queues that lack records there stay taken.
        """
        end = self._log.max_offset
        segment = self._log.find(at)
        assert segment is not None
        if end < self._search_from or could_go_on(Window(segment, stop=end), at - segment.start):
            return False
        dispatcher, times = self._ready()
        later = find_later_record(self._log, at, times.last_ms)
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
        """For the list of what an operator should know."""
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
