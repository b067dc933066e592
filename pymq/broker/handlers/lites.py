"""Looks at lite topics: those of a broker (200074), of a parent topic (200075), and a single one (200076)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model.lite_topics import expiration_minutes, is_parent, lite_queue_number
from pymq.wire.bodies_admin import TopicOffset, encode_admin_body
from pymq.wire.bodies_lites import BrokerLites, LiteTopicState, ParentTopicLites
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.lites import LiteTopicHeader, ParentTopicHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.pop.topic_routes import TopicRoutes
    from pymq.model.message import MessageQueue
    from pymq.model.tables import TopicConfig
    from pymq.store.store import LightReader

LITE_TOPICS_PER_PAGE_MAX = 1000  # named in one answer
_STORE_TYPE = "default"  # RocketMQ's name of a store with files


class LiteHandlers:
    """Answers what operators ask about lite topics."""

    def __init__(self, runtime: Runtime, *, topics: TopicManager, lights: LightReader, routes: TopicRoutes) -> None:
        self._config = runtime.config
        self._topics = topics
        self._lights = lights
        self._routes = routes

    def broker(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return what this broker holds of all lite topics."""
        count = self._lights.count
        parents = {
            topic.topic_name: expiration_minutes(topic.attributes)
            for topic in self._topics.all().values()
            if is_parent(topic.attributes)
        }
        limit = self._config.lite_topic_count_max
        body = BrokerLites(
            store_type=_STORE_TYPE, max_lmq_num=limit, current_lmq_num=count, cq_table_size=count, topic_meta=parents
        )
        return Reply(body=encode_admin_body(body))

    def parent(self, request: Command, header: ParentTopicHeader, peer: Peer) -> Reply:
        """Return how many lite topics a parent has here."""
        topic = self._parent(header.topic)
        body = ParentTopicLites(
            topic=header.topic,
            ttl=expiration_minutes(topic.attributes),
            lmq_num=self._lights.count,
            lite_topic_count=self._lights.count_of(header.topic),
            pymq_lite_topics=self._page(header),
        )
        return Reply(body=encode_admin_body(body))

    def _page(self, header: ParentTopicHeader) -> list[tuple[str, int]] | None:
        """Return the lite topics that the request asks for, None for none."""
        start, count = header.pymq_start, header.pymq_count
        if not 0 <= count <= LITE_TOPICS_PER_PAGE_MAX or start < 0:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"pymqStart is {start} and pymqCount {count}: use 0 and more, and at most {LITE_TOPICS_PER_PAGE_MAX}",
            )
        return self._lights.page(header.topic, start, count) if count else None

    def lite_topic(self, request: Command, header: LiteTopicHeader, peer: Peer) -> Reply | None:
        """Return a lite topic's ends, once a name server has named the queues of its parent."""
        parent = header.parent_topic
        self._parent(parent)
        return self._routes.answer(
            request, peer, parent, lambda queues: self._state(header, queues or []), writable=True
        )

    def _state(self, header: LiteTopicHeader, queues: list[MessageQueue]) -> bytes:
        parent, lite = header.parent_topic, header.lite_topic
        ends = self._lights.ends(parent, lite)
        body = LiteTopicState(
            parent_topic=parent,
            lite_topic=lite,
            topic_offset=TopicOffset(
                min_offset=ends.min_offset, max_offset=ends.max_offset, last_update_timestamp=ends.newest_ms
            ),
            sharding_to_broker=bool(queues)
            and queues[lite_queue_number(lite, len(queues))].broker_name == self._config.broker_name,
        )
        return encode_admin_body(body)

    def _parent(self, name: str) -> TopicConfig:
        topic = self._topics.require(name)
        if not is_parent(topic.attributes):
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"topic {name} has no lite topics: only topics with message.type=LITE have them",
            )
        return topic
