"""SendTargets: a cache of queues that take plain sends, emptied when a topic changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.model.inner_batch import has_batch_queues
from pymq.model.lite_topics import is_parent
from pymq.model.message_types import wanted_type
from pymq.model.names import RETRY_PREFIX, is_send_forbidden
from pymq.model.properties import REAL_QUEUE_ID, REAL_TOPIC
from pymq.model.tables import PERM_WRITE

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.stats.stats_manager import Meter, StatsManager
    from pymq.store.queue.batch_queue import BatchQueue
    from pymq.store.queue.consume_queue import ConsumeQueue
    from pymq.store.store import PlainStager


class Target:
    """One queue, and the meter of its topic."""

    __slots__ = ("_real", "meter", "queue")

    def __init__(self, queue: ConsumeQueue, meter: Meter) -> None:
        self.queue = queue
        self.meter = meter
        self._real = b""

    @property
    def real(self) -> bytes:
        """The queue's name as properties of a message that waits elsewhere."""
        if not self._real:  # few of tens of thousands of queues need it
            queue = self.queue
            self._real = f"{REAL_TOPIC}\x01{queue.topic}\x02{REAL_QUEUE_ID}\x01{queue.queue_id}\x02".encode()
        return self._real


class InnerTarget:
    """One batch queue and the meter of its topic."""

    __slots__ = ("meter", "queue")

    def __init__(self, queue: BatchQueue, meter: Meter) -> None:
        self.queue = queue
        self.meter = meter


class SendTargets:
    """Targets by topic and queue id."""

    def __init__(
        self, topics: TopicManager, stager: PlainStager, stats: StatsManager, *, checks_types: bool = False
    ) -> None:
        """``checks_types``: topics with a ``message.type`` are left to the plain path, which checks messages."""
        self._topics = topics
        self._checks_types = checks_types
        self._stager = stager
        self._stats = stats
        self._known: dict[tuple[str, int], Target] = {}
        self._queue_counts: dict[str, int] = {}  # of topics that take plain sends
        self._known_inner: dict[tuple[str, int], InnerTarget] = {}
        self._known_parents: dict[tuple[str, int], Target] = {}
        self._waiting: dict[str, ConsumeQueue] = {}
        self.get_parent = self._known_parents.get
        self.get = self._known.get
        self.get_inner = self._known_inner.get
        topics.add_listener(self._forget)

    def find(self, topic_name: str, queue_id: int) -> Target | None:
        """Return the target if it takes plain sends, and cache it for :attr:`get`; else None."""
        if not 0 <= queue_id < self._queue_counts.get(topic_name, 0):
            if not self._is_plain(topic_name, queue_id, holds_batches=False):
                return None
            self._queue_counts[topic_name] = self._topics.require(topic_name).queue_count
        queue = self._stager.queue(topic_name, queue_id)
        if queue is None:
            return None
        target = self._known[topic_name, queue_id] = Target(queue, self._stats.put_meter(topic_name))
        return target

    def find_parent(self, topic_name: str, queue_id: int) -> Target | None:
        """Do as :meth:`find` for a topic with lite topics, and cache the target for :attr:`get_parent`."""
        if not self._is_plain(topic_name, queue_id, holds_batches=False, has_lites=True):
            return None
        queue = self._stager.queue(topic_name, queue_id)
        if queue is None:
            return None
        target = self._known_parents[topic_name, queue_id] = Target(queue, self._stats.put_meter(topic_name))
        return target

    def find_inner(self, topic_name: str, queue_id: int) -> InnerTarget | None:
        """Do as :meth:`find` for a target that takes inner batches, and cache it for :attr:`get_inner`."""
        if not self._is_plain(topic_name, queue_id, holds_batches=True):
            return None
        queue = self._stager.batch_queue(topic_name, queue_id)
        if queue is None:
            return None
        target = self._known_inner[topic_name, queue_id] = InnerTarget(queue, self._stats.put_meter(topic_name))
        return target

    def waiting_queue(self, topic_name: str) -> ConsumeQueue | None:
        """Return queue 0 of a system topic in which messages wait for their own; None for one that is not plain."""
        queue = self._waiting.get(topic_name)
        if queue is None and (queue := self._stager.queue(topic_name, 0)) is not None:
            self._waiting[topic_name] = queue
        return queue

    def _is_plain(self, topic_name: str, queue_id: int, *, holds_batches: bool, has_lites: bool = False) -> bool:
        topic = self._topics.get(topic_name)
        return (
            topic is not None
            and bool(topic.perm & PERM_WRITE)
            and 0 <= queue_id < topic.queue_count
            and not is_send_forbidden(topic_name)
            and not topic_name.startswith(RETRY_PREFIX)
            and is_parent(topic.attributes) == has_lites
            and (has_lites or not (self._checks_types and wanted_type(topic.attributes)))
            and has_batch_queues(topic.attributes) == holds_batches
        )

    def _forget(self, changed: list[str]) -> None:
        self._known.clear()
        self._queue_counts.clear()
        self._known_inner.clear()
        self._known_parents.clear()
        self._waiting.clear()
