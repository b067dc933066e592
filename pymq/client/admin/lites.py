"""Admin calls about lite topics: parents, single lite topics, subscriptions, and how far groups are behind.

RocketMQ has them since 5.5.
"""

from __future__ import annotations

from pymq.client.admin.connection import AdminConnection
from pymq.wire.bodies_admin import decode_admin_body
from pymq.wire.bodies_lites import BrokerLites, LiteClientState, LiteGroupState, LiteTopicState, ParentTopicLites
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.headers.lites import LiteClientHeader, LiteGroupHeader, LiteTopicHeader, ParentTopicHeader

PAGE_SIZE = 1000
_UNKNOWN_CODE = frozenset({ResponseCode.REQUEST_CODE_NOT_SUPPORTED})


class LiteAdmin:
    """Calls about lite topics. Each asks one broker: a lite topic is on that of its parent which its name decides."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    async def broker(self, address: str) -> BrokerLites | None:
        """Return what a broker holds of all lite topics; None when it knows nothing of them."""
        answer = await self._connection.ask_or_none(address, RequestCode.GET_BROKER_LITE_INFO, None, _UNKNOWN_CODE)
        return None if answer is None else decode_admin_body(BrokerLites, answer.body)

    async def parent(self, address: str, topic: str, start: int = 0, count: int = 0) -> ParentTopicLites:
        """Return a parent topic's expiration, groups and number of lite topics.

        A PyMQ broker also names ``count`` of them, 1,000 at most, behind the first ``start``; RocketMQ's name none.
        Raises NotFoundError, or RefusedError for a topic that has no lite topics.
        """
        header = ParentTopicHeader(topic=topic, pymq_start=start, pymq_count=count)
        answer = await self._connection.ask_broker(address, RequestCode.GET_PARENT_TOPIC_INFO, header)
        return decode_admin_body(ParentTopicLites, answer.body)

    async def topic(self, address: str, parent: str, lite_topic: str) -> LiteTopicState:
        """Return the offsets and subscribers of a lite topic. One that does not exist has no messages."""
        header = LiteTopicHeader(parent_topic=parent, lite_topic=lite_topic)
        answer = await self._connection.ask_broker(address, RequestCode.GET_LITE_TOPIC_INFO, header)
        return decode_admin_body(LiteTopicState, answer.body)

    async def client(
        self, address: str, parent: str, group: str, client_id: str, count_max: int = PAGE_SIZE
    ) -> LiteClientState:
        """Return a client's subscriptions, with at most ``count_max`` names; its count is -1 when it has none."""
        header = LiteClientHeader(parent_topic=parent, group=group, client_id=client_id, max_count=count_max)
        answer = await self._connection.ask_broker(address, RequestCode.GET_LITE_CLIENT_INFO, header)
        return decode_admin_body(LiteClientState, answer.body)

    async def group(self, address: str, group: str, lite_topic: str | None = None, top: int = 0) -> LiteGroupState:
        """Return how far a group is behind in a lite topic, or in all and in the ``top`` ones of them."""
        header = LiteGroupHeader(group=group, lite_topic=lite_topic, top_k=top)
        answer = await self._connection.ask_broker(address, RequestCode.GET_LITE_GROUP_INFO, header)
        return decode_admin_body(LiteGroupState, answer.body)
