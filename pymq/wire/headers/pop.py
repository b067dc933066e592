"""Headers of pop consumption: codes 200050 to 200055."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64


class PopMessageHeader(Header, kw_only=True, frozen=True):
    """POP_MESSAGE (200050). ``queue_id`` -1 means all queues; ``born_time`` is of the client's clock, 0 for now."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    invisible_time: Int64 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    init_mode: Int32 = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopMessageAnswer(Header, kw_only=True, frozen=True):
    """The answer to a pop. The first four fields are present on every code."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    rest_num: Int64 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageHeader(Header, kw_only=True, frozen=True):
    """ACK_MESSAGE (200051): ``topic`` is where the message was read, a retry topic perhaps.

    With ``lite_topic`` it is the parent, and ``offset`` is that in the light queue.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    lite_topic: str | None = None


class ChangeInvisibleTimeHeader(Header, kw_only=True, frozen=True):
    """CHANGE_MESSAGE_INVISIBLETIME (200053). ``lite_topic``: as in :class:`AckMessageHeader`."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    lite_topic: str | None = None


class ChangeInvisibleTimeAnswer(Header, kw_only=True, frozen=True):
    """The parts of the new receipt."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PeekMessageHeader(Header, kw_only=True, frozen=True):
    """PEEK_MESSAGE (200052)."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0


class NotificationHeader(Header, kw_only=True, frozen=True):
    """NOTIFICATION (200054): wait until a pop would find something."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    order: bool = False
    attempt_id: str | None = None


class NotificationAnswer(Header, kw_only=True, frozen=True):
    """Whether there is a message, and whether the table of waiting requests is full."""

    has_msg: bool
    polling_full: bool


class PollingInfoHeader(Header, kw_only=True, frozen=True):
    """POLLING_INFO (200055)."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0


class PollingInfoAnswer(Header, kw_only=True, frozen=True):
    """The number of pops that wait with exactly this queue id."""

    polling_num: Int32
