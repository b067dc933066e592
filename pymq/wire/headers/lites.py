"""Headers of lite topics: codes 200075 and 200076."""

from __future__ import annotations

from pymq.wire.header import Header


class ParentTopicHeader(Header, kw_only=True, frozen=True):
    """GET_PARENT_TOPIC_INFO (200075)."""

    topic: str


class LiteTopicHeader(Header, kw_only=True, frozen=True):
    """GET_LITE_TOPIC_INFO (200076)."""

    parent_topic: str
    lite_topic: str
