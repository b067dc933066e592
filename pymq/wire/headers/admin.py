"""Headers of administration requests to a broker: topics, groups, offsets, statistics."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64

NO_OFFSET = -1
ALL_QUEUES = -1
TO_MAX_OFFSET_MS = -1


# In answers of PyMQ's brokers: the counter of a table's version, to be sent back as ``pymq_expected_version``.
VERSION_FIELD = "pymqVersion"


class CreateTopicHeader(Header, kw_only=True, frozen=True):
    """UPDATE_AND_CREATE_TOPIC (17). ``attributes`` is text such as ``+message.type=FIFO,-name``.

    ``pymq_expected_version``: a PyMQ broker refuses the change when its table has another version (counter) by now.
    """

    topic: str
    default_topic: str = "TBW102"
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None
    pymq_expected_version: Int64 | None = None


class PutGroupHeader(Header, kw_only=True, frozen=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200), the group is in the body; see :class:`CreateTopicHeader`."""

    pymq_expected_version: Int64 | None = None


class TopicHeader(Header, kw_only=True, frozen=True):
    """QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    topic: str


class DeleteTopicHeader(Header, kw_only=True, frozen=True):
    """DELETE_TOPIC_IN_BROKER (215).

    ``pymq_deleted_below``: what a PyMQ broker said (:class:`TopicStatsAnswer`) when the deletion was planned. It
    refuses the deletion of a topic that was made again since.
    """

    topic: str
    pymq_deleted_below: Int64 | None = None


class TopicStatsHeader(Header, kw_only=True, frozen=True):
    """GET_TOPIC_STATS_INFO (202).

    ``pymq_all`` asks a PyMQ broker for sums of all topics, from the names after ``pymq_after`` on; with ``pymq_named``
    for those of the topics in the body. Other brokers ignore all three.
    """

    topic: str
    pymq_all: bool | None = None
    pymq_after: str | None = None
    pymq_named: bool | None = None


class TopicStatsAnswer(Header, kw_only=True, frozen=True):
    """The answer to GET_TOPIC_STATS_INFO (202) of a PyMQ broker to a client of PyMQ; others have none.

    ``pymq_deleted_below``: the topic's records below this physical offset are deleted. Each deletion raises it, so a
    larger one than before is a topic that was deleted, and made again.
    """

    pymq_deleted_below: Int64 | None = None


class GetTopicConfigHeader(Header, kw_only=True, frozen=True):
    """GET_TOPIC_CONFIG (351). mqadmin sends ``lo`` as ``true``, which means "the physical topic"."""

    topic: str
    lo: bool | None = None


class ConsumeStatsHeader(Header, kw_only=True, frozen=True):
    """GET_CONSUME_STATS (208): for all topics of the group, or for one.

    ``topic_list`` holds several, joined by ``;``. ``pymq_summary`` asks a PyMQ broker for sums by topic instead of a
    table of all queues, and ``pymq_times`` for pulled offsets and times, too. ``pymq_all`` asks it for rows of all
    groups, topics or places (:mod:`pymq.wire.bodies_rows`), from those after ``pymq_after`` on, ``pymq_names`` for the
    names that a row counts, ``pymq_readers`` for rows of topics beside those of groups, and ``pymq_by_topic`` for the
    lags by topic of some groups, joined by ``;``. Other brokers ignore these fields.
    """

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None
    pymq_summary: bool | None = None
    pymq_times: bool | None = None
    pymq_all: str | None = None
    pymq_after: str | None = None
    pymq_names: bool | None = None
    pymq_readers: bool | None = None
    pymq_by_topic: str | None = None


class ConsumerConnectionsHeader(Header, kw_only=True, frozen=True):
    """GET_CONSUMER_CONNECTION_LIST (203).

    ``pymq_all`` asks a PyMQ broker for all groups, from the names after ``pymq_after`` on, and ``pymq_names`` for the
    members' client ids; other brokers ignore these fields.
    """

    consumer_group: str
    pymq_all: bool | None = None
    pymq_after: str | None = None
    pymq_names: bool | None = None


class ProducerConnectionsHeader(Header, kw_only=True, frozen=True):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: str


class DeleteGroupHeader(Header, kw_only=True, frozen=True):
    """DELETE_SUBSCRIPTIONGROUP (207). 5.x clients write ``cleanOffset``, 4.x ones ``removeOffset``."""

    group_name: str
    clean_offset: bool = False
    remove_offset: bool = False


class GroupHeader(Header, kw_only=True, frozen=True):
    """GET_SUBSCRIPTIONGROUP_CONFIG (352), QUERY_TOPICS_BY_CONSUMER (343)."""

    group: str


class TopicGroupHeader(Header, kw_only=True, frozen=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345), QUERY_CONSUME_TIME_SPAN (303)."""

    topic: str
    group: str


