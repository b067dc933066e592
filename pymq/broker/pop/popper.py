"""Popper: reads messages for a pop from the queues of a topic and its retry topics, and keeps a check point of them.

Java: PopMessageProcessor. A group's offset in a queue means "handed out", not "consumed".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pymq.broker.messages.fitting import fitted
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.pop.check_points import CheckPointKey
from pymq.broker.pop.ordered_queues import OrderedQueue, OrderedQueues
from pymq.broker.pop.revive_log import ReviveLog
from pymq.broker.runtime import Runtime
from pymq.errors import StoreError
from pymq.model import pop
from pymq.model import properties as props
from pymq.model.layout import PROPERTIES_SIZE_MAX_BYTES, RECORD_QUEUE_OFFSET
from pymq.model.pop import QueueOffsets, Receipt
from pymq.model.properties import append_properties, decode_properties, encode_properties
from pymq.model.record import StoredMessage, decode_records, encode_message, log_malformed
from pymq.store.store import GetStatus

if TYPE_CHECKING:
    from pymq.broker.messages.message_filter import MessageFilter
    from pymq.broker.messages.reader import Reader
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.store.store import GetResult, MessageStore

FROM_MIN = 0  # initMode: where a group without an offset begins
# A group that begins at the end still gets a topic whole whose first message is this close to the log's end.
YOUNG_TOPIC_BYTES = 4 * 1024 * 1024 * 1024
_RECEIPT_NAME = b"POP_CK\x01"
# The offset that a group had does not fit the queue: the read names the one to go on from.
_CORRECTED = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)
_PASSED = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING)


@dataclass(slots=True)
class PopAsk:
    """What a pop wants. ``queue_id`` -1: of any queue. ``attempt_id``: an orderly pop that repeats one.

    ``priority_factor``: the percentage at which it visits queues by priority.
    """

    group: str
    topic: str
    queue_id: int
    queue_count: int
    count: int
    invisible_ms: int
    init_mode: int
    message_filter: MessageFilter
    is_ordered: bool = False
    attempt_id: str | None = None
    priority_factor: int = 0


@dataclass(slots=True)
class Popped:
    """What a pop found: the records, where they were, and how many are left in the queues that it visited."""

    pop_time_ms: int
    revive_queue_id: int
    rest: int = 0
    queues: list[QueueOffsets] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0
    is_by_priority: bool = False
    problem: StoreError | None = None  # of a queue that could not be read
    order_counts: list[str] = field(default_factory=list)  # of the queues of an orderly pop


class Popper:
    """Reads and keeps check points. Nothing of a pop is final before the turn's commit."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        reader: Reader,
        stats: StatsManager,
        revive_log: ReviveLog,
        ordered_queues: OrderedQueues,
    ) -> None:
        self._config = runtime.config
        self._rng = runtime.rng
        self._store = store
        self._reader = reader
        self._cursors = metadata.cursors
        self._topics = metadata.topics
        self._stats = stats
        self._log = revive_log
        self._ordered = ordered_queues
        # (topic, group, queue id) -> the offset behind what is handed out with the commit to come.
        self._handed_out: dict[tuple[str, str, int], int] = {}
        self._request_number = 0

    def pop(self, ask: PopAsk, now_ms: int) -> Popped:
        """Hand out messages. Raises StoreError when nothing is found and a queue can't be read, Refusal at a limit."""
        self._request_number += 1
        popped = Popped(now_ms, self._request_number % self._log.queue_count)
        if ask.is_ordered:
            popped.revive_queue_id = pop.ORDERLY_REVIVE_QUEUE
        chance = self._rng.randrange(100)
        popped.is_by_priority = by_priority = not ask.is_ordered and chance < ask.priority_factor
        retry_first = chance < (
            self._config.pop_from_retry_probability_for_priority
            if by_priority
            else self._config.pop_from_retry_probability
        )
        # An orderly pop gets messages again from the topic itself.
        retries = [] if ask.is_ordered else self.retry_topics(ask.group, ask.topic)
        if retry_first:
            self._pop_retries(ask, retries, popped, by_priority=by_priority)
        if ask.queue_id >= 0:
            self._pop_queue(ask, ask.topic, pop.NORMAL, ask.queue_id, popped)
        else:
            for queue_id in self._in_turn(ask.queue_count, None if by_priority else chance):
                self._pop_queue(ask, ask.topic, pop.NORMAL, queue_id, popped)
        if not retry_first:
            self._pop_retries(ask, retries, popped, by_priority=by_priority)
        if not popped.count and popped.problem is not None:
            raise popped.problem
        return popped

    def retry_topics(self, group: str, topic: str) -> list[tuple[str, int]]:
        """Return the retry topics that exist for a group's messages of a topic, with their retry flags."""
        names = ((pop.retry_topic_v1(group, topic), pop.RETRY_V1), (pop.retry_topic_v2(group, topic), pop.RETRY_V2))
        found = []
        count = self._retry_queue_count(topic)
        for name, flag in names:
            if self._topics.get(name) is None:
                if all(self._store.queue_end(name, queue_id) is None for queue_id in range(count)):
                    continue
                self._topics.ensure_internal(name, count)  # a kill came before the new topic was saved
            if count > 1:
                self._topics.widen_internal(name, count)  # or before its new queues were
            found.append((name, flag))
        return found

    def _retry_queue_count(self, topic: str) -> int:
        """Return how many queues of a retry topic get messages."""
        config = self._topics.get(topic) if self._config.use_separate_retry_queue else None
        return config.write_queue_nums if config is not None else 1

    def waiting_count(self, group: str, topic: str, queue_id: int) -> int:
        """Return how many messages of a queue are not handed out yet, whatever a filter says of them."""
        queue = self._store.queue_view(topic, queue_id)
        if queue is None:
            return 0
        next_offset = self._handed_out.get((topic, group, queue_id))
        if next_offset is None:
            next_offset = max(self._cursors.query(group, topic, queue_id), queue.min_offset)
        return max(0, queue.max_offset - next_offset)

    def _in_turn(self, count: int, first: int | None) -> Iterable[int]:
        """Return queue ids from a random number on; without one in the order of their priority."""
        if first is not None:
            return [(first + number) % count for number in range(count)]
        return range(count - 1, -1, -1) if self._config.priority_order_asc else range(count)

    def _pop_retries(self, ask: PopAsk, retries: list[tuple[str, int]], popped: Popped, *, by_priority: bool) -> None:
        for name, flag in retries:
            for queue_id in self._in_turn(self._topics.require(name).read_queue_nums, None if by_priority else 0):
                self._pop_queue(ask, name, flag, queue_id, popped)

    def _pop_queue(self, ask: PopAsk, topic: str, flag: int, queue_id: int, popped: Popped) -> None:
        """Add messages of one queue to ``popped``."""
        if ask.is_ordered and self._is_blocked(ask, queue_id):
            return
        if self._is_done(ask, popped):
            popped.rest += self.waiting_count(ask.group, topic, queue_id)
            return
        start = self._start(ask, topic, queue_id, is_retry=flag != pop.NORMAL)
        key = CheckPointKey(topic, ask.group, queue_id, start, popped.pop_time_ms)
        if key in self._log.check_points:  # a reset within a millisecond: receipts must differ
            popped.rest += self.waiting_count(ask.group, topic, queue_id)
            return
        try:
            result = self._read(ask, topic, queue_id, start, popped)
            if result.status in _CORRECTED and result.next_offset != start:
                start = result.next_offset
                self._cursors.hand_out(ask.group, topic, queue_id, start)
                key = key._replace(start_offset=start)
                result = self._read(ask, topic, queue_id, start, popped)
            if result.status is GetStatus.FOUND and ask.is_ordered:
                self._hand_out_in_order(ask, key, result, popped)
            elif result.status is GetStatus.FOUND:
                if flag == pop.RETRY_V1:
                    _leave_out_others(ask, result)
                if result.count:
                    self._hand_out(ask, key, flag, result, popped)
                else:
                    self._cursors.hand_out(ask.group, topic, queue_id, result.next_offset)
        except StoreError as error:  # messages of other queues may be handed out already
            popped.problem = error
            return
        if result.status in _PASSED and result.next_offset > start:
            self._cursors.hand_out(ask.group, topic, queue_id, result.next_offset)
        popped.rest += max(0, result.max_offset - result.next_offset)

    def _is_done(self, ask: PopAsk, popped: Popped) -> bool:
        """Return whether no further queue gives messages: a read that ends with a queue's file may leave some there."""
        if popped.count >= ask.count or popped.size_bytes >= self._config.max_transfer_bytes:
            return True
        return popped.is_by_priority and popped.count > 0 and popped.rest > 0

    def _start(self, ask: PopAsk, topic: str, queue_id: int, *, is_retry: bool) -> int:
        """Return where the group goes on. A group without an offset gets one. Raises Refusal at their limit."""
        place = (topic, ask.group, queue_id)
        reset = self._cursors.take_reset(ask.group, topic, queue_id)
        if reset is not None:
            self._handed_out.pop(place, None)
            self._ordered.forget(OrderedQueue(topic, ask.group, queue_id))
            return reset
        handed_out = self._handed_out.get(place)
        if handed_out is not None:
            return handed_out
        offset = self._cursors.query(ask.group, topic, queue_id)
        if offset >= 0:
            return offset
        self._cursors.check_room()
        offset = self._first_offset(topic, queue_id, from_min=is_retry or ask.init_mode == FROM_MIN)
        self._cursors.hand_out(ask.group, topic, queue_id, offset)
        return offset

    def _first_offset(self, topic: str, queue_id: int, *, from_min: bool) -> int:
        queue = self._store.queue_view(topic, queue_id)
        if queue is None:
            return 0
        if from_min or queue.max_offset <= queue.min_offset:
            return queue.min_offset
        if queue.min_offset == 0:
            age_bytes = self._store.physical_max_offset - queue.unit(0)[0]
            if age_bytes <= YOUNG_TOPIC_BYTES:
                return 0
        return queue.max_offset - 1

    def _read(self, ask: PopAsk, topic: str, queue_id: int, start: int, popped: Popped) -> GetResult:
        size_bytes = self._config.max_transfer_bytes - popped.size_bytes
        count = ask.count - popped.count
        return self._reader.read(topic, queue_id, start, count, size_bytes, ask.message_filter).result

    def _hand_out(self, ask: PopAsk, key: CheckPointKey, flag: int, result: GetResult, popped: Popped) -> None:
        """Stage the check point of what was read. The offset moves with the commit."""
        data = b"".join(result.chunks)
        offsets = queue_offsets(data)
        self._log.put_check_point(key, offsets, ask.invisible_ms, popped.revive_queue_id)
        place = (key.topic, key.group, key.queue_id)
        self._handed_out[place] = next_offset = result.next_offset

        def committed(is_stored: bool) -> None:
            if self._handed_out.get(place) == next_offset or not is_stored:
                self._handed_out.pop(place, None)
            if is_stored:
                self._cursors.hand_out(key.group, key.topic, key.queue_id, next_offset)

        self._log.when_committed(committed)
        self._add(ask, key, flag, offsets, data, popped)

    def _hand_out_in_order(self, ask: PopAsk, key: CheckPointKey, result: GetResult, popped: Popped) -> None:
        """Note what was read: the queue hands out nothing else until it is acknowledged or visible again."""
        data = b"".join(result.chunks)
        offsets = queue_offsets(data)
        queue = OrderedQueue(key.topic, key.group, key.queue_id)
        info = self._ordered.hand_out(queue, ask.attempt_id, popped.pop_time_ms, ask.invisible_ms, offsets)
        popped.order_counts.append(info.count_info(key.queue_id))
        self._add(ask, key, pop.NORMAL, offsets, data, popped)

    def _is_blocked(self, ask: PopAsk, queue_id: int) -> bool:
        return self._ordered.is_blocked(OrderedQueue(ask.topic, ask.group, queue_id), ask.attempt_id)

    def _add(self, ask: PopAsk, key: CheckPointKey, flag: int, offsets: list[int], data: bytes, popped: Popped) -> None:
        """Add records of one queue to what was found."""
        if flag != pop.NORMAL or _RECEIPT_NAME in data:
            data = self._with_receipts(ask, key, flag, popped, data)
        popped.records.append(data)
        popped.queues.append(QueueOffsets(flag, key.queue_id, key.start_offset, offsets))
        popped.count += len(offsets)
        popped.size_bytes += len(data)
        self._stats.messages_got(ask.group, ask.topic, len(offsets), len(data))

    def _with_receipts(self, ask: PopAsk, key: CheckPointKey, flag: int, popped: Popped, data: bytes) -> bytes:
        """Return records under the topic that was asked for, each with its receipt and no other one."""
        receipt = Receipt(
            key.start_offset,
            popped.pop_time_ms,
            ask.invisible_ms,
            popped.revive_queue_id,
            flag,
            self._config.broker_name,
        )
        return b"".join([_with_receipt(message, ask.topic, receipt) for message in decode_records(data, log_malformed)])


