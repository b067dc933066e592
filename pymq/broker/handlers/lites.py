"""Looks at lite topics: those of a broker (200074), of a parent topic (200075), and a single one (200076).

Also at a client's subscriptions (200077), and at how far a group is behind (200078).
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Final

from pymq.broker.pop.lite_offsets import LiteOffsets
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model.lite_groups import lite_group_rules
from pymq.model.lite_topics import expiration_minutes, is_parent, light_queue_name, lite_queue_number
from pymq.wire.bodies_admin import ConsumeOffset, TopicOffset, encode_admin_body
from pymq.wire.bodies_lites import (
    BrokerLites,
    LiteClientState,
    LiteGroupState,
    LiteLag,
    LiteTopicState,
    ParentTopicLites,
)
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.lites import LiteClientHeader, LiteGroupHeader, LiteTopicHeader, ParentTopicHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.metadata import Metadata
    from pymq.broker.pop.lite_subscriptions import LiteSubscriptions
    from pymq.broker.pop.topic_routes import TopicRoutes
    from pymq.broker.work.sliced_work import Steps
    from pymq.model.message import MessageQueue
    from pymq.model.tables import TopicConfig
    from pymq.store.store import LightReader

LITE_TOPICS_PER_PAGE_MAX = 1000  # named in one answer
_STORE_TYPE = "default"  # RocketMQ's name of a store with files
_NO_LAG = -1  # of a lite topic without messages
_NO_TIME = -1  # no message waits
NAMES_MAX: Final = 10_000  # of lite topics or subscribers in an answer
TOP_MAX: Final = 1000  # lite topics in a group's lists
LITES_AT_ONCE: Final = 100  # whose lag is counted before others have their turn


# The lite topics that come first by some number, the last of them at the begin: a heap.
_Top = list[tuple[int, int, LiteLag]]


def _keep(top: _Top, entry: tuple[int, int, LiteLag], count: int) -> None:
    """Take an entry among the ``count`` greatest: a group may be behind in a million lite topics."""
    if len(top) < count:
        heapq.heappush(top, entry)
    elif count and entry > top[0]:
        heapq.heapreplace(top, entry)


class LiteHandlers:
    """Answers what operators ask about lite topics."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        lights: LightReader,
        routes: TopicRoutes,
        subscriptions: LiteSubscriptions,
    ) -> None:
        self._config = runtime.config
        self._sliced_work = runtime.sliced_work
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._cursors = metadata.cursors
        self._order_infos = metadata.order_infos
        self._offsets = LiteOffsets(metadata.cursors, lights)
        self._subscriptions = subscriptions
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
            store_type=_STORE_TYPE,
            max_lmq_num=limit,
            current_lmq_num=count,
            lite_subscription_count=self._subscriptions.count,
            order_info_count=self._order_infos.light_count,
            cq_table_size=count,
            offset_table_size=self._cursors.light_offset_count,
            event_map_size=self._subscriptions.due_count,
            topic_meta=parents,
            group_meta=self._bound_groups(),
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
            groups=self._bound_groups().get(header.topic),
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
            subscriber=self._subscribers(parent, lite),
            topic_offset=TopicOffset(
                min_offset=ends.min_offset, max_offset=ends.max_offset, last_update_timestamp=ends.newest_ms
            ),
            sharding_to_broker=bool(queues)
            and queues[lite_queue_number(lite, len(queues))].broker_name == self._config.broker_name,
        )
        return encode_admin_body(body)

    def client(self, request: Command, header: LiteClientHeader, peer: Peer) -> Reply:
        """Return a client's subscriptions below a parent topic."""
        self._parent(header.parent_topic)
        self._groups.require(header.group)
        body = LiteClientState(parent_topic=header.parent_topic, group=header.group, client_id=header.client_id)
        client = self._subscriptions.find(header.group, header.client_id)
        if client is not None and client.group.parent == header.parent_topic:
            count = max(0, min(header.max_count, NAMES_MAX))
            body.last_access_time = client.pop_ms
            body.lite_topic_count = len(client.lites)
            body.lite_topic_set = [light_queue_name(header.parent_topic, lite) for lite in islice(client.lites, count)]
        return Reply(body=encode_admin_body(body))

    def group(self, request: Command, header: LiteGroupHeader, peer: Peer) -> Reply | None:
        """Return how far a group is behind in one lite topic, or in all of its parent."""
        rules = lite_group_rules(self._groups.require(header.group).attributes)
        if rules is None:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"group {header.group} reads no lite topics: it has no attribute lite.bind.topic",
            )
        request.check_found_topic(rules.parent)
        self._parent(rules.parent)
        if header.lite_topic:
            return Reply(body=encode_admin_body(self._lag_in(header.group, rules.parent, header.lite_topic)))
        top_count = max(0, min(header.top_k, TOP_MAX))
        return self._sliced_work.answer(request, peer, self._whole_lag(header.group, rules.parent, top_count))

    def _lag_in(self, group: str, parent: str, lite: str) -> LiteGroupState:
        body = LiteGroupState(group=group, parent_topic=parent, lite_topic=lite, total_lag_count=_NO_LAG)
        ends = self._lights.ends(parent, lite)
        if not ends.newest_ms:
            return body
        lag = self._lag(group, parent, lite)
        body.total_lag_count = lag.lag_count
        body.earliest_unconsumed_timestamp = lag.earliest_unconsumed_timestamp
        body.lite_topic_offset_wrapper = ConsumeOffset(
            broker_offset=ends.max_offset, consumer_offset=ends.max_offset - lag.lag_count
        )
        return body

    def _whole_lag(self, group: str, parent: str, top_count: int) -> Steps[Reply]:
        """Return the sum of a group's lags, and the lite topics that are furthest behind. Yields now and then."""
        total, since_ms = 0, _NO_TIME
        most: _Top = []
        oldest: _Top = []
        for number, lite in enumerate(self._lights.names_of(parent)):
            lag = self._lag(group, parent, lite)
            waiting_ms = lag.earliest_unconsumed_timestamp
            total += lag.lag_count
            if lag.lag_count:
                _keep(most, (lag.lag_count, -number, lag), top_count)
            if lag.lag_count and waiting_ms >= 0:
                since_ms = waiting_ms if since_ms == _NO_TIME else min(since_ms, waiting_ms)
                _keep(oldest, (-waiting_ms, -number, lag), top_count)
            if number % LITES_AT_ONCE == 0:
                yield
        body = LiteGroupState(
            group=group,
            parent_topic=parent,
            earliest_unconsumed_timestamp=since_ms,
            total_lag_count=total,
            lag_count_top_k=[lag for *_, lag in sorted(most, reverse=True)],
            lag_timestamp_top_k=[lag for *_, lag in sorted(oldest, reverse=True)],
        )
        return Reply(body=encode_admin_body(body))

    def _lag(self, group: str, parent: str, lite: str) -> LiteLag:
        """Return how far a group is behind in a lite topic. Raises StoreError, OSError."""
        end = self._lights.max_offset(parent, lite)
        start = self._offsets.start(group, parent, lite)
        if start >= end:
            return LiteLag(lite_topic=lite, lag_count=0)
        first = self._lights.entries(parent, lite, start, 1)
        if not first:
            return LiteLag(lite_topic=lite, lag_count=0)
        return LiteLag(
            lite_topic=lite,
            lag_count=end - first[0].queue_offset,
            earliest_unconsumed_timestamp=first[0].store_ms,
        )

    def _subscribers(self, parent: str, lite: str) -> list[dict[str, str]]:
        """Return who gets a lite topic; members of a wildcard group are one, named ``*``."""
        found = []
        for group in self._subscriptions.groups_of(parent):
            if group.is_wildcard:
                found.append({"clientId": "*", "group": group.name})
                continue
            of_group = islice(self._subscriptions.subscribers(group, lite), NAMES_MAX - len(found))
            found += [{"clientId": client.client_id, "group": group.name} for client in of_group]
        return found

    def _bound_groups(self) -> dict[str, list[str]]:
        """Return the groups that are bound to each parent."""
        found: dict[str, list[str]] = {}
        for name, group in self._groups.all().items():
            rules = lite_group_rules(group.attributes)
            if rules is not None:
                found.setdefault(rules.parent, []).append(name)
        return found

    def _parent(self, name: str) -> TopicConfig:
        topic = self._topics.require(name)
        if not is_parent(topic.attributes):
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"topic {name} has no lite topics: only topics with message.type=LITE have them",
            )
        return topic
