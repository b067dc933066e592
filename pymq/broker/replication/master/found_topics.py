"""Topics that a new master's log has messages of and its table doesn't.

A topic that a first send makes is copied to slaves a moment after that send was answered. When its master dies in
between, the message is in the slave's log and nobody could read it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pymq.model import names

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

# What a client asks for when a send makes a topic (Java: DefaultMQProducer.defaultTopicQueueNums).
QUEUE_COUNT = 4


def make_found_topics(store: MessageStore, topics: TopicManager) -> list[str]:
    """Makes them, with the queues that hold messages at least; returns their names. They are saved soon."""
    missing: dict[str, int] = {}
    for topic, queue_id in store.queues():
        if topics.get(topic) is None and store.min_offset(topic, queue_id) < store.max_offset(topic, queue_id):
            missing[topic] = max(missing.get(topic, _least_count(topic)), queue_id + 1)
    if missing:
        topics.ensure_all_internal(missing)
        log.warning("the log has messages of topics that were not copied yet, they are made: %s", ", ".join(missing))
    return list(missing)


def _least_count(topic: str) -> int:
    return 1 if topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)) else QUEUE_COUNT
