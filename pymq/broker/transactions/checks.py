"""TransactionChecks: asks producers about transactions that they have not ended, and discards those asked too often.

Before each question the half message is stored again with its number of checks, as RocketMQ does. A round looks at each
half message that was stored before it began. Java: TransactionalMessageServiceImpl.check.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.broker.transactions.open_halves import OpenHalf, Outcome, open_half
from pymq.errors import CorruptRecordError, NotFoundError, StoreUnavailableError, UnreadableError
from pymq.model import properties as props
from pymq.model import sysflag
from pymq.model.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from pymq.model.record import MalformedRecordError, StoredMessage, decode_record, encode_message
from pymq.model.transactions import TRANSACTION_QUEUE_ID, check_count_of, copy_properties, target_of
from pymq.rate_limited_log import RateLimitedLog
from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from pymq.wire.headers.transaction import CheckTransactionHeader

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.transactions.transactions import Transactions
    from pymq.store.store import MessageStore
    from pymq.wire.command import Command
    from pymq.wire.dispatch import Peer

log = logging.getLogger(__name__)

LOOKS_PER_TICK = 256
HOUR_MS = 3_600_000
# Half messages behind the oldest open one, beyond which that one moves to the queue's end: a start reads them all.
SPAN_MAX = 100_000
SPAN_PER_OPEN = 4


class TransactionChecks:
    """Runs rounds of checks on a master. :meth:`tick` does a bounded part of a round."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        writer: Writer,
        transactions: Transactions,
    ) -> None:
        self._config = runtime.config
        self._clock = runtime.clock
        self._store = store
        self._writer = writer
        self._topics = metadata.topics
        self._clients = metadata.clients
        self._transactions = transactions
        self._round: deque[OpenHalf] = deque()
        self._round_began_ms = runtime.clock.now_ms()
        self._waited_from_ms = runtime.clock.monotonic_ms()
        self._turns: dict[str, int] = {}  # by producer group, for turns among its members
        # By group and topic: the members that may be asked, found once in a tick.
        self._members: dict[tuple[str, str], list[Peer]] = {}
        self._rate_limited_log = RateLimitedLog(log, runtime.clock, "transaction checks")
        self._is_failing = False
        self.check_count = 0

    def tick(self) -> None:
        """Begin a round when it is time, and do a part of it."""
        now_ms = self._clock.monotonic_ms()
        if not self._round and now_ms - self._waited_from_ms >= self._config.transaction_check_interval_ms:
            self._waited_from_ms = now_ms
            self._round_began_ms = self._clock.now_ms()
            self._turns.clear()
            self._round = deque(self._to_look_at())
        elif not self._round:
            self._round = deque(self._too_far_back())
        if self._round and self._store.is_writable:
            self._look()

    def _to_look_at(self) -> list[OpenHalf]:
        """Return the half messages of a round: up to the last one that is due.

        Those in between that are not due yet are stored again with the others, so that what a start of Apache's broker
        would read begins behind all of them.
        """
        halves = self._transactions.halves.all()
        while halves and not self._is_due(halves[-1]):
            halves.pop()
        return halves

    def _too_far_back(self) -> list[OpenHalf]:
        """Return the oldest half message when too many follow it."""
        halves = self._transactions.halves
        first = halves.first()
        end = self._store.max_offset(HALF_TOPIC, TRANSACTION_QUEUE_ID)
        limit = max(SPAN_MAX, SPAN_PER_OPEN * len(halves))
        return [first] if first is not None and end - first.queue_offset > limit else []

    def _is_due(self, half: OpenHalf) -> bool:
        age_ms = self._clock.now_ms() - half.begun_ms
        immunity_ms = max(half.immunity_ms or 0, self._config.transaction_timeout_ms)
        # A negative age means that the clock was set back: the wait would be too long.
        return half.stored_ms <= self._round_began_ms and (age_ms >= immunity_ms or age_ms < 0)

    def _look(self) -> None:
        """Look at the round's next half messages, store their copies, then ask the producers."""
        self._writer.commit()  # what this turn has only staged can't be read yet
        looked: list[OpenHalf] = []
        questions: list[tuple[Peer, Command]] = []
        self._members.clear()
        try:
            while self._round and len(looked) < LOOKS_PER_TICK:
                half = self._round[0]
                if self._transactions.halves.at(half.queue_offset) is half:
                    question = self._handle(half)
                    if question is not None:
                        questions.append(question)
                looked.append(self._round.popleft())
        except (StoreUnavailableError, UnreadableError) as error:
            self._note_failure(str(error))
        failures = self._writer.failed_commit_count
        self._writer.commit()
        if self._writer.failed_commit_count != failures:
            self._round.extendleft(reversed(looked))
            self._note_failure("the commit failed")
            return
        self._is_failing = bool(self._is_failing and not looked)
        for peer, command in questions:
            peer.push(command)
            self.check_count += 1

    def _handle(self, half: OpenHalf) -> tuple[Peer, Command] | None:
        """Stage what one half message needs. Return the question to a producer, if there is one to ask.

        Raises StoreUnavailableError, UnreadableError.
        """
        try:
            message = decode_record(self._store.record_at(half.physical_offset))
        except (NotFoundError, CorruptRecordError, MalformedRecordError) as error:
            self._transactions.unreadable_count += 1
            self._transactions.halves.remove(half)
            log.error("the half message at %d can't be read, its transaction is lost: %s", half.queue_offset, error)
            return None
        if self._store.deletions.covers(half.topic, message.physical_offset):
            self._transactions.end(message, Outcome.DISCARDED)
            log.warning("the transaction %s ended: its topic %s was deleted", message.message_id, half.topic)
            return None
        if not self._is_due(half):
            self.store_copy(half, message, check_count_of(message))
            return None
        age_ms = self._clock.now_ms() - half.begun_ms
        is_too_old = age_ms > self._config.file_reserved_time_hours * HOUR_MS
        if is_too_old or check_count_of(message) >= self._config.transaction_check_max:
            self._discard(message)
            return None
        copy, raw = self.store_copy(half, message, check_count_of(message) + 1)
        peer = self._producer(message.properties.get(props.PRODUCER_GROUP, ""), half.topic)
        return None if peer is None else (peer, self._question(message, copy, raw))

    def store_copy(self, half: OpenHalf, message: StoredMessage, check_count: int) -> tuple[OpenHalf, bytes]:
        """Stage the next copy of a half message; return its place and its properties. Raises StoreUnavailableError."""
        raw = copy_properties(message, check_count, half.first_offset)
        placed = self._writer.put_again(message, HALF_TOPIC, TRANSACTION_QUEUE_ID, raw)
        copy = open_half(message, half.topic)
        copy.queue_offset, copy.physical_offset = placed.queue_offset, placed.physical_offset
        copy.first_offset, copy.begun_ms, copy.stored_ms = half.first_offset, half.begun_ms, self._clock.now_ms()
        self._transactions.replace(copy)
        return copy, raw

    def _discard(self, message: StoredMessage) -> None:
        topic = self._topics.ensure_system(TRANS_CHECK_MAX_TIME_TOPIC)
        self._writer.put_again(message, topic.topic_name, 0, message.raw_properties)
        self._transactions.end(message, Outcome.DISCARDED)
        self._transactions.discarded_count += 1
        log.warning(
            "the transaction %s of group %s was not ended after %d checks: its message for topic %s is in %s now",
            message.message_id, message.properties.get(props.PRODUCER_GROUP), check_count_of(message),
            message.properties.get(props.REAL_TOPIC), topic.topic_name,
        )  # fmt: skip

    def _producer(self, group: str, topic: str) -> Peer | None:
        """Return the next connected producer of a group that reads what it is sent; None when there is none.

        It sees the message: on a secured broker its user may publish to the message's topic. Any user may name a group.
        """
        members = self._members.get((group, topic))
        if members is None:
            members = self._members[group, topic] = self._find_members(group, topic)
        members = [peer for peer in members if not peer.closed and not peer.is_behind]
        if not members:
            return None
        turn = self._turns[group] = self._turns.get(group, -1) + 1
        return members[turn % len(members)]

    def _find_members(self, group: str, topic: str) -> list[Peer]:
        clients = self._clients.producers(group)
        members = [client.peer for client in clients if client.may_publish(topic)]
        if clients and not members:
            self._rate_limited_log.write(
                group,
                f"no producer is asked about open transactions of group '{group}' with topic '{topic}': none of the "
                f"{len(clients)} that are connected may publish to that topic",
            )
        return members

    def _question(self, message: StoredMessage, copy: OpenHalf, raw: bytes) -> Command:
        topic, queue_id = target_of(message) or ("", 0)
        unique_key = message.properties.get(props.UNIQ_KEY, "")
        body = encode_message(
            message,
            topic=topic.encode(),
            queue_id=queue_id,
            queue_offset=copy.queue_offset,
            physical_offset=copy.physical_offset,
            properties=raw,
            sys_flag=message.sys_flag & ~sysflag.TRANSACTION_MASK,
            prepared_transaction_offset=0,
        )
        header = CheckTransactionHeader(
            topic=topic,
            tran_state_table_offset=copy.queue_offset,
            commit_log_offset=copy.physical_offset,
            msg_id=unique_key,
            transaction_id=unique_key,
            offset_msg_id=message.offset_message_id,
            broker_name=self._config.broker_name,
        )
        return request(RequestCode.CHECK_TRANSACTION_STATE, header, body, oneway=True)

    def _note_failure(self, why: str) -> None:
        if not self._is_failing:
            log.warning("transactions can't be checked now, the round goes on later: %s", why)
        self._is_failing = True
