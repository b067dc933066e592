"""Reviver: delivers messages again whose invisible time is over and that were not acknowledged.

A message goes to the group's retry topic of its topic, with one more reconsume time; after the group's last try it goes
to the group's dead letters. Java: PopReviveService, which knows no dead letters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.pop.check_points import CheckPoint
from pymq.broker.pop.popper import without_receipt
from pymq.broker.pop.revive_log import TIMER_GRACE_MS, ReviveLog
from pymq.broker.runtime import Runtime
from pymq.errors import CorruptRecordError, PymqError, Refusal, StoreError
from pymq.model import pop
from pymq.model.layout import PROPERTIES_SIZE_MAX_BYTES
from pymq.model.properties import RETRY_TOPIC, append_properties, encode_properties, find_property, without_properties
from pymq.model.record import MalformedRecordError, StoredMessage, decode_record

if TYPE_CHECKING:
    from pymq.broker.messages.retries import Retries
    from pymq.broker.messages.writer import Writer
    from pymq.model.tables import SubscriptionGroupConfig
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

# Check points in one tick: a burst must not hold up other work for long.
REVIVALS_PER_TICK = 256
# A check point that can't be delivered now (a full disk, the limit of topics) is tried again after this time.
TRY_AGAIN_MS = 5000
# A check point whose record lies this far behind its queue's end is written again, so that a start reads no more.
RECORDS_BEHIND_MAX = 50_000
REWRITES_PER_TICK = 256
SAVE_PERIOD_MS = 1000
# A wall clock that goes back by more was set back; check points are due by it.
CLOCK_STEP_MS = 1000

_RETRY_TOPIC = RETRY_TOPIC.encode()
# Gets topic and group of messages that are there again.
Revived = Callable[[str, str], None]


class Reviver:
    """Does the master's work on check points. :meth:`tick` is cheap when nothing is due."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        writer: Writer,
        retries: Retries,
        revive_log: ReviveLog,
    ) -> None:
        self.on_revived: Revived = lambda topic, group: None
        self.revived_count = 0  # messages
        self.dropped_count = 0  # messages that are gone, with their topic, group or segment
        self._config = runtime.config
        self._clock = runtime.clock
        self._store = store
        self._writer = writer
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._cursors = metadata.cursors
        self._retries = retries
        self._log = revive_log
        self._host = runtime.store_host
        self._is_failing = False
        self._last_ms: int | None = None  # of the wall clock
        self._next_save_ms = runtime.clock.monotonic_ms()

    def tick(self) -> bool:
        """Deliver again what is due, and save how far the revive topic is not needed. Return True for deliveries."""
        self._log.catch_up()
        wall_ms = self._clock.now_ms()
        if self._last_ms is None:  # the clock may have been set back while no broker ran
            self._log.check_points.clock_went_back(wall_ms, TIMER_GRACE_MS)
        elif wall_ms < self._last_ms - CLOCK_STEP_MS:
            self._log.check_points.clock_went_back(wall_ms)
        self._last_ms = wall_ms
        delivered = self._deliver_due(wall_ms)
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_save_ms:
            self._next_save_ms = now_ms + SAVE_PERIOD_MS
            self._rewrite_old()
            self._log.save_finished()
        return delivered

    def _deliver_due(self, now_ms: int) -> bool:
        points = self._log.check_points
        due_ms = points.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return False
        if not self._store.is_writable:
            self._note_failure("the store takes no writes")
            return False
        taken: list[CheckPoint] = []
        while len(taken) < REVIVALS_PER_TICK and (point := points.take_due(now_ms)) is not None:
            taken.append(point)
            self._deliver(point, now_ms)
        failures = self._writer.failed_commit_count
        self._writer.commit()
        if self._writer.failed_commit_count != failures:
            for point in taken:
                if points.get(point.key) is point:
                    points.put_off(point, now_ms + TRY_AGAIN_MS)
            self._note_failure("the commit failed")
            return False
        return bool(taken)

    def _deliver(self, point: CheckPoint, now_ms: int) -> None:
        """Stage what is left of a check point, and its acknowledgement. When that fails it is due again later."""
        key, points = point.key, self._log.check_points
        topic, flag = pop.normal_topic(key.topic, key.group)
        group = self._group(key.group)
        if self._topics.get(topic) is None or group is None:
            log.warning(
                "messages of %s for group %s are not delivered again: topic or group are gone", topic, key.group
            )
            self._finish(point, point.left_offsets(), dropped=point.left_count)
            return
        done, dropped = [], 0
        try:
            for offset in point.left_offsets():
                message = self._message_at(key.topic, key.queue_id, offset)
                if message is None:
                    dropped += 1
                else:
                    self._stage(message, point, topic, flag, group)
                done.append(offset)
        except (PymqError, OSError) as error:
            self._note_failure(str(error))
            points.put_off(point, now_ms + TRY_AGAIN_MS)
        if done:
            self._finish(point, done, dropped)
            self._writer.when_committed(lambda is_stored: self.on_revived(topic, key.group))

    def _group(self, name: str) -> SubscriptionGroupConfig | None:
        """Return the group, made again if a kill came before it was saved; None when it may not be made."""
        try:
            return self._groups.ensure(name)
        except Refusal:
            return None

    def _finish(self, point: CheckPoint, offsets: list[int], dropped: int) -> None:
        try:
            self._log.put_ack(point, point.bits_left(offsets))
        except StoreError as error:  # the commit of what was staged before fails as well
            self._note_failure(str(error))
            self._log.check_points.put_off(point, self._clock.now_ms() + TRY_AGAIN_MS)
            return
        self.dropped_count += dropped
        self.revived_count += len(offsets) - dropped

    def _message_at(self, topic: str, queue_id: int, offset: int) -> StoredMessage | None:
        """Return a message; None when it is no longer there or damaged. Raises UnreadableError when the disk fails."""
        queue = self._store.queue_view(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        try:
            message = decode_record(self._store.record_at(queue.unit(offset)[0]))
        except (CorruptRecordError, MalformedRecordError) as error:
            log.error(
                "%s queue %d: the message at offset %d can't be delivered again: %s", topic, queue_id, offset, error
            )
            return None
        except PymqError as error:
            if isinstance(error, StoreError):
                raise
            return None  # outside the log: its segment is gone
        return message if message.queue_offset == offset else None

    def _stage(
        self, message: StoredMessage, point: CheckPoint, topic: str, flag: int, group: SubscriptionGroupConfig
    ) -> None:
        """Stage a message for its next try, or as a dead letter after the last one. Raises PymqError."""
        if message.reconsume_times >= group.retry_max_times:
            self._retries.bury(message, group.group_name, topic)
            return
        group_name = group.group_name
        if self._config.enable_retry_topic_v2:
            name = pop.retry_topic_v2(group_name, topic)
        else:
            name = pop.retry_topic_v1(group_name, topic)
        queue_id = self._retry_queue(name, topic, message)
        if self._cursors.query(group_name, name, queue_id) < 0:
            self._cursors.check_room()
            self._cursors.hand_out(group_name, name, queue_id, self._store.min_offset(name, queue_id))
        raw = without_receipt(message.raw_properties)
        if find_property(raw, pop.FIRST_POP_TIME.encode()) is None:
            first = encode_properties({pop.FIRST_POP_TIME: str(point.key.pop_time_ms)})
            raw = append_properties(raw, first) if len(raw) + len(first) < PROPERTIES_SIZE_MAX_BYTES else raw
        if not self._config.enable_retry_topic_v2:  # the name may be that of two pairs
            raw = without_properties(raw, (_RETRY_TOPIC,))
            raw = append_properties(raw, encode_properties({RETRY_TOPIC: topic}))
        tries = message.reconsume_times + 1
        self._writer.put_again(message, name, queue_id, raw, born_host=self._host, reconsume_times=tries)
        self._is_failing = False

    def _retry_queue(self, retry_topic: str, topic: str, message: StoredMessage) -> int:
        """Return the queue of a retry topic for a message; the topic has it. Raises PymqError.

        With useSeparateRetryQueue it is the queue that the message was in, so a retry keeps its priority.
        """
        if not self._config.use_separate_retry_queue:
            self._topics.ensure_internal(retry_topic)
            return 0
        count = self._topics.require(topic).write_queue_nums
        self._topics.widen_internal(retry_topic, count)
        return message.queue_id if message.queue_id < count else 0

    def _rewrite_old(self) -> None:
        """Write check points again that alone make a start read many records. The old records are not needed then."""
        points = self._log.check_points
        for queue_id in range(self._log.queue_count):
            limit = points.end(queue_id) - RECORDS_BEHIND_MAX
            for point in points.older_than(queue_id, limit, REWRITES_PER_TICK):
                try:
                    self._log.put_again(point)
                except StoreError as error:
                    self._note_failure(str(error))
                    return
        self._writer.commit()

    def _note_failure(self, why: str) -> None:
        if not self._is_failing:
            log.warning("popped messages can't be delivered again now and are tried again: %s", why)
        self._is_failing = True
