"""Transactions: takes half messages, ends transactions, and writes op records, as RocketMQ stores them.

The commit of a transaction stores its message first and names the half message in an op record behind it, in the same
write. A crash between the two leaves the transaction open: its producers are asked, and the message may come twice,
never not at all. Java: TransactionalMessageServiceImpl, TransactionalMessageBridge.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.broker.transactions.kept_halves import KeptHalf, KeptHalves
from pymq.broker.transactions.open_halves import OpenHalf, OpenHalves, Outcome
from pymq.broker.transactions.progress import TransactionProgress
from pymq.broker.transactions.rebuild import rebuild
from pymq.errors import CorruptRecordError, NotFoundError, Refusal, StoreError, StoreUnavailableError
from pymq.model import properties as props
from pymq.model import sysflag
from pymq.model.draft import Draft
from pymq.model.layout import SENT_PROPERTIES_MAX_BYTES
from pymq.model.message_types import DELAY, message_type
from pymq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pymq.model.record import MalformedRecordError, StoredMessage, decode_record
from pymq.model.transactions import (
    ADDED_LATER_BYTES,
    OP_PROPERTIES,
    TRANSACTION_QUEUE_ID,
    encode_op_bodies,
    first_offset_of,
    half_properties,
    immunity_ms_in,
    target_of,
)
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.store.store import MessageStore, Placed

log = logging.getLogger(__name__)


class Transactions:
    """The open transactions of a master. A slave has them only on its disk."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        writer: Writer,
        stats: StatsManager,
    ) -> None:
        self._config = runtime.config
        self._clock = runtime.clock
        self._store = store
        self._store_host = runtime.store_host
        self._writer = writer
        self._topics = metadata.topics
        self._stats = stats
        self.halves = OpenHalves()
        self.kept = KeptHalves()
        self.progress = TransactionProgress(store, metadata.cursors, self._first_open)
        # What the next commit stores, to undo it when the commit fails.
        self._begun: list[OpenHalf] = []
        self._ended: list[OpenHalf] = []
        self._ops: list[int] = []  # half offsets for op records
        self._staged_ops: list[tuple[int, list[int]]] = []
        self.committed_count: dict[str, int] = {}  # by topic
        self.rolled_back_count: dict[str, int] = {}
        self.discarded_count = 0
        self.unreadable_count = 0
        writer.companion = self
        metadata.topics.add_listener(self._forget)

    def start(self) -> None:
        """Find the open transactions. The store must be open, the offsets read and fitted to it."""
        self.halves, self.unreadable_count = rebuild(self._store, self.progress)
        if len(self.halves):
            log.info("%d transactions are open", len(self.halves))

    def save(self) -> None:
        """Bring the progress up to date, to be saved with the offsets."""
        try:
            self.progress.save()
        except StoreError as error:
            log.warning("the progress of transactions stays as it was last saved: %s", error)

    # -- begin ---------------------------------------------------------------------------------------------------

    def put_half(self, topic: str, queue_id: int, draft: Draft, *, group: str, unique_key: str) -> Placed:
        """Stage a half message for a topic; return its place in the half topic.

        Raises Refusal, StoreUnavailableError.
        """
        self._check_half(draft.properties, topic)
        draft.properties = raw = half_properties(draft.properties, topic, queue_id, group, unique_key)
        limit = SENT_PROPERTIES_MAX_BYTES - ADDED_LATER_BYTES
        if len(raw) > limit:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties take {len(raw)} bytes with those of the transaction, the limit is {limit}: shorten "
                "keys, tags or properties",
            )
        draft.sys_flag &= ~sysflag.TRANSACTION_MASK
        placed = self._writer.put(HALF_TOPIC, TRANSACTION_QUEUE_ID, draft)
        self.begin(placed.queue_offset, placed.physical_offset, topic, immunity_ms_in(raw))
        self._stats.message_put(HALF_TOPIC, 1, placed.size_bytes)
        return placed

    @property
    def is_room(self) -> bool:
        """True when the broker takes another half message."""
        config = self._config
        return not config.reject_transaction_message and len(self.halves) < config.open_transaction_count_max

    def begin(self, queue_offset: int, physical_offset: int, topic: str, immunity_ms: int | None) -> OpenHalf:
        """Open the transaction of a half message that was staged."""
        now_ms = self._clock.now_ms()
        half = OpenHalf(queue_offset, physical_offset, queue_offset, now_ms, now_ms, immunity_ms, topic)
        self.halves.add(half)
        self._begun.append(half)
        return half

    def _check_half(self, properties: bytes, topic: str) -> None:
        config = self._config
        if config.reject_transaction_message:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"{config.broker_name} takes no transactional messages: set rejectTransactionMessage=false",
            )
        if message_type(properties, is_half_too=False) == DELAY:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                "a transactional message can't be delayed (properties DELAY, TIMER_…): a half message waits for its "
                "commit; leave the delay out",
            )
        limit = config.open_transaction_count_max
        if len(self.halves) >= limit:
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self.halves)} transactions are open, the limit is {limit}: commit or roll back some, or raise "
                "maxOpenTransactions",
            )

    # -- end -----------------------------------------------------------------------------------------------------

    def half_at(self, physical_offset: int) -> StoredMessage:
        """Return the half message at a log offset. Raises Refusal(SYSTEM_ERROR)."""
        problem = "no half message starts there"
        try:
            message = decode_record(self._store.record_at(physical_offset))
            if message.topic == HALF_TOPIC:
                return message
        except (NotFoundError, CorruptRecordError, MalformedRecordError) as error:
            problem = str(error)
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"Find prepared transaction message failed: {problem} (commitLogOffset {physical_offset}); give the offset "
            "from the answer to the half message's send",
        )

    def find_open(self, message: StoredMessage) -> OpenHalf | None:
        """Return the open transaction of which this is a copy; None when it has ended."""
        return self.halves.at(message.queue_offset) or self.halves.find(first_offset_of(message))

    def outcome_of(self, message: StoredMessage) -> Outcome | None:
        """Return how the transaction ended of which this is a copy; None when that is forgotten."""
        return self.halves.outcome(first_offset_of(message))

    def commit(self, message: StoredMessage) -> None:
        """Stage the message for its target, and end its transaction with the next commit of the writer.

        Raises Refusal(TOPIC_NOT_EXIST) when the target is gone, StoreUnavailableError.
        """
        topic_name, queue_id = target_of(message) or ("", 0)
        topic = self._topics.require(topic_name)
        if self._store.deletions.covers(topic_name, message.physical_offset):
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic_name} was deleted after the half message was sent: roll the transaction back, and send "
                "to the topic that was made since",
            )
        placed = self._writer.put_again(
            message,
            topic_name,
            topic.existing_queue(queue_id),
            message.raw_properties,
            sys_flag=message.sys_flag & ~sysflag.TRANSACTION_MASK | sysflag.TRANSACTION_COMMIT,
            prepared_transaction_offset=message.physical_offset,
            redirect_delay=True,
        )
        self._stats.message_put(topic_name, 1, placed.size_bytes)
        self._count(self.committed_count, topic_name)
        self.end(message, Outcome.COMMITTED)

    def roll_back(self, message: StoredMessage) -> None:
        """End the transaction of this half message with the next commit of the writer. Raises StoreUnavailableError."""
        self._check_writable()
        topic = message.properties.get(props.REAL_TOPIC, "")
        if self._topics.get(topic) is not None:
            self._count(self.rolled_back_count, topic)
        self.end(message, Outcome.ROLLED_BACK)

    def _check_writable(self) -> None:
        if not self._store.is_writable:
            raise StoreUnavailableError("the store takes no writes now: the transaction stays open")

    def end(self, message: StoredMessage, outcome: Outcome) -> None:
        """End the transaction, if it is open, with the next commit of the writer."""
        half = self.find_open(message)
        if half is None:
            self.halves.note(first_offset_of(message), outcome)
        else:
            self._end(half, outcome)

    def end_kept(self, kept: KeptHalf, outcome: Outcome) -> None:
        """End an open transaction whose half message is kept: one whose message was staged for its target, or one that
        is rolled back. Raises StoreUnavailableError for a rollback.
        """
        counts = self.committed_count
        if outcome is Outcome.ROLLED_BACK:
            self._check_writable()
            counts = self.rolled_back_count
        self._count(counts, kept.half.topic)
        self._end(kept.half, outcome)

    def _end(self, half: OpenHalf, outcome: Outcome) -> None:
        self.halves.end(half, outcome)
        self.kept.drop(half.physical_offset)
        self._ended.append(half)
        self._ops += half.copies
        self._ops.append(half.queue_offset)

    @staticmethod
    def _count(counts: dict[str, int], topic: str) -> None:
        counts[topic] = counts.get(topic, 0) + 1

    def replace(self, half: OpenHalf) -> None:
        """Take note of the staged next copy of an open half message."""
        earlier = self.halves.add(half)
        self._begun.append(half)
        if earlier is not None:
            self.kept.drop(earlier.physical_offset)
            self._ended.append(earlier)

    # -- what the writer asks --------------------------------------------------------------------------------------

    @property
    def is_changed(self) -> bool:
        """True when the writer's next commit has something to do with transactions."""
        return bool(self._ops or self._begun)

    def stage_rest(self) -> None:
        """Stage the op records of what has ended, as the last part of the writer's commit."""
        offsets, self._ops = self._ops, []
        for body in encode_op_bodies(offsets, self._config.transaction_op_size_max_bytes):
            named = offsets[: body.count(b",")]
            try:
                draft = Draft(body, OP_PROPERTIES, self._clock.now_ms(), self._store_host)
                placed = self._writer.put(OP_HALF_TOPIC, TRANSACTION_QUEUE_ID, draft)
            except StoreUnavailableError as error:
                log.warning(
                    "the ends of %d transactions can't be stored now and are tried again: %s", len(offsets), error
                )
                self._ops += offsets
                return
            offsets = offsets[len(named) :]
            self._staged_ops.append((placed.queue_offset, named))

    def after_commit(self, is_stored: bool) -> None:
        """Take note that what was staged is stored, or undo it."""
        begun, self._begun = self._begun, []
        ended, self._ended = self._ended, []
        staged_ops, self._staged_ops = self._staged_ops, []
        if is_stored:
            for op_offset, named in staged_ops:
                self.progress.note_op(op_offset, max(named))
            return
        self._ops.clear()
        self.kept.clear()  # their places are given out again
        new = set(map(id, begun))
        self.halves.restore(begun, [half for half in ended if id(half) not in new])

    def tick(self) -> None:
        """Write what could not be written, and move the progress."""
        if self._ops:
            self._writer.commit()
        self.progress.tick()

    def _forget(self, changed: list[str]) -> None:
        """Drop the counts of topics that were deleted."""
        for topic in changed:
            if self._topics.get(topic) is None:
                self.kept.clear()  # the plain way asks when the half message was stored
                self.committed_count.pop(topic, None)
                self.rolled_back_count.pop(topic, None)

    def _first_open(self) -> int | None:
        first = self.halves.first()
        return None if first is None else first.queue_offset
