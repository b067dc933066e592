"""TimerService: moves timer messages from the wheel's topic into the wheel, and at their time to their real topic.

A broker has one. On a master it fills the wheel and delivers; on a slave it fills the wheel up to where its master is,
so that the slave can go on when it is promoted. Java: TimerMessageStore.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.runtime import Runtime
from pymq.broker.timers.noted_puts import NotedPuts
from pymq.broker.timers.open_slot import DueMessage, OpenSlot
from pymq.broker.timers.timer_counts import TimerCounts
from pymq.broker.timers.timer_delivery import TimerDelivery
from pymq.broker.timers.timer_records import Planned, WheelTimes, noted_delay_max_ms, plan, plan_puts, recalled_name
from pymq.broker.timers.unit_topics import UnitTopics
from pymq.errors import CorruptRecordError, StoreError, StoreUnavailableError, UnreadableError
from pymq.model.names import TIMER_TOPIC
from pymq.model.record import MalformedRecordError, StoredMessage, decode_records
from pymq.rate_limited_log import RateLimitedLog
from pymq.store.timer.timer_store import (
    MAGIC_DELETE,
    MAGIC_ROLL,
    PackedUnit,
    TimerProgress,
    TimerState,
    TimerStore,
    pack_unit,
    unpack_unit,
)

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.work.worker_threads import Result
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

# Work of one tick: a burst, or a clock that jumped ahead, must not hold up other work for long.
READ_COUNT = 256
READ_SIZE_BYTES = 1024 * 1024
ENQUEUES_PER_TICK = 1024
DELIVERIES_PER_TICK = 512
UNITS_PER_TICK = 8192
SLOTS_PER_TICK = 65_536
RESERVED_SLOTS = 60  # RocketMQ never lets a message wait for the last ones of its wheel
GATHER_MS = 10  # after an arrival, for those that follow it
CLEAN_INTERVAL_MS = 30_000
STAMP_INTERVAL_MS = 60_000  # between two versions of a progress that has only passed empty slots
_ROLL_MARGIN_MS = 60_000


class TimerService:
    """:meth:`open` it when the store is open, :meth:`tick` it, :meth:`close` it before the store."""

    def __init__(
        self,
        runtime: Runtime,
        timers: TimerStore,
        *,
        store: MessageStore,
        writer: Writer,
        topics: TopicManager,
        counts: TimerCounts,
        wake_in: Callable[[int], None],
    ) -> None:
        """``wake_in`` has :meth:`tick` called in so many ms, if that is sooner than the next time."""
        self.counts = counts
        self.progress = TimerProgress()
        self.change_count = 0  # of the progress that slaves copy
        self.skipped_count = 0  # records of the wheel's topic that can't be read
        self._timers = timers
        self._clock = runtime.clock
        self._config = runtime.config
        self._store = store
        self._writer = writer
        self._topics = topics
        self._run_in_thread = runtime.run_in_thread
        self._wake_in = wake_in
        self._log = RateLimitedLog(log, runtime.clock, "timer messages")
        self.delivery = TimerDelivery(store=store, writer=writer, topics=topics, counts=counts, log=self._log)
        window_slots = runtime.config.timer_roll_window_slot
        if not 2 <= window_slots <= timers.slot_count - RESERVED_SLOTS:
            window_slots = timers.slot_count - RESERVED_SLOTS
        self.times = WheelTimes(timers.precision_ms, window_slots * timers.precision_ms)
        self._noted_delay_max_ms = noted_delay_max_ms(self.times)
        self._slot: OpenSlot | None = None
        self._noted = NotedPuts()
        self._is_open = False
        self._is_master = False
        self._master_queue_offset = 0  # on a slave: its master's
        self._remade_below = 0  # records below this queue offset were in the wheel before
        self._linked: set[int] = set()  # physical offsets of records that are in the wheel though behind the progress
        self._saved: tuple[int, ...] = ()
        self._is_saving = False
        self._next_save_ms = self._next_clean_ms = 0

    # -- life ----------------------------------------------------------------------------------------------------

    def open(self, *, is_master: bool) -> None:
        """Read the files, or begin to make them again. Raises StoreError."""
        self._is_master = is_master
        try:
            progress = self._timers.open(self._store.physical_max_offset)
            low, high = self._bounds()
            if progress is None or progress.queue_offset > high:
                self._make_again(low, high)
            else:
                self.progress = progress
        except OSError as error:
            raise StoreError(f"the timer files can't be read: {error.filename}: {error.strerror}") from error
        self.progress.queue_offset = max(self.progress.queue_offset, low)
        self._master_queue_offset = self.progress.queue_offset
        self._begin_read_time()
        self._linked = {at for at, slot_ms in self._timers.linked.items() if slot_ms >= self.progress.read_ms}
        self.counts.load()
        if is_master:
            topic_of = UnitTopics(self._topics.all(), self._store).topic_of
            self.counts.count_again(map(topic_of, self._timers.waiting(self.progress.read_ms)))
        self._saved = self._savable()
        self._is_open = True

    def close(self) -> None:
        """Write everything; the store is closed afterwards. Raises StoreError."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._keep_rest_of_slot()
            if self._savable() != self._saved:
                self._write(self._state())
            self.counts.save()
        except OSError as error:
            raise StoreError(f"the timer files could not be written: {error}") from error
        finally:
            self._timers.close()

    def _begin_read_time(self) -> None:
        now_slot_ms, progress = self._now_slot_ms(), self.progress
        if progress.read_ms == 0:
            progress.read_ms = min(now_slot_ms, self._oldest_waiting_slot_ms(now_slot_ms))
        # A broker that was down for longer than the wheel turns finds slots of the next turn in place of old ones.
        oldest_ms = now_slot_ms - (self._timers.slot_count - RESERVED_SLOTS) * self.times.precision_ms
        if progress.read_ms < oldest_ms:
            if self._timers.wheel.next_used(progress.read_ms, oldest_ms) is not None:
                log.error("timers due before %d are older than the wheel and are delivered late", oldest_ms)
            else:
                progress.read_ms = oldest_ms

    def _oldest_waiting_slot_ms(self, otherwise_ms: int) -> int:
        """Return the slot in which the first record was stored that is not in the wheel; nothing behind it is late."""
        offset = self.progress.queue_offset
        if offset >= self._bounds()[1]:
            return otherwise_ms
        stored_ms = self._store.store_time(TIMER_TOPIC, 0, offset)
        return stored_ms // self.times.precision_ms * self.times.precision_ms if stored_ms > 0 else otherwise_ms

    def _make_again(self, low: int, high: int) -> None:
        """Make wheel and log again from the wheel's topic: the files are damaged, or the log lost its end."""
        fields = self._timers.checkpoint()
        log.warning("the timer wheel does not fit its log and is made again from %s, offset %d on", TIMER_TOPIC, low)
        self._timers.clear()
        self.progress = TimerProgress(fields.read_ms, low)
        self._remade_below = min(fields.queue_offset, high)

    # -- what slaves copy ----------------------------------------------------------------------------------------

    def checkpoint_fields(self) -> tuple[int, ...]:
        """Return the fields of RocketMQ's checkpoint as they are now."""
        offsets = self.progress.queue_offset, self._master_offset()
        return self.progress.read_ms, self._timers.log.synced_end, *offsets, *self._timers.version

    def stamp(self) -> tuple[int, int, int]:
        """Return what changes with the progress; the time alone changes it once a minute."""
        return self.progress.queue_offset, self.change_count, self.progress.read_ms // STAMP_INTERVAL_MS

    def take_over(self, read_ms: int, queue_offset: int, version: tuple[int, int, int]) -> None:
        """Take a master's progress: what it has delivered is delivered here too."""
        if self._is_open and not self._is_master:
            self._timers.version = version
            self._master_queue_offset = queue_offset
            self.change_count += 1
            if read_ms > 0:
                self.progress.read_ms = read_ms

    # -- work ----------------------------------------------------------------------------------------------------

    def on_arrival(self, max_offset: int) -> None:
        """Take note of new records in the wheel's topic. Those noted and due later wait for the next tick."""
        if self._noted.is_urgent(max_offset):
            self._wake(GATHER_MS)

    def note_put(
        self, queue_offset: int, physical_offset: int, size: int, real_topic: str, deliver_ms: int, now_ms: int
    ) -> None:
        """Take note of a message for the wheel's topic that was staged and is due later."""
        if (left_ms := deliver_ms - now_ms) <= self._noted_delay_max_ms:
            put = physical_offset, size, real_topic, deliver_ms, now_ms
            self._noted.note(queue_offset, put, self._writer.failed_commit_count, left_ms)

    def slot_count(self, slot_ms: int) -> int:
        """Return how many messages wait in the slot that begins then."""
        slot = self._timers.wheel.slot(slot_ms)
        return slot.num if slot is not None else 0

    @property
    def behind_count(self) -> int:
        """Records of the wheel's topic that are not in the wheel yet."""
        return max(self._bounds()[1] - self.progress.queue_offset, 0)

    @property
    def behind_ms(self) -> int:
        """How long ago the slot that is delivered now began, beyond the precision."""
        return max(self._clock.now_ms() - self.progress.read_ms - self.times.precision_ms, 0)

    def tick(self) -> None:
        """Fill the wheel, deliver what is due, save from time to time. Cheap when there is nothing to do."""
        if not self._is_open or not self._config.timer_wheel_enable:
            return
        try:
            more = self._work()
        except OSError as error:
            self._log.write("files", f"the timer files failed, the next try follows: {error}", logging.ERROR)
            return
        except (StoreUnavailableError, UnreadableError) as error:
            self._log.write("store", f"timer messages can't be moved now, the next try follows: {error}")
            return
        self._save_from_time_to_time()
        if more:
            self._wake(1)
        elif self._is_master:
            self._wake_when_due()

    def _wake_when_due(self) -> None:
        slot, now_ms = self._slot, self._clock.now_ms()
        if slot is not None:
            due_ms = slot.next_due_ms
            self._wake((slot.end_ms if due_ms is None else due_ms) - now_ms)
            return
        next_slot_ms = self._now_slot_ms() + self.times.precision_ms
        if self._timers.wheel.slot(next_slot_ms) is not None:
            self._wake(next_slot_ms - now_ms)

    def _work(self) -> bool:
        """Do a tick's work. Return True when more can be done at once."""
        if not self._is_master:
            return self._fill()
        self._follow_clock_back()
        more = self._fill()
        more = self._deliver() or more
        return self.counts.step() or more

    # -- into the wheel ------------------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Move records from the topic into the wheel; True when more are there."""
        end = self.progress.queue_offset + ENQUEUES_PER_TICK
        limit = self._queue_limit()
        self._fill_noted(min(limit, end))
        while self.progress.queue_offset < min(limit, end):
            if not self._fill_some(min(READ_COUNT, limit - self.progress.queue_offset)):
                return False
        return self.progress.queue_offset < limit

    def _fill_noted(self, limit: int) -> None:
        """Move records whose units were noted when they were put; one whose slot is over is read, to be delivered."""
        puts = self._noted.take(self.progress.queue_offset, limit, self._writer.failed_commit_count)
        units = plan_puts(puts, self.times)
        if units and min(units)[0] >= self.progress.read_ms:
            self._add(units, [real_topic for _, _, real_topic, _, _ in puts])
            self.progress.queue_offset += len(units)

    def _fill_some(self, count: int) -> bool:
        """Move some records; False when the store takes no writes and one of them is due at once."""
        offset = self.progress.queue_offset
        messages, next_offset = self._read(offset, count)
        write_ms, begin_ms = self._now_slot_ms(), self.progress.read_ms if self._is_master else 0
        planned: list[tuple[StoredMessage, Planned]] = []
        late: list[tuple[StoredMessage, Planned]] = []
        for message in messages:
            if self._linked and message.physical_offset in self._linked:
                continue  # its unit was written behind the last checkpoint; a second one might roll to another slot
            try:
                each = plan(message, write_ms, self.times, begin_ms)
            except ValueError as error:
                self._skip(message.queue_offset, str(error))
                continue
            if not self._is_done_with(message, each):
                late_ms = self.progress.read_ms if self._is_master else 0
                (late if each.unit.slot_ms < late_ms else planned).append((message, each))
        units = [each.unit for _, each in planned]
        topics = [each.real_topic for _, each in planned if not each.unit.magic & MAGIC_DELETE]
        self._add([pack_unit(unit) for unit in units], topics)  # first: one that stands in its slot twice counts once
        if late and not self._deliver_late(late):
            return False
        self.progress.queue_offset = next_offset
        if self._linked and next_offset >= self._bounds()[1]:
            self._linked = set()
        return True

    def _add(self, units: list[PackedUnit], topics: list[str]) -> None:
        """Add units to the wheel. ``topics``: of the messages among them."""
        if not units:
            return
        self._timers.add_packed(units)
        slot = self._slot
        if slot is not None:
            for unit in units:
                if unit[0] == slot.slot_ms:
                    slot.add(unpack_unit(unit))
        if self._is_master:
            for topic, count in Counter(topics).items():
                self.counts.add(topic, count)
        if slot is not None and slot.deletions and slot.is_loaded:
            self._wake(1)

    def _is_done_with(self, message: StoredMessage, each: Planned) -> bool:
        """True for a record that was delivered or rolled: by a slave's master, or before the files were made again."""
        if not self._is_master and each.unit.slot_ms < self.progress.read_ms:
            # A recall stays with its message: both may be read again.
            return not (each.unit.magic & MAGIC_DELETE and self._timers.wheel.slot(each.unit.slot_ms) is not None)
        if message.queue_offset >= self._remade_below:
            return False
        stored_ms = message.store_timestamp_ms // self.times.precision_ms * self.times.precision_ms
        try:
            before = plan(message, stored_ms, self.times).unit
        except ValueError:
            return True
        margin_ms = _ROLL_MARGIN_MS if before.magic & MAGIC_ROLL else 0
        return before.slot_ms + margin_ms < self.progress.read_ms

    def _deliver_late(self, late: list[tuple[StoredMessage, Planned]]) -> bool:
        """Deliver what is due before it reached the wheel; False when that failed."""
        assert self._is_master, "a slave's log holds what its master's holds, and nothing else"
        now_ms = self._clock.now_ms()
        recalled = {recalled_name(message) for message, each in late if each.unit.magic & MAGIC_DELETE}
        for message, each in late:
            if not each.unit.magic & MAGIC_DELETE:
                self.delivery.stage_late(message, recalled, now_ms)
        return self.delivery.commit()

    def _read(self, offset: int, count: int) -> tuple[list[StoredMessage], int]:
        """Return records and the offset behind them, at least one further. An unreadable one is skipped."""
        try:
            result = self._store.get(TIMER_TOPIC, 0, offset, count, READ_SIZE_BYTES)
            return decode_records(b"".join(result.chunks)), max(result.next_offset, offset + 1)
        except (CorruptRecordError, MalformedRecordError) as error:
            if count > 1:
                return self._read(offset, 1)
            self._skip(offset, str(error))
            return [], offset + 1

    def _skip(self, offset: int, why: str) -> None:
        self.skipped_count += 1
        self._log.write("skipped", f"the record at offset {offset} of {TIMER_TOPIC} is skipped: {why}", logging.ERROR)

    # -- out of it -----------------------------------------------------------------------------------------------

    def _deliver(self) -> bool:
        """Deliver what is due; True when more can be done at once."""
        now_ms, now_slot_ms = self._clock.now_ms(), self._now_slot_ms()
        if self._slot is None:
            end_ms = min(now_slot_ms + 1, self.progress.read_ms + SLOTS_PER_TICK * self.times.precision_ms)
            found_ms = self._timers.wheel.next_used(self.progress.read_ms, end_ms)
            if found_ms is None:
                self.progress.read_ms = max(self.progress.read_ms, min(end_ms, now_slot_ms))
                return self.progress.read_ms < now_slot_ms
            self.progress.read_ms = found_ms
            self._slot = OpenSlot(self._timers, found_ms)
        slot = self._slot
        if not slot.load(UNITS_PER_TICK):
            return True
        self.delivery.read_deletions(slot)
        due = slot.take(now_ms, DELIVERIES_PER_TICK)
        if due and not self._deliver_due(slot, due):
            return False  # the next tick tries again
        if slot.is_empty and now_ms >= slot.end_ms:
            self._close_slot(slot)
            return True
        return len(due) == DELIVERIES_PER_TICK

    def _deliver_due(self, slot: OpenSlot, due: list[DueMessage]) -> bool:
        """Deliver what was taken from the slot; what could not be delivered goes back into it."""
        done_count = 0
        if self._store.is_writable:
            done_count = self.delivery.deliver(due, slot, self._clock.now_ms())
        if done_count < len(due):
            slot.put_back(due[done_count:])
            self._log.write("store", "timer messages are due and can't be stored now, the next try follows")
        return done_count == len(due)

    def _close_slot(self, slot: OpenSlot) -> None:
        self._timers.wheel.forget(slot.slot_ms)
        self._slot = None
        self.progress.read_ms = slot.end_ms
        self.change_count += 1

    def _follow_clock_back(self) -> None:
        """Begin earlier again after the clock was set back. What was delivered is not delivered again."""
        now_slot_ms, read_ms = self._now_slot_ms(), self.progress.read_ms
        if now_slot_ms >= read_ms:
            return
        slot = self._slot
        if slot is not None and (not slot.is_loaded or slot.is_large):
            return  # a slot that large is delivered to its end first
        self._keep_rest_of_slot()
        self._slot = None
        begin_ms = max(now_slot_ms, read_ms - self._timers.slot_count * self.times.precision_ms)
        while (used_ms := self._timers.wheel.next_used(begin_ms, read_ms)) is not None:
            self._timers.wheel.forget(used_ms)
            begin_ms = used_ms + self.times.precision_ms
        self.progress.read_ms = now_slot_ms
        self._log.write("clock", f"the clock was set back by {read_ms - now_slot_ms} ms: timers wait for the new time")

    def _keep_rest_of_slot(self) -> None:
        """Let the open slot hold only what is not delivered yet."""
        slot = self._slot
        if slot is not None and slot.is_loaded and not slot.is_large and slot.taken_count:
            self._timers.rewrite(slot.slot_ms, slot.units_left())
            self.change_count += 1

    # -- saving --------------------------------------------------------------------------------------------------

    def _save_from_time_to_time(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_save_ms or self._is_saving:
            return
        self._next_save_ms = now_ms + self._config.timer_flush_interval_ms
        if now_ms >= self._next_clean_ms:
            self._next_clean_ms = now_ms + CLEAN_INTERVAL_MS
            self._timers.log.drop_before(self._store.physical_min_offset)
            self.counts.save_soon()
        savable = self._savable()
        if savable == self._saved:
            return
        state = self._state()
        self._is_saving = True

        def done(result: Result) -> None:
            self._is_saving = False
            try:
                result.result()
            except (StoreError, OSError) as error:
                self._log.write("files", f"the timer files could not be saved, the next try follows: {error}")
            else:
                self._written(state, savable)

        self._run_in_thread(lambda: self._write_in_thread(state), done)

    def _savable(self) -> tuple[int, ...]:
        """Return what differs when there is something to save; the time alone only once a minute."""
        return self._timers.log.end, *self.stamp()

    def _state(self) -> TimerState:
        if self._is_master:
            state, _, counter = self._timers.version
            self._timers.version = (state, self._clock.now_ms(), counter + 1)
        return self._timers.state(self.progress, self._master_offset())

    def _write(self, state: TimerState) -> None:
        self._write_in_thread(state)
        self._written(state, self._savable())

    def _write_in_thread(self, state: TimerState) -> int:
        # Delivered copies must be on the disk before their slots count as delivered.
        self._store.sync(log_only=True)
        self._timers.write(state)
        return 0

    def _written(self, state: TimerState, savable: tuple[int, ...]) -> None:
        self._timers.written(state)
        self._saved = savable

    # -- the rest ------------------------------------------------------------------------------------------------

    def _queue_limit(self) -> int:
        """Up to this queue offset records may enter the wheel: on a slave not before they did on its master."""
        high = self._bounds()[1]
        return high if self._is_master else min(high, self._master_queue_offset)

    def _master_offset(self) -> int:
        return self.progress.queue_offset if self._is_master else self._master_queue_offset

    def _bounds(self) -> tuple[int, int]:
        return self._store.min_offset(TIMER_TOPIC, 0), self._store.max_offset(TIMER_TOPIC, 0)

    def _now_slot_ms(self) -> int:
        return self._clock.now_ms() // self.times.precision_ms * self.times.precision_ms

    def _wake(self, delay_ms: int) -> None:
        self._wake_in(max(delay_ms, 1))
