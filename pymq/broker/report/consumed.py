"""Consumed: which topics a group reads, and how far it is behind in one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pymq.broker.report.oldest import older_place
from pymq.broker.report.queue_ends import Behind, QueueEnds, pieces
from pymq.model.names import RETRY_PREFIX
from pymq.model.pop import normal_topic
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_admin import TopicLag

if TYPE_CHECKING:
    from pymq.broker.metadata.metadata import Metadata
    from pymq.broker.work.sliced_work import Steps
    from pymq.store.store import MessageStore

TIMED_AT_ONCE: Final = 32  # queues in which an oldest message is looked for before the next rest
NOWHERE: Final = -1
NOTHING: Final = Behind()

# (topic, group, queue id) -> messages that pops got and have not acknowledged.
Invisible = Mapping[tuple[str, str, int], int]


class Oldest(NamedTuple):
    """Places in the log: of the oldest message that waits, and of the oldest last consumed one, of queues with further
    ones. NOWHERE without such a message."""

    waiting: int = NOWHERE
    consumed: int = NOWHERE

    def older(self, other: Oldest) -> Oldest:
        """Return the lower place of both, each time."""
        return Oldest(_lower(self.waiting, other.waiting), _lower(self.consumed, other.consumed))


UNKNOWN: Final = Oldest()


class Consumed:
    """Compares what groups have committed with what queues hold."""

    def __init__(self, *, metadata: Metadata, store: MessageStore, invisible: Invisible) -> None:
        self._topics = metadata.topics
        self._cursors = metadata.cursors
        self._clients = metadata.clients
        self._store = store
        self._invisible = invisible

    def topics_of(self, group: str) -> list[str]:
        """Return the topics with offsets of the group, and those it subscribes to but has not committed in yet."""
        found = set(self._cursors.topics_of(group))
        connected = self._clients.consumer_group(group)
        # Broadcasting consumers keep their own offsets, so their lag is unknown here.
        if connected is not None and not connected.is_broadcasting:
            found.update(connected.subscriptions)
        return sorted(found)

    def reads(self, group: str, topic: str) -> bool:
        """Return False when the topic only has old offsets of the group, whose members read others by now."""
        connected = self._clients.consumer_group(group)
        if connected is None or topic in connected.subscriptions:
            return True
        return topic.startswith(RETRY_PREFIX) and normal_topic(topic, group)[0] in connected.subscriptions

    def topic(self, group: str, topic: str) -> TopicConfig | None:
        """Return a topic that the group reads; None when there is none of that name, or the group gave it up."""
        return self._topics.get(topic) if self.reads(group, topic) else None

    def topic_lag(self, group: str, topic: TopicConfig, *, with_times: bool) -> Steps[TopicLag]:
        """Return the sums over the topic's queues. Yields now and then."""
        name = topic.topic_name
        behind = NOTHING
        for ids in pieces(topic):
            piece = QueueEnds(self._store, topic, ids).behind(self._cursors.committed_in(group, name))
            behind = piece if behind is NOTHING else behind.plus(piece)  # few topics have a second one
            yield
        invisible = 0
        if self._invisible:
            invisible = sum(self._invisible.get((name, group, queue_id), 0) for queue_id in range(topic.queue_count))
        oldest = (yield from self.oldest(group, topic)) if with_times and behind.lag else UNKNOWN
        return TopicLag(
            queues=topic.queue_count,
            lag=behind.lag,
            committed=behind.committed,
            pulled=(yield from self._pulled(group, topic)) if with_times else None,
            invisible=invisible,
            unknown_queues=behind.unknown_queues,
            waiting_since_ms=self.store_ms(oldest.waiting),
            consumed_ms=self.store_ms(oldest.consumed),
        )

    def oldest(self, group: str, topic: TopicConfig) -> Steps[Oldest]:
        """Return the oldest messages, of all queues together: one record of the log tells a time. Yields now and
        then."""
        name = topic.topic_name
        waiting = consumed = NOWHERE
        looked = 0
        for queue_id, committed in list(self._cursors.committed_in(group, name).items()):
            queue = self._store.queue_view(name, queue_id) if queue_id < topic.queue_count else None
            if queue is None or committed >= queue.max_offset:
                continue
            waiting = older_place(waiting, queue, committed)
            if committed > queue.min_offset:
                consumed = older_place(consumed, queue, committed - 1)
            looked += 1
            if looked % TIMED_AT_ONCE == 0:
                yield
        return Oldest(waiting, consumed)

    def store_ms(self, place: int) -> int:
        """Return the store time (Unix ms) of the record at a place in the log, 0 where there is none."""
        return max(0, self._store.store_time_at(place)) if place >= 0 else 0

    def _pulled(self, group: str, topic: TopicConfig) -> Steps[int]:
        """Return the sum of the pulled offsets of the queues with a committed one."""
        total = 0
        for ids in pieces(topic):
            committed = self._cursors.committed_in(group, topic.topic_name)
            _, pulled = self._cursors.places(group, topic.topic_name)  # in memory only: empty after a start
            total += sum(
                max(at, pulled.get(queue_id, at)) for queue_id in ids if (at := committed.get(queue_id, -1)) >= 0
            )
            yield
        return total


def _lower(one: int, other: int) -> int:
    return max(one, other) if one < 0 or other < 0 else min(one, other)