def _leave_out_others(ask: PopAsk, result: GetResult) -> None:
    """Leave messages of other topics out of what was read from a retry topic of the first form.

    Group ``a`` with topic ``b_c`` and group ``a_b`` with topic ``c`` share ``%RETRY%a_b_c``. A record of RocketMQ does
    not say which topic it was in, and stays.
    """
    records = decode_records(b"".join(result.chunks), log_malformed)
    own = [record for record in records if record.properties.get(props.RETRY_TOPIC, ask.topic) == ask.topic]
    if len(own) < len(records):
        result.chunks = [memoryview(encode_message(record)) for record in own]
        result.count, result.size_bytes = len(own), sum(map(len, result.chunks))


def queue_offsets(data: bytes) -> list[int]:
    """Return the queue offsets of records that stand back to back."""
    offsets, at = [], 0
    while at < len(data):
        size, offset = RECORD_QUEUE_OFFSET.unpack_from(data, at)
        offsets.append(offset)
        at += size
    return offsets


def without_receipt(raw_properties: bytes) -> bytes:
    """Return properties without a receipt: a client may have forwarded a message with the one that it had."""
    if _RECEIPT_NAME not in raw_properties:
        return raw_properties
    kept = decode_properties(raw_properties)
    kept.pop(props.POP_CK, None)
    return encode_properties(kept)


def _with_receipt(message: StoredMessage, topic: str, receipt: Receipt) -> bytes:
    text = pop.encode_receipt(receipt, message.queue_id, message.queue_offset)
    properties = append_properties(without_receipt(message.raw_properties), encode_properties({props.POP_CK: text}))
    if len(properties) > PROPERTIES_SIZE_MAX_BYTES:  # another broker stored it, and left no room for a receipt
        properties = fitted(properties)
    return encode_message(message, topic=topic.encode(), properties=properties)
