"""Headers of pulls and of message look-ups: codes 11, 361, 12, 33."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64

# What a broker gives a client at most, however many it asks for (RocketMQ: maxTransferCountOnMessageInMemory).
PULL_COUNT_DEFAULT = 32
# What a broker of PyMQ gives a reader that says that it takes so many.
PULL_COUNT_MAX = 1024


class PullMessageHeader(Header, kw_only=True, frozen=True):
    """PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361).

    ``pymq_max_msg_nums``: what PyMQ's readers take, beyond the broker's limit. ``pymq_deleted_below``: the topic's
    records below this physical offset were deleted when the reader looked; more than that is a topic that was deleted
    since, and refused. Brokers of RocketMQ ignore both.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    pymq_max_msg_nums: Int32 | None = None
    pymq_deleted_below: Int64 | None = None


def beyond_default(count: int) -> int | None:
    """Return what to say in ``pymq_max_msg_nums`` to get up to ``count`` messages; None when nothing need be said."""
    return count if count > PULL_COUNT_DEFAULT else None


class PullMessageAnswer(Header, kw_only=True, frozen=True):
    """The answer to a pull. The first four fields are present on every code, because C++, Go and Node don't check."""

    suggest_which_broker_id: Int64 = 0
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    forbidden_type: Int32 | None = None
    topic_sys_flag: Int32 = 0
    group_sys_flag: Int32 = 0


class QueryMessageHeader(
    Header,
    kw_only=True,
    frozen=True,
    rename={
        "unique_key": "_UNIQUE_KEY_QUERY",
        "topic": "topic",
        "key": "key",
        "max_num": "maxNum",
        "begin_timestamp": "beginTimestamp",
        "end_timestamp": "endTimestamp",
    },
):
    """QUERY_MESSAGE (12): by key, or by unique key when ``unique_key`` is true."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key: bool = False


class QueryMessageAnswer(
    Header,
    kw_only=True,
    frozen=True,
    rename={
        "index_last_update_timestamp": "indexLastUpdateTimestamp",
        "index_last_update_offset": "indexLastUpdatePhyoffset",
    },
):
    """The state of the index: the newest time and commit log offset it contains."""

    index_last_update_timestamp: Int64
    index_last_update_offset: Int64


class ViewMessageHeader(Header, kw_only=True, frozen=True):
    """VIEW_MESSAGE_BY_ID (33): the commit log offset from an offset message id."""

    offset: Int64
    topic: str | None = None
