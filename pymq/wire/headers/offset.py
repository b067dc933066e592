"""Headers of offset requests: codes 14, 15, 29, 30, 31, 32."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64


class QueryConsumerOffsetHeader(Header, kw_only=True, frozen=True):
    """QUERY_CONSUMER_OFFSET (14)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetHeader(Header, kw_only=True, frozen=True):
    """UPDATE_CONSUMER_OFFSET (15).

    With ``pymq_only_forward``, which RocketMQ does not know, only an offset above the committed one has an effect.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    pymq_only_forward: bool | None = None


class SearchOffsetHeader(Header, kw_only=True, frozen=True):
    """SEARCH_OFFSET_BY_TIMESTAMP (29); ``boundary_type`` LOWER (default) or UPPER."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class QueueOffsetHeader(Header, kw_only=True, frozen=True):
    """GET_MAX_OFFSET (30), GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32)."""

    topic: str
    queue_id: Int32


class OffsetAnswer(Header, kw_only=True, frozen=True):
    """The answer to 14, 29, 30, 31."""

    offset: Int64


class TimestampAnswer(Header, kw_only=True, frozen=True):
    """The answer to 32."""

    timestamp: Int64
