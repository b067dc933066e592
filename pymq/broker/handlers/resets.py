"""Operators move a group: reset its offsets by time or to an offset (222), copy another group's (314)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.broker.work.sliced_work import Steps
from pymq.errors import Refusal
from pymq.model import names
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.wire.admin_text import encode_in_steps
from pymq.wire.bodies_admin import QueueOffsetEntry, QueueOffsetList, QueueOffsets
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.command import request as make_request
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import (
    TO_MAX_OFFSET_MS,
    CloneGroupOffsetHeader,
    ResetClientOffsetHeader,
    ResetOffsetHeader,
)
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.clients import Client
    from pymq.store.store import MessageStore

QUEUES_AT_ONCE = 32  # whose offsets are looked up or moved before the next rest


class ResetHandlers:
    """Keeps resets at the CursorManager. Consumers learn of one with their next pull, or by a push (220)."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        wake_pulls: Callable[[str, int], None] = lambda topic, queue_id: None,
    ) -> None:
        """``wake_pulls(topic, queue_id)`` has parked pulls read again, so that they learn of a reset at once."""
        self._config = runtime.config
        self._store = store
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._cursors = metadata.cursors
        self._clients = metadata.clients
        self._sliced_work = runtime.sliced_work
        self._wake_pulls = wake_pulls

    def reset(self, request: Command, header: ResetOffsetHeader, peer: Peer) -> Reply | None:
        """Move a group in a topic; answer with the new offsets by queue."""
        return self._sliced_work.answer(request, peer, self._reset(header))

    def _reset(self, header: ResetOffsetHeader) -> Steps[Reply]:
        topic = self._topics.require(header.topic)
        self._groups.require(header.group)
        targets = {}
        for queue_id in self._queue_ids(topic, header):
            target = self._target(topic, queue_id, header)
            # Without force a group only moves back, to messages it has consumed.
            if header.is_force or not self._is_ahead(header, queue_id, target):
                targets[queue_id] = target
            if queue_id % QUEUES_AT_ONCE == 0:
                yield
        if self._config.use_server_side_reset_offset:
            for queue_id, offset in targets.items():
                self._cursors.reset(header.group, header.topic, queue_id, offset)
                self._wake_pulls(header.topic, queue_id)
                if queue_id % QUEUES_AT_ONCE == 0:
                    yield
        else:
            yield from self._push(header, targets)
        offsets = {self._queue(header.topic, queue_id): offset for queue_id, offset in targets.items()}
        return Reply(body=(yield from encode_in_steps(QueueOffsets(offset_table=offsets))))

    def clone(self, request: Command, header: CloneGroupOffsetHeader, peer: Peer) -> Reply | None:
        """Give a group the offsets of another one, in one topic or in all."""
        return self._sliced_work.answer(request, peer, self._clone(header))

    def _clone(self, header: CloneGroupOffsetHeader) -> Steps[Reply]:
        problem = names.group_problem(header.dest_group)
        if problem:
            raise Refusal(ResponseCode.INVALID_PARAMETER, problem)
        self._groups.ensure(header.dest_group)
        if header.topic:
            self._topics.require(header.topic)
        count = yield from self._cursors.clone_in_steps(header.src_group, header.dest_group, header.topic or None)
        if not count:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"group {header.src_group[:255]} has no offsets to copy")
        return Reply()

    def _queue_ids(self, topic: TopicConfig, header: ResetOffsetHeader) -> range:
        if header.queue_id < 0:
            return range(topic.queue_count)
        if header.queue_id >= topic.queue_count:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queue {header.queue_id} of topic {header.topic} does not exist: use 0 to {topic.queue_count - 1}",
            )
        return range(header.queue_id, header.queue_id + 1)

    def _target(self, topic: TopicConfig, queue_id: int, header: ResetOffsetHeader) -> int:
        name = topic.topic_name
        low, high = self._store.min_offset(name, queue_id), self._store.max_offset(name, queue_id)
        if header.offset is not None and header.offset >= 0 and header.queue_id >= 0:
            if not low <= header.offset <= high:
                raise Refusal(
                    ResponseCode.INVALID_PARAMETER,
                    f"offset {header.offset} of {name} queue {queue_id} is out of range: use {low} to {high}",
                )
            return header.offset
        if header.timestamp == TO_MAX_OFFSET_MS:
            return high
        return max(low, min(self._store.offset_by_time(name, queue_id, header.timestamp), high))

    def _is_ahead(self, header: ResetOffsetHeader, queue_id: int, offset: int) -> bool:
        committed = self._cursors.query(header.group, header.topic, queue_id)
        return committed >= 0 and offset > committed

    def _push(self, header: ResetOffsetHeader, targets: dict[int, int]) -> Steps[None]:
        group = self._clients.consumer_group(header.group)
        if group is None:
            raise Refusal(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"consumer group {header.group} is not online and useServerSideResetOffset is false: start it first",
            )
        for client in list(group.members.values()):
            client.peer.push((yield from self._reset_command(client, header, targets)))
            yield

    def _reset_command(self, client: Client, header: ResetOffsetHeader, targets: dict[int, int]) -> Steps[Command]:
        ext = ResetClientOffsetHeader(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=header.is_force
        )
        if client.language == "CPP":
            broker_name = self._config.broker_name
            entries = [
                QueueOffsetEntry(topic=header.topic, broker_name=broker_name, queue_id=queue_id, offset=offset)
                for queue_id, offset in targets.items()
            ]
            body = yield from encode_in_steps(QueueOffsetList(offset_table=entries))
        else:
            table = {self._queue(header.topic, queue_id): offset for queue_id, offset in targets.items()}
            body = yield from encode_in_steps(QueueOffsets(offset_table=table))
        return make_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body, oneway=True)

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._config.broker_name, queue_id)
