"""Headers of lite topics: codes 200070, 200073 and 200075 to 200079."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64


class PopLiteHeader(Header, kw_only=True, frozen=True):
    """POP_LITE_MESSAGE (200070). ``topic`` is the parent; ``born_time`` is of the client's clock, 0 for now."""

    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    attempt_id: str | None = None


class PopLiteAnswer(Header, kw_only=True, frozen=True):
    """The answer to a lite pop. The first three fields are present on every code.

    ``order_count_info``: for each message in order how often it was handed out before, joined by ``;``.
    """

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class NotifyUnsubscribeLiteHeader(Header, kw_only=True, frozen=True):
    """NOTIFY_UNSUBSCRIBE_LITE (200073), from a broker: another client of the group has the lite topic now."""

    lite_topic: str
    consumer_group: str
    client_id: str


class ParentTopicHeader(Header, kw_only=True, frozen=True):
    """GET_PARENT_TOPIC_INFO (200075).

    Fields of PyMQ: ``pymq_count`` lite topics are named in the answer, behind the first ``pymq_start``.
    """

    topic: str
    pymq_start: Int32 = 0
    pymq_count: Int32 = 0


class LiteTopicHeader(Header, kw_only=True, frozen=True):
    """GET_LITE_TOPIC_INFO (200076)."""

    parent_topic: str
    lite_topic: str


class LiteClientHeader(Header, kw_only=True, frozen=True):
    """GET_LITE_CLIENT_INFO (200077). ``max_count``: of names of lite topics."""

    parent_topic: str
    group: str
    client_id: str
    max_count: Int32 = 0


class LiteGroupHeader(Header, kw_only=True, frozen=True):
    """GET_LITE_GROUP_INFO (200078). ``top_k``: how many lite topics with the most to read, without ``lite_topic``."""

    group: str
    lite_topic: str | None = None
    top_k: Int32 = 0


class TriggerLiteHeader(Header, kw_only=True, frozen=True):
    """TRIGGER_LITE_DISPATCH (200079). Without ``client_id``: all clients of the group."""

    group: str
    client_id: str | None = None
