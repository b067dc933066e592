"""DelayService: moves delayed messages from their level's queue to their real topic when they are due.

Messages of a level are due in the order they came, so the service watches only the head of each level. It saves its
progress in ``delayOffset.json``. After a crash, messages that were delivered since the last save are delivered again.
Java: ScheduleMessageService.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pymq.broker.metadata.table_reading import read_numbers, read_version
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.runtime import Runtime
from pymq.errors import CorruptRecordError, StoreUnavailableError, UnreadableError
from pymq.model import properties as props
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.record import MalformedRecordError, StoredMessage, decode_records
from pymq.model.tables import DataVersion

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.metadata.topics import TopicManager
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

READ_COUNT = 32
READ_SIZE_BYTES = 1024 * 1024
# Messages of one level in one tick: a burst must not hold up other work for long.
DELIVERIES_PER_TICK = 512
_AT_ONCE = 0


class DelayService:
    """Delivers by level. :meth:`tick` is cheap when nothing is due; :meth:`next_due_ms` returns when it must run."""

    def __init__(
        self,
        runtime: Runtime,
        table: TableSaver,
        *,
        store: MessageStore,
        writer: Writer,
        topics: TopicManager,
    ) -> None:
        self.data_version = DataVersion()
        self.change_count = 0  # of the levels' progress
        self.delivered_count = 0
        self.dropped_count = 0
        self._table = table
        self._clock = runtime.clock
        self._config = runtime.config
        self._store = store
        self._writer = writer
        self._topics = topics
        self._delays_ms = runtime.config.delay_level_ms
        self._offsets: dict[int, int] = {}
        # Level -> when its head is due (wall clock ms); a level without waiting messages is not here.
        self._heads: dict[int, int] = {}
        self._dirty = False
        self._is_copy = False  # a copy of a master's table, which counts the versions
        self._is_failing = False
        self._next_save_ms = runtime.clock.monotonic_ms() + table.interval_ms(
            runtime.config.flush_delay_offset_interval_ms
        )

    def load(self) -> None:
        """Read ``delayOffset.json``. A slave only loads it and takes its master's tables: the master delivers."""
        loaded = self._table.load()
        self.data_version = read_version(loaded)
        self._offsets = read_numbers(loaded.get("offsetTable"))

    def take_over(self, table: dict[str, Any]) -> None:
        """Take a master's table with its version in place of this one; :meth:`tick` saves it soon."""
        self.data_version = read_version(table)
        self._offsets = read_numbers(table.get("offsetTable"))
        self._dirty = self._is_copy = True
        self._next_save_ms = self._clock.monotonic_ms()

    def start(self) -> None:
        """Read the table and find the levels with waiting messages, to deliver them. The store must be open."""
        self.load()
        stored, self._offsets = self._offsets, {}
        for level in self._delays_ms:
            low, high = self._bounds(level)
            self._offsets[level] = max(low, min(stored.get(level, 0), high))
            if self._offsets[level] < high:
                self._heads[level] = _AT_ONCE

    def on_arrival(self, topic: str, queue_id: int, max_offset: int, tags_codes: Sequence[int]) -> None:
        """Take note of an arrival: a level that was empty has a head now, whose tags code is its due time."""
        if topic == SCHEDULE_TOPIC and tags_codes:
            self._heads.setdefault(queue_id + 1, tags_codes[0])

    def next_due_ms(self) -> int | None:
        """Return when the next message is due (wall clock ms, possibly past); None while nothing waits."""
        return min(self._heads.values(), default=None)

    def tick(self) -> bool:
        """Deliver what is due, and save progress from time to time. Return True when something was delivered."""
        now_ms = self._clock.now_ms()
        delivered = False
        for level, due_ms in list(self._heads.items()):
            if self._is_due(level, due_ms, now_ms):
                delivered = self._deliver(level, now_ms) or delivered
        self._save_from_time_to_time()
        return delivered

    def offsets(self) -> dict[int, int]:
        """Return the next offset in the queue of each level that was ever used."""
        return {level: offset for level, offset in self._offsets.items() if offset > 0 or self._bounds(level)[1] > 0}

    def as_table(self) -> dict[str, Any]:
        """Return the saved object."""
        offsets = {str(level): offset for level, offset in self.offsets().items()}
        return {"dataVersion": msgspec.to_builtins(self.data_version), "offsetTable": offsets}

    def save(self) -> None:
        """Save now if anything changed. Raises StoreError."""
        if self._dirty or self._table.is_busy:
            self._count_version()
            self._table.save(self.as_table())
            self._dirty = False

    def _deliver(self, level: int, now_ms: int) -> bool:
        """Stage and commit what is due of a level. Its offset moves only when the commit succeeds."""
        if not self._store.is_writable:  # for example with too few slaves: reading would be in vain
            self._note_failure(level, "the store takes no writes")
            return False
        offset = start = self._offsets[level]
        try:
            offset, head = self._stage_due(level, offset, now_ms)
        except (StoreUnavailableError, UnreadableError) as error:
            self._note_failure(level, str(error))
            return False
        failures = self._writer.failed_commit_count
        self._writer.commit()
        if self._writer.failed_commit_count != failures:
            self._note_failure(level, "the commit failed")
            return False
        self._is_failing = False
        if offset != start:
            self._offsets[level] = offset
            self.change_count += 1
            self._dirty = True
        if head is None and offset < self._bounds(level)[1]:
            head = _AT_ONCE  # the commit above also stored new messages of this level
        if head is None:
            self._heads.pop(level, None)
        else:
            self._heads[level] = head
        return offset != start

    def _stage_due(self, level: int, offset: int, now_ms: int) -> tuple[int, int | None]:
        """Stage what is due. Return the offset of the first message that isn't, and when it is due (None at the end).

        Raises StoreUnavailableError, and UnreadableError when nothing was staged before the unreadable message.
        """
        delay_ms, start = self._delays_ms[level], offset
        last = offset + DELIVERIES_PER_TICK
        high = self._bounds(level)[1]
        while offset < min(last, high):
            try:
                messages, next_offset = self._read(level, offset, min(READ_COUNT, last - offset))
            except UnreadableError:
                if offset == start:
                    raise
                return offset, _AT_ONCE
            for message in messages:
                due_ms = message.store_timestamp_ms + delay_ms
                if not self._is_due(level, due_ms, now_ms):
                    return message.queue_offset, due_ms
                self._stage(message)
            offset = next_offset
        return offset, (_AT_ONCE if offset < high else None)

    def _read(self, level: int, offset: int, count: int) -> tuple[list[StoredMessage], int]:
        """Return messages and the offset behind them, at least one further. A damaged record is skipped and counted."""
        try:
            result = self._store.get(SCHEDULE_TOPIC, level - 1, offset, count, READ_SIZE_BYTES)
            return decode_records(b"".join(result.chunks)), max(result.next_offset, offset + 1)
        except (CorruptRecordError, MalformedRecordError) as error:
            if count > 1:
                return self._read(level, offset, 1)
            self.dropped_count += 1
            log.error("delay level %d: the message at offset %d can't be read and is lost: %s", level, offset, error)
            return [], offset + 1

    def _stage(self, message: StoredMessage) -> None:
        topic_name = message.properties.get(props.REAL_TOPIC, "")
        queue_text = message.properties.get(props.REAL_QUEUE_ID, "")
        topic = self._topics.get(topic_name)
        origin = message.properties.get(props.RETRY_TOPIC, topic_name)  # of a message that was given back
        covers = self._store.deletions.covers
        is_deleted = any(covers(name, message.physical_offset) for name in (topic_name, origin))
        if topic is None or is_deleted or not queue_text.isdigit():
            self.dropped_count += 1
            log.warning("the delayed message at %d was dropped: topic %r is gone", message.queue_offset, topic_name)
            return
        queue_id = topic.existing_queue(int(queue_text[:9]))
        self._writer.put_again(message, topic_name, queue_id, message.raw_properties)
        self.delivered_count += 1

    def _is_due(self, level: int, due_ms: int, now_ms: int) -> bool:
        # A due time further off than the whole delay means that the clock was set back: the wait would be too long.
        return due_ms <= now_ms or due_ms > now_ms + self._delays_ms[level]

    def _bounds(self, level: int) -> tuple[int, int]:
        queue_id = level - 1
        return self._store.min_offset(SCHEDULE_TOPIC, queue_id), self._store.max_offset(SCHEDULE_TOPIC, queue_id)

    def _note_failure(self, level: int, why: str) -> None:
        if not self._is_failing:
            log.warning("delay level %d can't be delivered now and is tried again: %s", level, why)
        self._is_failing = True

    def _save_from_time_to_time(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_save_ms:
            return
        self._next_save_ms = now_ms + self._table.interval_ms(self._config.flush_delay_offset_interval_ms)
        if self._dirty and not self._table.is_busy:
            self._dirty = False
            self._count_version()
            table = self.as_table()
            self._table.save_soon(lambda: table, self._saved)

    def _count_version(self) -> None:
        if not self._is_copy:
            self.data_version = self.data_version.next(self._clock.now_ms())

    def _saved(self, error: Exception | None) -> None:
        if error is not None:
            self._dirty = True
            log.warning("the delay levels' progress could not be saved, trying again: %s", error)
