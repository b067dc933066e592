"""Offset requests: a group's committed offset (14, 15), a queue's ends (30, 31) and times (29, 32)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model.inner_batch import has_batch_queues
from pymq.model.lite_topics import split_light_queue
from pymq.model.record import decode_record
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffsetHeader,
    QueueOffsetHeader,
    SearchOffsetHeader,
    TimestampAnswer,
    UpdateConsumerOffsetHeader,
)
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.store.store import MessageStore

# A queue is young while its first message is at most this far behind the log's end: a new group then starts at that
# message. Java asks whether the message is still "in memory" (40 % of the machine's).
YOUNG_QUEUE_BYTES = 4 * 1024 * 1024 * 1024
# A client asks for a group's offset, then for the queue's end, to start there. A message that comes between the two
# questions belongs to the group: the second answer is the end at the first one, on the same connection and this soon.
END_KEPT_MS = 5000
END_KEPT_COUNT_MAX = 10_000
NO_OFFSET = -1  # the least offset of a batch queue that never had a message, as RocketMQ has it


class OffsetHandlers:
    """Reads and commits offsets of groups, and shows where queues begin and end."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        epoch_start: Callable[[], int],
        is_fenced: Callable[[], bool],
    ) -> None:
        """``epoch_start`` returns the log offset since which this broker is the master and has lost nothing.

        ``is_fenced`` returns True while it hands over to a slave.
        """
        self._store = store
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._cursors = metadata.cursors
        self._broadcast_begins = metadata.broadcast_begins
        self._epoch_start = epoch_start
        self._is_fenced = is_fenced
        self._clock = runtime.clock
        # (client, topic, queue) -> when it asked, ms, and the queue's end then
        self._kept_ends: dict[tuple[str, str, int], tuple[int, int]] = {}

    def query(self, request: Command, header: QueryConsumerOffsetHeader, peer: Peer) -> Reply:
        """Return the committed offset.

        A group without one starts at 0 in a young queue; elsewhere code 22 tells it to start where its settings say.
        """
        _check_queue_id(header.queue_id)
        offset = self._cursors.query(header.consumer_group, header.topic, header.queue_id)
        if offset >= 0:
            return Reply(ext=OffsetAnswer(offset=offset))
        if header.set_zero_if_not_found is not False and self._is_young(header.topic, header.queue_id):
            return Reply(ext=OffsetAnswer(offset=0))
        self._keep_end(peer, header)
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND,
            f"group {header.consumer_group} has committed nothing in {header.topic} queue {header.queue_id} yet: "
            "it starts where its consumeFromWhere says",
        )

    def update(self, request: Command, header: UpdateConsumerOffsetHeader, peer: Peer) -> Reply:
        """Take a commit."""
        if self._groups.makes_groups and not header.pymq_only_forward:
            self._groups.require(header.consumer_group)
        else:  # a group may have started on the slave while the master was away
            self._groups.ensure(header.consumer_group)
        topic = self._topics.require(header.topic)
        if not 0 <= header.queue_id < topic.queue_count:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queue {header.queue_id} of topic {header.topic} does not exist: use 0 to {topic.queue_count - 1}",
            )
        if header.pymq_only_forward:
            if self._is_fenced():  # the slave that takes over may have copied the offsets by now
                raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "this master is handing over: commit at the next one")
            offset = self._advance(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
            return Reply(ext=OffsetAnswer(offset=offset))
        self._cursors.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return Reply()

    def _advance(self, group: str, topic: str, queue_id: int, offset: int) -> int:
        """Take a commit that came by a slave, if it is further than ours; return the group's offset.

        A slave may already serve messages that are unconfirmed on this master. Behind those are messages that a crash
        took from this master. Messages of the epoch that began then have the same offsets, but no group has consumed
        them.
        """
        queue = self._store.queue_view(topic, queue_id)
        if queue is not None and offset > queue.next_offset:
            offset = queue.max_offset - queue.count_from(self._epoch_start())
        if offset > self._cursors.query(group, topic, queue_id):
            stored_end = queue.next_offset if queue is not None else None
            self._cursors.commit(group, topic, queue_id, offset, stored_end)
        return self._cursors.query(group, topic, queue_id)

    def search(self, request: Command, header: SearchOffsetHeader, peer: Peer) -> Reply:
        """Return the offset at a point in time."""
        _check_queue_id(header.queue_id)
        upper = (header.boundary_type or "LOWER").upper() == "UPPER"
        self._broadcast_begins.asked_where_to_begin(header.topic, header.queue_id, peer)
        offset = self._store.offset_by_time(header.topic, header.queue_id, header.timestamp, upper=upper)
        return Reply(ext=OffsetAnswer(offset=offset))

    def max_offset(self, request: Command, header: QueueOffsetHeader, peer: Peer) -> Reply:
        """Return the offset of the queue's next message; 0 for an unknown topic, as Java answers."""
        _check_queue_id(header.queue_id)
        self._broadcast_begins.asked_where_to_begin(header.topic, header.queue_id, peer)
        light = split_light_queue(header.topic)
        if light is not None:
            return Reply(ext=OffsetAnswer(offset=self._store.lights.max_offset(*light)))
        asked_ms, end = self._kept_ends.pop((peer.address, header.topic, header.queue_id), (0, NO_OFFSET))
        if end == NO_OFFSET or self._clock.monotonic_ms() - asked_ms > END_KEPT_MS:
            end = self._store.max_offset(header.topic, header.queue_id)
        return Reply(ext=OffsetAnswer(offset=end))

    def min_offset(self, request: Command, header: QueueOffsetHeader, peer: Peer) -> Reply:
        """Return the offset of the first message that is still there."""
        _check_queue_id(header.queue_id)
        light = split_light_queue(header.topic)
        if light is not None:
            return Reply(ext=OffsetAnswer(offset=self._store.lights.ends(*light).min_offset))
        if not self._store.max_offset(header.topic, header.queue_id):
            topic = self._topics.get(header.topic)
            if topic is not None and has_batch_queues(topic.attributes):
                return Reply(ext=OffsetAnswer(offset=NO_OFFSET))
        return Reply(ext=OffsetAnswer(offset=self._store.min_offset(header.topic, header.queue_id)))

    def earliest_time(self, request: Command, header: QueueOffsetHeader, peer: Peer) -> Reply:
        """Return the store time in ms of the first message that is still there; -1 when there is none."""
        _check_queue_id(header.queue_id)
        topic, queue_id = header.topic, header.queue_id
        first = self._store.min_offset(topic, queue_id)
        is_empty = first >= self._store.max_offset(topic, queue_id)
        return Reply(ext=TimestampAnswer(timestamp=-1 if is_empty else self._store.store_time(topic, queue_id, first)))

    def _keep_end(self, peer: Peer, header: QueryConsumerOffsetHeader) -> None:
        if len(self._kept_ends) >= END_KEPT_COUNT_MAX:
            del self._kept_ends[next(iter(self._kept_ends))]
        end = self._store.max_offset(header.topic, header.queue_id)
        self._kept_ends[peer.address, header.topic, header.queue_id] = self._clock.monotonic_ms(), end

    def _is_young(self, topic: str, queue_id: int) -> bool:
        if self._store.min_offset(topic, queue_id) > 0:
            return False
        found = self._store.get(topic, queue_id, 0, 1, 1)
        if not found.count:
            return False
        first = decode_record(b"".join(found.chunks))
        return self._store.physical_max_offset - first.physical_offset <= YOUNG_QUEUE_BYTES


def _check_queue_id(queue_id: int) -> None:
    if queue_id < 0:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"queueId={queue_id}: queues are numbered from 0")