class GroupForbiddenHeader(Header, kw_only=True, frozen=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353); without ``readable`` it only asks."""

    group: str
    topic: str
    readable: bool | None = None


class ResetOffsetHeader(Header, kw_only=True, frozen=True):
    """INVOKE_BROKER_TO_RESET_OFFSET (222). ``timestamp`` in ms, -1 for the end; ``queue_id`` -1 for all queues.

    ``offset`` 0 or more wins over ``timestamp``; mqadmin writes -1 for none.
    """

    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 = ALL_QUEUES
    offset: Int64 | None = None


class ResetClientOffsetHeader(Header, kw_only=True, frozen=True):
    """RESET_CONSUMER_CLIENT_OFFSET (220), broker to client."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = True
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class ConsumerStatusHeader(Header, kw_only=True, frozen=True):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) and GET_CONSUMER_STATUS_FROM_CLIENT (221)."""

    topic: str
    group: str
    client_addr: str | None = None


class CorrectionOffsetHeader(Header, kw_only=True, frozen=True):
    """QUERY_CORRECTION_OFFSET (308). ``filter_groups``: joined by commas."""

    topic: str
    compare_group: str
    filter_groups: str | None = None


class CloneGroupOffsetHeader(Header, kw_only=True, frozen=True):
    """CLONE_GROUP_OFFSET (314); without a topic, for all topics of the group."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class StatsDataHeader(Header, kw_only=True, frozen=True):
    """VIEW_BROKER_STATS_DATA (315): for example ``TOPIC_PUT_NUMS`` and a topic.

    ``pymq_all`` asks a PyMQ broker for all keys that counted something in the last day; other brokers ignore it.
    """

    stats_name: str
    stats_key: str
    pymq_all: bool | None = None


class BrokerConsumeStatsHeader(Header, kw_only=True, frozen=True):
    """GET_BROKER_CONSUME_STATS (317): for the ordered groups only, or for the others only."""

    is_order: bool = False


class QueryConsumeQueueHeader(Header, kw_only=True, frozen=True):
    """QUERY_CONSUME_QUEUE (321): ``count`` entries from ``index``; a negative index counts from the end."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None


class ConsumerRunningInfoHeader(Header, kw_only=True, frozen=True):
    """GET_CONSUMER_RUNNING_INFO (307): the broker relays it to the client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyHeader(Header, kw_only=True, frozen=True):
    """CONSUME_MESSAGE_DIRECTLY (309): the broker adds the message and relays it to the client."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class GetConfigHeader(Header, kw_only=True, frozen=True):
    """GET_BROKER_CONFIG (26), GET_NAMESRV_CONFIG (319). ``origins`` is PyMQ's own; RocketMQ ignores it."""

    origins: bool = False


class UpdateConfigHeader(Header, kw_only=True, frozen=True):
    """UPDATE_BROKER_CONFIG (25), UPDATE_NAMESRV_CONFIG (318). All fields are PyMQ's own; RocketMQ ignores them.

    ``persist``: keep the change for the next start, as RocketMQ always does. ``forget``: keys separated by ``;`` whose
    changes at run time are taken back. ``expected_version``: the version that the sender has read.
    """

    persist: bool = False
    forget: str = ""
    expected_version: str = ""


class ConfigAnswer(Header, kw_only=True, frozen=True):
    """The answer to GET_BROKER_CONFIG (26) and GET_NAMESRV_CONFIG (319). The body is ``name=value`` lines.

    ``version``: a data version as JSON (not from RocketMQ's name server). Only PyMQ answers the others: ``origins``, a
    JSON object of the keys without their default, and ``changeable``, the keys that may change at run time.
    """

    version: str | None = None
    origins: str | None = None
    changeable: str | None = None
