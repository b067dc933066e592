"""TimerDelivery: puts due messages into their real topic, and rolled ones into the wheel's topic again."""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING

from pymq.broker.timers.open_slot import DueMessage, OpenSlot
from pymq.broker.timers.timer_counts import TimerCounts
from pymq.broker.timers.timer_records import (
    NEVER_ENQUEUED_MS,
    cancelled_name,
    delivered_properties,
    is_of_slot,
    recalled_name,
)
from pymq.broker.timers.unit_topics import UnitTopics
from pymq.errors import CorruptRecordError, NotFoundError, StoreError, StoreUnavailableError, UnreadableError
from pymq.model import timers
from pymq.model.names import TIMER_TOPIC
from pymq.model.properties import REAL_QUEUE_ID, REAL_TOPIC
from pymq.model.record import MalformedRecordError, StoredMessage, decode_record

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.metadata.topics import TopicManager
    from pymq.rate_limited_log import RateLimitedLog
    from pymq.store.store import MessageStore

_CANCELS = timers.DELETE_KEY.decode()
_ROLL_TIMES = timers.ROLL_TIMES.decode()
_FOUND_MAX = 64


class _Fate(Enum):
    DELIVERED = 1
    ROLLED = 2
    RECALLED = 3
    DROPPED = 4


class TimerDelivery:
    """Stages messages; :meth:`commit` stores them."""

    def __init__(
        self, *, store: MessageStore, writer: Writer, topics: TopicManager, counts: TimerCounts, log: RateLimitedLog
    ) -> None:
        self.delivered_count = 0
        self.rolled_count = 0
        self.recalled_count = 0
        self.dropped_count = 0
        self._store = store
        self._writer = writer
        self._topics = topics
        self._counts = counts
        self._log = log

    def read_deletions(self, slot: OpenSlot) -> None:
        """Read which messages of the slot were recalled. Raises UnreadableError."""
        while slot.deletions:
            message = self._record(slot.deletions[-1], slot)
            if message is not None and (name := recalled_name(message)):
                slot.deleted.add(name)
            slot.deletion_read()

    def deliver(self, due: list[DueMessage], slot: OpenSlot, now_ms: int) -> int:
        """Stage and commit. Return how many are done: fewer when the disk fails, none of a failed commit."""
        fates: list[tuple[str, _Fate]] = []
        for each in due:
            try:
                fates.append(self._stage_due(each, slot, now_ms))
            except (StoreUnavailableError, UnreadableError) as error:
                self._log.write("store", f"the timer message at {each.physical_offset} must wait: {error}")
                break
        if not self.commit():
            return 0
        for topic, fate in fates:
            self._counts.add(topic, -1)
            self.delivered_count += fate is _Fate.DELIVERED
            self.rolled_count += fate is _Fate.ROLLED
            self.recalled_count += fate is _Fate.RECALLED
        return len(fates)

    def _stage_due(self, due: DueMessage, slot: OpenSlot, now_ms: int) -> tuple[str, _Fate]:
        """Return the topic that counted the message, empty for none, and what becomes of it."""
        message = self._record(due, slot)
        if message is None:
            self.dropped_count += 1
            return UnitTopics(self._topics.all(), self._store).topic_of(due), _Fate.DROPPED
        topic = message.properties.get(REAL_TOPIC, "")
        if self._is_deleted(message, topic):
            return topic, _Fate.DROPPED
        if due.is_roll:
            rolled = delivered_properties(message, due.write_ms, now_ms, rolls=True)
            self._writer.put_again(message, TIMER_TOPIC, 0, rolled)
            return "" if _CANCELS in message.properties else topic, _Fate.ROLLED
        if slot.deleted and cancelled_name(message) in slot.deleted:
            return topic, _Fate.RECALLED
        if self._was_recalled(message):
            return topic, _Fate.RECALLED
        return topic, _Fate.DELIVERED if self._stage(message, due.write_ms, now_ms) else _Fate.DROPPED

    def stage_late(self, message: StoredMessage, recalled: set[str], now_ms: int) -> None:
        """Stage a message that is due before it reached the wheel. Raises StoreUnavailableError."""
        if self._is_deleted(message, message.properties.get(REAL_TOPIC, "")):
            return
        if (recalled and cancelled_name(message) in recalled) or self._was_recalled(message):
            self.recalled_count += 1
        elif self._stage(message, NEVER_ENQUEUED_MS, now_ms):
            self.delivered_count += 1

    def _was_recalled(self, message: StoredMessage) -> bool:
        """Return whether a recall stands in the log, for a message that rolled over; others share a slot with theirs.

        The recall may be out of the wheel: with a slot that is done with, on a broker that rolls a message again
        because a master whose clock was behind took its place for a while. It may not be in it yet: with slaves that
        don't confirm the record of the recall that rolled over, too.
        """
        if _ROLL_TIMES not in message.properties:
            return False
        try:
            found = self._store.find_by_key(TIMER_TOPIC, message.properties.get("UNIQ_KEY", ""), _FOUND_MAX)
        except StoreError:  # its time is over: it is rather delivered than kept for an index that is made again
            return False
        name = cancelled_name(message)
        return any(recalled_name(decode_record(raw)) == name for raw in found)

    def commit(self) -> bool:
        """Store what is staged."""
        failures = self._writer.failed_commit_count
        self._writer.commit()
        return self._writer.failed_commit_count == failures

    def _record(self, due: DueMessage, slot: OpenSlot) -> StoredMessage | None:
        """Return the record of the wheel's topic, None when it is gone or damaged, which is logged."""
        try:
            message = decode_record(self._store.record_at(due.physical_offset))
        except (NotFoundError, CorruptRecordError, MalformedRecordError) as error:
            self._log.write("lost", f"the timer message at {due.physical_offset} is lost: {error}", logging.ERROR)
            return None
        return message if is_of_slot(message, due.size_bytes, slot.slot_ms, slot.end_ms, rolls=due.is_roll) else None

    def _is_deleted(self, message: StoredMessage, topic: str) -> bool:
        """Return True for a message of a topic that was deleted since, and perhaps made again."""
        if not self._store.deletions.covers(topic, message.physical_offset):
            return False
        self.dropped_count += 1
        self._log.write("dropped", f"a timer message at {message.physical_offset} was dropped: {topic!r} was deleted")
        return True

    def _stage(self, message: StoredMessage, enqueue_ms: int, now_ms: int) -> bool:
        properties = message.properties
        if _CANCELS in properties:
            return False  # a recall that came too late for its message is never delivered
        topic_name, queue_text = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "")
        topic = self._topics.get(topic_name)
        if topic is None or topic_name == TIMER_TOPIC or not queue_text.isdecimal():
            self.dropped_count += 1
            self._log.write(
                "dropped", f"a timer message at {message.physical_offset} was dropped: no topic {topic_name!r}"
            )
            return False
        queue_id = topic.existing_queue(int(queue_text[:9]))
        delivered = delivered_properties(message, enqueue_ms, now_ms, rolls=False)
        self._writer.put_again(message, topic_name, queue_id, delivered)
        return True
