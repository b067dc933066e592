"""Leases of queues for ordered consumption: LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.handlers.clients import CLIENT_ID_LENGTH_MAX
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model.message import MessageQueue
from pymq.wire.bodies_client import LockAnswer, LockRequest, QueueName, decode_body, encode_body
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    pass


class LockHandlers:
    """Passes requests for leases to the Leaser."""

    def __init__(self, runtime: Runtime, *, metadata: Metadata) -> None:
        self._config = runtime.config
        self._groups = metadata.groups
        self._topics = metadata.topics
        self._leaser = metadata.leaser

    def lock(self, request: Command, header: None, peer: Peer) -> Reply:
        """Answer with the queues that the client holds now. Queues of other brokers are never granted."""
        asked: LockRequest = decode_body(LockRequest, request.body)
        # Leases for unknown groups would take memory without a bound.
        self._groups.ensure(asked.consumer_group)
        if len(asked.client_id) > CLIENT_ID_LENGTH_MAX:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"clientId has {len(asked.client_id)} characters: use 1 to {CLIENT_ID_LENGTH_MAX}",
            )
        queues = [queue for queue in (name.to_queue() for name in asked.mq_set) if self._is_here(queue)]
        granted = self._leaser.lock_batch(asked.consumer_group, asked.client_id, queues)
        return Reply(body=encode_body(LockAnswer(lock_ok_mq_set=[QueueName.of(queue) for queue in granted])))

    def unlock(self, request: Command, header: None, peer: Peer) -> Reply:
        """Give leases up."""
        asked: LockRequest = decode_body(LockRequest, request.body)
        self._leaser.unlock_batch(asked.consumer_group, asked.client_id, [name.to_queue() for name in asked.mq_set])
        return Reply()

    def _is_here(self, queue: MessageQueue) -> bool:
        topic = self._topics.get(queue.topic)
        is_queue = topic is not None and 0 <= queue.queue_id < topic.queue_count
        return is_queue and queue.broker_name == self._config.broker_name
