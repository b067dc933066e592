"""Creates topics that a master's log has messages of and its topic table lacks.

The first send to a topic may create it. The slaves copy the topic a moment after that send was answered. When the
master dies in between, a slave has the message in its log, but consumers can't read it without the topic. A directory
may also come without its topic table.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pymq.model import names

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

# A client asks for so many when a send creates a topic (Java: DefaultMQProducer.defaultTopicQueueNums).
QUEUE_COUNT = 4


def make_found_topics(store: MessageStore, topics: TopicManager) -> list[str]:
    """Create the missing topics with at least the queues that have messages; return their names."""
    missing: dict[str, int] = {}
    for topic, queue_id in store.queues():
        if topic == names.RAFT_TOPIC:
            continue  # no topic for clients
        if topics.get(topic) is None and store.min_offset(topic, queue_id) < store.max_offset(topic, queue_id):
            missing[topic] = max(missing.get(topic, _least_count(topic)), queue_id + 1)
    if missing:
        topics.ensure_all_internal(missing)
        log.warning(
            "the log has messages of topics that the topic table lacks; these are created, with default settings: %s",
            ", ".join(missing),
        )  # fmt: skip
    return list(missing)


def _least_count(topic: str) -> int:
    return 1 if topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)) else QUEUE_COUNT
