"""LiteTopics: which messages are of lite topics, and which of them a broker takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model.layout import sent_properties_max_bytes
from pymq.model.lite_topics import (
    is_light_queue,
    is_parent,
    light_properties_max_bytes,
    lite_name_problem,
    lite_topic_of,
    split_light_queue,
)
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.model.tables import TopicConfig
    from pymq.store.store import LightReader, MessageStore


class LiteTopics:
    """A message is of a lite topic when its properties name one and its topic has ``message.type=LITE``."""

    def __init__(self, runtime: Runtime, *, topics: TopicManager, lights: LightReader) -> None:
        self._config = runtime.config
        self._topics = topics
        self._lights = lights

    def of(self, topic: str, properties: bytes) -> str:
        """Return the lite topic of a message that is stored in ``topic``; empty for none."""
        config = self._topics.get(topic)
        lite = lite_topic_of(properties) if config is not None and is_parent(config.attributes) else None
        return "" if lite is None or lite_name_problem(lite) is not None else lite

    def check(self, topic: TopicConfig, properties: bytes) -> None:
        """Check a message that a client sends. Raises Refusal for a lite topic that the broker does not take."""
        lite = lite_topic_of(properties) if is_parent(topic.attributes) else None
        if lite is None:
            return
        problem = lite_name_problem(lite)
        if problem is not None:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, problem)
        name = topic.topic_name
        size = len(properties) + light_properties_max_bytes(name, lite)
        limit = sent_properties_max_bytes(len(name))
        if size > limit:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties take {size} bytes with those of the lite topic, the limit is {limit} for a topic name "
                f"of {len(name)}: shorten keys, tags or properties",
            )
        count, limit = self._lights.count, self._config.lite_topic_count_max
        if count >= limit and not self._lights.has(name, lite):
            raise Refusal(
                ResponseCode.LMQ_QUOTA_EXCEEDED,
                f"the broker {self._config.broker_name} has {count} lite topics, the limit is {limit} "
                f"(liteTopicCountMax), and {lite[:60]!r} of {name} is new: send to another one, or raise the limit",
            )

    def check_batch(self, topic: TopicConfig, properties: bytes) -> None:
        """Check a message of a batch. Raises Refusal for one of a lite topic."""
        if is_parent(topic.attributes) and lite_topic_of(properties) is not None:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL, "messages of lite topics can't be sent as a batch: send them one by one"
            )


QueueEnd = Callable[[str, int], int | None]


def with_light_queues(store: MessageStore, queue_end: QueueEnd) -> QueueEnd:
    """Return what says where queues end, light queues among them: unknown ones end where a new one begins.

    Groups' read marks are places in the log.
    """

    def end(topic: str, queue_id: int) -> int | None:
        if not is_light_queue(topic):
            return queue_end(topic, queue_id)
        names = split_light_queue(topic)
        return store.physical_max_offset if names is None else store.lights.max_offset(*names)

    return end
