"""ReviveLog: check points and acknowledgements as records of the revive topic, and CheckPoints read from it.

RocketMQ keeps these records in its timer topic until they are due. Here they go straight to the revive topic, and the
check points wait in memory. Each record's TIMER_DELIVER_MS is the time of its write. RocketMQ's broker takes that for
the time up to which it has seen all acknowledgements, so it goes on with such a directory correctly.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from pymq.broker.pop.check_points import CheckPoint, CheckPointKey, CheckPoints
from pymq.clock import Clock
from pymq.errors import CorruptRecordError, StoreUnavailableError, UnreadableError
from pymq.model import pop
from pymq.model.draft import Draft
from pymq.model.javahash import tags_code
from pymq.model.record import MalformedRecordError, StoredMessage, decode_records

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.metadata.cursors import CursorManager
    from pymq.config import BrokerConfig
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

READ_COUNT = 512
READ_SIZE_BYTES = 1024 * 1024
# A check point that came out of RocketMQ's timer precedes its acknowledgements, which come out up to this much later,
# also when a start finds all of them overdue.
TIMER_GRACE_MS = 3000
# Unreadable records are logged up to this number; their count goes on.
LOGGED_COUNT_MAX = 20
_TIMER_OUT = "TIMER_OUT_MS"
_PROPERTIES = b"TIMER_DELIVER_MS\x01%d\x02TAGS\x01%b\x02UNIQ_KEY\x01%b\x02"
_TAGS_CODES = {tag: tags_code(tag) for tag in (pop.CHECK_POINT_TAG, pop.ACK_TAG, pop.BATCH_ACK_TAG)}
_INT32_BITS = 0xFFFFFFFF


class ReviveLog:
    """Writes and reads the revive topic of this broker's cluster."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        writer: Writer,
        cursors: CursorManager,
        store_host: bytes,
    ) -> None:
        self.topic = pop.revive_topic(config.broker_cluster_name)
        self.queue_count = config.revive_queue_num
        self.check_points = CheckPoints(self.queue_count)
        self.unreadable_count = 0
        self._saved_ms: int | None = None  # while a start reads: when the groups' offsets were saved
        self._broker_name = config.broker_name
        self._clock = clock
        self._store = store
        self._stager = store.plain_stager()
        self._writer = writer
        self._cursors = cursors
        self._host = store_host
        self.when_committed = writer.when_committed

    # -- writing -------------------------------------------------------------------------------------------------

    def put_check_point(
        self, key: CheckPointKey, offsets: Sequence[int], invisible_ms: int, revive_queue_id: int, acked_bits: int = 0
    ) -> CheckPoint:
        """Stage a check point and return it. It is open once the commit succeeds. Raises StoreUnavailableError."""
        revive_ms = key.pop_time_ms + invisible_ms
        record = pop.CheckPointRecord(
            acked_bits=_signed(acked_bits),
            broker_name=self._broker_name,
            group=key.group,
            distances=[offset - key.start_offset for offset in offsets],
            invisible_ms=invisible_ms,
            count=len(offsets),
            pop_time_ms=key.pop_time_ms,
            queue_id=key.queue_id,
            revive_ms=revive_ms,
            start_offset=key.start_offset,
            topic=key.topic,
        )
        unique = f"{key.topic}@{key.queue_id}@{key.start_offset}@{self._of_hand_out(key)}@ck"
        place = self._put(revive_queue_id, pop.CHECK_POINT_TAG, unique, msgspec.json.encode(record))
        point = CheckPoint(
            key,
            offsets,
            invisible_ms=invisible_ms,
            due_ms=revive_ms,
            revive_queue_id=revive_queue_id,
            revive_offset=place,
            acked_bits=acked_bits,
        )

        def committed(is_stored: bool) -> None:
            if is_stored:
                self.check_points.add(point)

        self._writer.when_committed(committed)
        return point

    def put_ack(self, point: CheckPoint, bits: int) -> None:
        """Stage the acknowledgement of a check point's messages with these bits. It counts once the commit succeeds.

        Raises StoreUnavailableError.
        """
        key, offsets = point.key, point.offsets_of(bits)
        is_batch = len(offsets) > 1
        record = pop.AckRecord(
            offset=-1 if is_batch else offsets[0],
            offsets=offsets if is_batch else None,
            broker_name=self._broker_name,
            group=key.group,
            pop_time_ms=key.pop_time_ms,
            queue_id=key.queue_id,
            start_offset=key.start_offset,
            topic=key.topic,
        )
        unique = f"{key.topic}@{key.queue_id}@{record.offset}@{self._of_hand_out(key)}@ack"
        tag = pop.BATCH_ACK_TAG if is_batch else pop.ACK_TAG
        place = self._put(point.revive_queue_id, tag, unique, msgspec.json.encode(record))

        def committed(is_stored: bool) -> None:
            if is_stored:
                self.check_points.pass_record(point.revive_queue_id, place)
                self.check_points.ack(key, bits)

        self._writer.when_committed(committed)

    def forget(self, *, topics: Collection[str] = (), groups: Collection[str] = ()) -> None:
        """Forget the check points of deleted topics or groups: their messages are not delivered again.

        A start does not take in those of a topic again; those of a group get an acknowledgement with the next commit.
        Where the store takes none, they are due and find the group gone.
        """
        for point in self.check_points.of(topics=topics, groups=groups):
            if groups:
                try:
                    self.put_ack(point, point.left)
                except StoreUnavailableError as error:
                    log.warning("what the deleted group %s has to acknowledge stays open: %s", point.key.group, error)
                    return
            else:
                self.check_points.drop(point)

    def put_again(self, point: CheckPoint) -> None:
        """Stage a newer record of a check point, with its acknowledgements, so that the old one is not needed."""
        acked_bits = ((1 << len(point.offsets)) - 1) & ~point.left
        again = self.put_check_point(point.key, point.offsets, point.invisible_ms, point.revive_queue_id, acked_bits)
        again.due_ms = point.due_ms

    def _of_hand_out(self, key: CheckPointKey) -> str:
        return f"{key.group}@{key.pop_time_ms}@{self._broker_name}"

    def _put(self, queue_id: int, tag: str, unique: str, body: bytes) -> int:
        now_ms = self._clock.now_ms()
        properties = _PROPERTIES % (now_ms, tag.encode(), unique.encode())
        draft = Draft(body, properties, now_ms, self._host, _TAGS_CODES[tag], keyed=properties)
        queue = self._stager.queue(self.topic, queue_id)
        if queue is None:  # the broker has an IPv6 address
            return self._writer.put(self.topic, queue_id, draft).queue_offset
        offset = queue.next_offset
        self._stager.stage(queue, draft)
        self._writer.staged_count += 1
        return offset

    # -- reading -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Take in the records that are still needed. Raises UnreadableError.

        Hand-outs after the last save of the groups' offsets move these forward, as they did before the stop.
        """
        self._saved_ms = self._cursors.data_version.timestamp
        self._cursors.bind_to_log(pop.REVIVE_GROUP, self.topic)
        for queue_id in range(self.queue_count):
            finished = self._cursors.query(pop.REVIVE_GROUP, self.topic, queue_id)
            self.check_points.begin_at(queue_id, max(finished + 1, self._store.min_offset(self.topic, queue_id)))
            while self._catch_up_some(queue_id):
                pass
        self._saved_ms = None

    def catch_up(self) -> None:
        """Take in records that RocketMQ's timer held back, some in each call."""
        for queue_id in range(self.queue_count):
            try:
                self._catch_up_some(queue_id)
            except (StoreUnavailableError, UnreadableError) as error:
                log.warning("revive queue %d can't be read now and is read again: %s", queue_id, error)

    def _catch_up_some(self, queue_id: int) -> bool:
        """Take in some records. Return True when there may be more."""
        start, end = self.check_points.end(queue_id), self._store.max_offset(self.topic, queue_id)
        if start >= end:
            return False
        messages, next_offset = self._read(queue_id, start, READ_COUNT)
        for message in messages:
            self._take(message)
        if next_offset > self.check_points.end(queue_id):
            self.check_points.begin_at(queue_id, next_offset)
        return True

    def _read(self, queue_id: int, offset: int, count: int) -> tuple[list[StoredMessage], int]:
        """Return messages and the offset behind them, at least one further. A damaged record is skipped and counted."""
        try:
            result = self._store.get(self.topic, queue_id, offset, count, READ_SIZE_BYTES)
            return decode_records(b"".join(result.chunks)), max(result.next_offset, offset + 1)
        except (CorruptRecordError, MalformedRecordError) as error:
            if count > 1:
                return self._read(queue_id, offset, 1)
            self._note_unreadable(queue_id, offset, str(error))
            return [], offset + 1

    def _take(self, message: StoredMessage) -> None:
        try:
            if message.tags == pop.CHECK_POINT_TAG:
                self._take_check_point(message)
            elif message.tags in (pop.ACK_TAG, pop.BATCH_ACK_TAG):
                self._take_ack(message)
            else:
                raise ValueError(f"its tag is {message.tags[:20]!r}, not ck, ack or bAck")
        except ValueError as error:
            self._note_unreadable(message.queue_id, message.queue_offset, str(error))

    def _take_check_point(self, message: StoredMessage) -> None:
        record = pop.decode_check_point(message.body)
        distances = list(range(record.count)) if record.distances is None else record.distances
        if not 0 < len(distances) <= pop.MESSAGES_PER_CHECK_POINT_MAX:
            raise ValueError(f"it names {len(distances)} messages, 1 to {pop.MESSAGES_PER_CHECK_POINT_MAX} can be")
        if len(set(distances)) < len(distances):
            raise ValueError("it names a message twice")
        if self._store.deletions.covers(record.topic, message.physical_offset):
            self.check_points.pass_record(message.queue_id, message.queue_offset)
            return  # of a topic that was deleted, and perhaps made again
        self._cursors.bind_to_log(record.group, record.topic)
        if self._saved_ms is not None and record.pop_time_ms >= self._saved_ms:
            end = min(record.start_offset + distances[-1] + 1, self._store.max_offset(record.topic, record.queue_id))
            self._cursors.advance(record.group, record.topic, record.queue_id, end)
        due_ms = record.pop_time_ms + record.invisible_ms
        if _TIMER_OUT in message.properties:
            due_ms = max(due_ms, self._clock.now_ms()) + TIMER_GRACE_MS
        self.check_points.add(
            CheckPoint(
                CheckPointKey(record.topic, record.group, record.queue_id, record.start_offset, record.pop_time_ms),
                [record.start_offset + distance for distance in distances],
                invisible_ms=record.invisible_ms,
                due_ms=due_ms,
                revive_queue_id=message.queue_id,
                revive_offset=message.queue_offset,
                acked_bits=record.acked_bits & _INT32_BITS,
            )
        )

    def _take_ack(self, message: StoredMessage) -> None:
        record = pop.decode_ack(message.body)
        key = CheckPointKey(record.topic, record.group, record.queue_id, record.start_offset, record.pop_time_ms)
        point = self.check_points.get(key)
        if point is not None:
            self.check_points.ack(key, point.bits_left([record.offset] if record.offsets is None else record.offsets))

    def _note_unreadable(self, queue_id: int, offset: int, why: str) -> None:
        self.unreadable_count += 1
        if self.unreadable_count <= LOGGED_COUNT_MAX:
            log.error("the record at offset %d of revive queue %d is skipped: %s", offset, queue_id, why)

    def save_finished(self) -> None:
        """Commit how far each revive queue is not needed any more."""
        for queue_id in range(self.queue_count):
            finished = self.check_points.finished_offset(queue_id)
            if finished > self._cursors.query(pop.REVIVE_GROUP, self.topic, queue_id):
                self._cursors.advance(pop.REVIVE_GROUP, self.topic, queue_id, finished)


def _signed(bits: int) -> int:
    """Return 32 bits as Java's int."""
    return bits - (1 << 32) if bits >> 31 else bits
