"""Operators' requests to the store: show a queue's units (321), remove what has expired (306, 329)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.messages.reader import EVALUATION_MS
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.errors import PymqError, Refusal
from pymq.wire.bodies_admin import ConsumeQueueAnswer, ConsumeQueueEntry, encode_admin_body
from pymq.wire.bodies_client import SubscriptionData
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import QueryConsumeQueueHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.expressions import Expressions
    from pymq.broker.messages.writer import Writer
    from pymq.broker.upkeep.cleaner import Cleaner
    from pymq.broker.work.sliced_work import Steps
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

QUEUE_ENTRY_COUNT_MAX = 1000
QUEUES_AT_ONCE = 100  # that are deleted before the next rest: some 4 ms


class StoreAdminHandlers:
    """Shows queues as they are stored, and deletes what retention allows."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        expressions: Expressions,
        writer: Writer,
        cleaner: Cleaner,
    ) -> None:
        self._sliced_work = runtime.sliced_work
        self._config = runtime.config
        self._clock = runtime.clock
        self._store = store
        self._topics = metadata.topics
        self._clients = metadata.clients
        self._cursors = metadata.cursors
        self._expressions = expressions
        self._writer = writer
        self._cleaner = cleaner

    def queue_entries(self, request: Command, header: QueryConsumeQueueHeader, peer: Peer) -> Reply:
        """Return raw units of a consume queue, and for each whether a group's filter accepts it."""
        topic = self._topics.require(header.topic)
        if not 0 <= header.queue_id < topic.queue_count:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queue {header.queue_id} of topic {header.topic} does not exist: use 0 to {topic.queue_count - 1}",
            )
        low = self._store.min_offset(header.topic, header.queue_id)
        high = self._store.max_offset(header.topic, header.queue_id)
        answer = ConsumeQueueAnswer(min_queue_index=low, max_queue_index=high, queue_data=[])
        subscription: SubscriptionData | None = None
        if header.consumer_group:
            subscription = self._clients.subscription(header.consumer_group, header.topic)
        answer.subscription_data = subscription
        message_filter = MessageFilter()
        if subscription is not None:
            message_filter = self._expressions.message_filter(subscription.expression_type, subscription.sub_string)
        first = max(low, high + header.index if header.index < 0 else header.index)
        last = min(high, first + max(0, min(header.count, QUEUE_ENTRY_COUNT_MAX)))
        queue = self._store.queue_view(header.topic, header.queue_id)
        if queue is not None:
            answer.queue_data = self._entries((queue.unit(offset) for offset in range(first, last)), message_filter)
        return Reply(body=encode_admin_body(answer))

    def _entries(self, units: Iterable[tuple[int, int, int]], message_filter: MessageFilter) -> list[ConsumeQueueEntry]:
        """Return entries for the first units: as many as can be filtered in EVALUATION_MS."""
        end_ms = self._clock.monotonic_ms() + EVALUATION_MS
        entries: list[ConsumeQueueEntry] = []
        for unit in units:
            entries.append(self._entry(unit, message_filter))
            if message_filter.accept is not None and self._clock.monotonic_ms() >= end_ms:
                break
        return entries

    def _entry(self, unit: tuple[int, int, int], message_filter: MessageFilter) -> ConsumeQueueEntry:
        physical_offset, size_bytes, code = unit
        fits = message_filter.codes is None or code in message_filter.codes
        if fits and message_filter.accept is not None:
            try:
                fits = message_filter.accept(self._store.record_at(physical_offset))
            except PymqError:  # deleted with its segment, or damaged: no consumer gets it
                fits = False
        return ConsumeQueueEntry(physic_offset=physical_offset, physic_size=size_bytes, tags_code=code, eval=fits)

    def clean_expired_queues(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Remove queues whose messages are all deleted, when no topic has them any more.

        Java's broker also removes queues that a topic still has. Their offsets then begin at 0 again, below what
        consumers have committed.
        """
        return self._sliced_work.answer(request, peer, self._clean_expired(peer))

    def _clean_expired(self, peer: Peer) -> Steps[Reply]:
        expired = [queue for queue in self._store.expired_queues() if not self._is_in_use(*queue)]
        for start in range(0, len(expired), QUEUES_AT_ONCE):
            self._writer.commit()
            batch = expired[start : start + QUEUES_AT_ONCE]
            gone = [queue for queue in batch if self._store.is_expired(*queue) and not self._is_in_use(*queue)]
            self._store.delete_queues(gone)
            for topic, queue_id in gone:
                if not self._config.is_slave:  # a slave's offsets are its master's
                    self._cursors.forget_queue(topic, queue_id)
                log.info("%s removed the expired queue %d of %s", peer.address, queue_id, topic)
            yield
        return Reply()

    def _is_in_use(self, topic: str, queue_id: int) -> bool:
        config = self._topics.get(topic)
        return config is not None and queue_id < config.queue_count

    def delete_expired_segments(self, request: Command, header: None, peer: Peer) -> Reply:
        """Start to delete segments that are old enough, at any hour. The answer does not wait for the end."""
        log.info("%s asks for old segments to be deleted", peer.address)
        self._cleaner.delete_expired()
        return Reply()
