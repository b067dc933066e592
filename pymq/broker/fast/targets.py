"""SendTargets: a cache of queues that take plain sends, emptied when a topic changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.model.inner_batch import has_batch_queues
from pymq.model.message_types import wanted_type
from pymq.model.names import RETRY_PREFIX, is_send_forbidden
from pymq.model.tables import PERM_WRITE

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.report.stats import Meter, StatsManager
    from pymq.store.queue.consume_queue import ConsumeQueue
    from pymq.store.store import PlainStager


class Target:
    """One queue and the meter of its topic."""

    __slots__ = ("meter", "queue")

    def __init__(self, queue: ConsumeQueue, meter: Meter) -> None:
        self.queue = queue
        self.meter = meter


class SendTargets:
    """Targets by topic and queue id."""

    def __init__(self, topics: TopicManager, stager: PlainStager, stats: StatsManager) -> None:
        self._topics = topics
        self._stager = stager
        self._stats = stats
        self._known: dict[tuple[str, int], Target] = {}
        self.get = self._known.get
        topics.add_listener(self._forget)

    def find(self, topic_name: str, queue_id: int) -> Target | None:
        """Return the target if it takes plain sends, and cache it for :attr:`get`; else None."""
        topic = self._topics.get(topic_name)
        if (
            topic is None
            or not topic.perm & PERM_WRITE
            or not 0 <= queue_id < topic.queue_count
            or is_send_forbidden(topic_name)
            or topic_name.startswith(RETRY_PREFIX)
            or wanted_type(topic.attributes) is not None
            or has_batch_queues(topic.attributes)
        ):
            return None
        queue = self._stager.queue(topic_name, queue_id)
        if queue is None:
            return None
        target = self._known[topic_name, queue_id] = Target(queue, self._stats.put_meter(topic_name))
        return target

    def _forget(self, changed: list[str]) -> None:
        self._known.clear()
