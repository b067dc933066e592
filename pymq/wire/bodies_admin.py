"""JSON bodies of the administration requests to a broker: statistics, connections, configurations, group lists.

fastjson writes a map by queue with whole JSON objects as keys; here those keys are :class:`MessageQueue`.
:func:`decode_admin_body` and :func:`encode_admin_body` handle both that form and strict JSON. The bodies of topic lists
(305, 343) and of the runtime table (28) are ``TopicList`` and ``KvTable`` of :mod:`pymq.wire.bodies_route`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from pymq.errors import Refusal
from pymq.model.fastjson import JsonError, loads
from pymq.model.message import MessageQueue
from pymq.model.tables import DataVersion, SubscriptionGroupConfig, TopicConfig
from pymq.wire.admin_text import encode_whole
from pymq.wire.bodies_client import QueueName, SubscriptionData
from pymq.wire.codes import ResponseCode


class TopicConfigTable(msgspec.Struct, rename="camel", kw_only=True):
    """GET_ALL_TOPIC_CONFIG (21)."""

    data_version: DataVersion = DataVersion()
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] = {}


class TopicConfigList(msgspec.Struct, rename="camel", kw_only=True):
    """UPDATE_AND_CREATE_TOPIC_LIST (18)."""

    topic_config_list: list[TopicConfig] = []


class ListedTopics(msgspec.Struct, rename="camel", kw_only=True):
    """DELETE_TOPIC_IN_BROKER_LIST (5002). Java: DeleteTopicListRequestBody."""

    topic_list: list[str] = []


class ListedGroups(msgspec.Struct, rename="camel", kw_only=True):
    """DELETE_SUBSCRIPTION_GROUP_LIST (5003). Java: DeleteSubscriptionGroupListRequestBody."""

    group_name_list: list[str] = []
    clean_offset: bool = False


class GroupConfigTable(msgspec.Struct, rename="camel", kw_only=True):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201). ``forbidden_table``: group -> topic -> bits."""

    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, int]] = {}
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class GroupConfigList(msgspec.Struct, rename="camel", kw_only=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225)."""

    group_config_list: list[SubscriptionGroupConfig] = []


class GroupForbidden(msgspec.Struct, rename="camel", kw_only=True):
    """The answer to UPDATE_AND_GET_GROUP_FORBIDDEN (353)."""

    group: str
    topic: str
    readable: bool = True


class DeletionPlan(msgspec.Struct, rename="camel", kw_only=True):
    """The answer to PYMQ_PLAN_BROKER_CONFIG (9110): the oldest segments that retention deletes as soon as it may.

    ``doomed_now`` of ``segments`` go with the settings as they are, ``doomed_then`` with ``doomed_bytes`` after the
    change, for the settings in ``reasons``.
    """

    segments: int
    doomed_now: int
    doomed_then: int
    doomed_bytes: int
    reasons: list[str] = []


class TopicOffset(msgspec.Struct, rename="camel", kw_only=True):
    """One queue of GET_TOPIC_STATS_INFO. The timestamp is the last message's store time in ms, 0 for an empty queue."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStats(msgspec.Struct, rename="camel", kw_only=True):
    """GET_TOPIC_STATS_INFO (202)."""

    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float = 0.0


class ConsumeOffset(msgspec.Struct, rename="camel", kw_only=True):
    """One queue of a group: the queue's end, the committed offset, the pulled offset (5.x), and the store time in ms of
    the last consumed message.

    ``pymq_invisible`` counts messages before the committed offset that pops got and have not acknowledged. Only PyMQ's
    brokers send it, and only when there are any. ``pymq_uncommitted`` is true, from them only, where the group has no
    committed offset and ``consumer_offset`` is 0 for that reason.
    """

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0
    pymq_invisible: int | None = None
    pymq_uncommitted: bool | None = None

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


def sum_of_known(figures: Iterable[int | None]) -> int | None:
    """Return the sum; None when one figure is unknown."""
    total = 0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total


class TopicLag(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """How far a group is behind in one topic of one broker, or of several.

    ``lag`` counts the messages in queues with a committed offset. ``unknown_queues`` have messages and no committed
    offset. ``committed`` is the sum of the committed offsets: it grows by what the group consumes. ``pulled`` is the
    sum of the pulled ones, none of which is below the committed one.

    ``waiting_since_ms`` is the store time of the oldest message that waits, ``consumed_ms`` the earliest store time of
    a last consumed message, of the queues with further ones; Unix ms, 0 without such a message. They and ``pulled`` are
    only there when times were asked for. None is what a broker does not report: RocketMQ's don't count ``invisible``.
    """

    queues: int = 0
    lag: int = 0
    committed: int | None = None
    pulled: int | None = None
    invisible: int | None = 0
    unknown_queues: int = 0
    waiting_since_ms: int = 0
    consumed_ms: int = 0

    @property
    def known_lag(self) -> int | None:
        """The lag; None when the group has no committed offset in queues with messages, and no lag in others."""
        return None if self.unknown_queues and not self.lag else self.lag

    def plus(self, other: TopicLag) -> TopicLag:
        """Return the sum with the same topic's figures on another broker."""
        return TopicLag(
            queues=self.queues + other.queues,
            lag=self.lag + other.lag,
            committed=sum_of_known((self.committed, other.committed)),
            pulled=sum_of_known((self.pulled, other.pulled)),
            invisible=sum_of_known((self.invisible, other.invisible)),
            unknown_queues=self.unknown_queues + other.unknown_queues,
            waiting_since_ms=earlier(self.waiting_since_ms, other.waiting_since_ms),
            consumed_ms=earlier(self.consumed_ms, other.consumed_ms),
        )


def earlier(one_ms: int, other_ms: int) -> int:
    """Return the earlier of two times, of which 0 stands for none."""
    return min(one_ms, other_ms) if one_ms and other_ms else one_ms or other_ms


def add_lag(lags: dict[str, TopicLag], topic: str, lag: TopicLag) -> None:
    """Add the figures of a further broker or queue to those of the topic."""
    known = lags.get(topic)
    lags[topic] = lag if known is None else known.plus(lag)


class ConsumeStats(msgspec.Struct, rename="camel", kw_only=True):
    """GET_CONSUME_STATS (208). ``pymq_topics`` comes instead of the table from PyMQ's brokers, when asked for.

    ``pymq_counts_invisible`` is true from them: where a queue has no ``pymq_invisible``, it is 0.
    """

    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, ConsumeOffset] = {}
    pymq_counts_invisible: bool | None = None
    pymq_topics: dict[str, TopicLag] | None = None


class BrokerConsumeStats(msgspec.Struct, rename="camel", kw_only=True):
    """GET_BROKER_CONSUME_STATS (317)."""

    broker_addr: str = ""
    total_diff: int = 0
    total_inflight_diff: int = 0
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []


class Connection(msgspec.Struct, rename="camel", kw_only=True):
    """One client of a group; ``client_addr`` is "host:port", ``version`` the ordinal of Java's MQVersion."""

    client_id: str = ""
    client_addr: str = ""
    language: str | None = None
    version: int = 0


class ConsumerConnections(msgspec.Struct, rename="camel", kw_only=True):
    """GET_CONSUMER_CONNECTION_LIST (203)."""

    connection_set: list[Connection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    # PyMQ's, for PyMQ's admin client: topic -> selection -> members, where members differ. None from other brokers.
    pymq_differences: dict[str, dict[str, int]] | None = None


class ProducerConnections(msgspec.Struct, rename="camel", kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    connection_set: list[Connection] = []


_PRODUCER_INFO_NAMES = {
    "client_id": "clientId",
    "remote_ip": "remoteIP",
    "last_update_timestamp": "lastUpdateTimestamp",
}


class ProducerInfo(msgspec.Struct, kw_only=True, rename=_PRODUCER_INFO_NAMES):
    """One producer of GET_ALL_PRODUCER_INFO (328). Java writes the address as "/host:port"."""

    client_id: str = ""
    remote_ip: str = ""
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


class AllProducers(msgspec.Struct, rename="camel", kw_only=True):
    """GET_ALL_PRODUCER_INFO (328): group -> its producers."""

    data: dict[str, list[ProducerInfo]] = {}


class QueueOffsets(msgspec.Struct, rename="camel", kw_only=True):
    """The answer to a reset (222), and the body of RESET_CONSUMER_CLIENT_OFFSET (220)."""

    offset_table: dict[MessageQueue, int] = {}


class QueueOffsetEntry(msgspec.Struct, rename="camel", kw_only=True):
    """One queue of the list form that C++ clients read in 220."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int


class QueueOffsetList(msgspec.Struct, rename="camel", kw_only=True):
    """RESET_CONSUMER_CLIENT_OFFSET (220) as a C++ client reads it."""

    offset_table: list[QueueOffsetEntry] = []


class ConsumerStatus(msgspec.Struct, rename="camel", kw_only=True):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): client id -> queue -> offset."""

    consumer_table: dict[str, dict[MessageQueue, int]] = {}


class ClientConsumerStatus(msgspec.Struct, rename="camel", kw_only=True):
    """A client's answer to GET_CONSUMER_STATUS_FROM_CLIENT (221)."""

    message_queue_table: dict[MessageQueue, int] = {}


class GroupNames(msgspec.Struct, rename="camel", kw_only=True):
    """QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    group_list: list[str] = []


class SubscriptionAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""

    group: str = ""
    topic: str = ""
    subscription_data: SubscriptionData | None = None


class QueueTimeSpan(msgspec.Struct, rename="camel", kw_only=True):
    """One queue of QUERY_CONSUME_TIME_SPAN: store times in ms of its first, last and last consumed message."""

    message_queue: QueueName
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0


class ConsumeTimeSpans(msgspec.Struct, rename="camel", kw_only=True):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    consume_time_span_set: list[QueueTimeSpan] = []


class CorrectionOffsets(msgspec.Struct, rename="camel", kw_only=True):
    """QUERY_CORRECTION_OFFSET (308): queue id -> offset."""

    correction_offsets: dict[int, int] = {}


class StatsWindow(msgspec.Struct, rename="camel", kw_only=True):
    """The sum, the rate per second and the average per call over one time window."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class StatsData(msgspec.Struct, rename="camel", kw_only=True):
    """VIEW_BROKER_STATS_DATA (315). ``pymq_keys`` has, from PyMQ's brokers when asked for, the windows by key."""

    stats_minute: StatsWindow = msgspec.field(default_factory=StatsWindow)
    stats_hour: StatsWindow = msgspec.field(default_factory=StatsWindow)
    stats_day: StatsWindow = msgspec.field(default_factory=StatsWindow)
    pymq_keys: dict[str, StatsData] | None = None


class ConsumeQueueEntry(msgspec.Struct, rename="camel", kw_only=True):
    """One 20-byte unit of a consume queue. ``eval`` is true when the group's filter lets the message through."""

    physic_offset: int
    physic_size: int
    tags_code: int
    eval: bool = False
    extend_data_json: str | None = None
    bit_map: str | None = None
    msg: str | None = None


class ConsumeQueueAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """QUERY_CONSUME_QUEUE (321)."""

    min_queue_index: int = 0
    max_queue_index: int = 0
    queue_data: list[ConsumeQueueEntry] | None = []
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


class HaClientRuntimeInfo(msgspec.Struct, rename="camel", kw_only=True):
    """The slave's side of replication."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0


class HaConnectionInfo(msgspec.Struct, rename="camel", kw_only=True):
    """A master's connection to one slave."""

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class HaStatus(msgspec.Struct, rename="camel", kw_only=True):
    """GET_BROKER_HA_STATUS (907)."""

    master: bool = True
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HaConnectionInfo] = []
    ha_client_runtime_info: HaClientRuntimeInfo = msgspec.field(default_factory=HaClientRuntimeInfo)


class EpochRange(msgspec.Struct, rename="camel", kw_only=True):
    """The part of a log that the master of one epoch wrote."""

    epoch: int = 0
    start_offset: int = 0
    end_offset: int = 0


class EpochCache(msgspec.Struct, rename="camel", kw_only=True):
    """GET_BROKER_EPOCH_CACHE (1007). Java: EpochEntryCache."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: int = 0
    epoch_list: list[EpochRange] = []
    max_offset: int = 0


class ConsumerRunningInfo(msgspec.Struct, rename="camel", kw_only=True):
    """A client's answer to GET_CONSUMER_RUNNING_INFO (307). A broker relays its bytes without reading them."""

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[MessageQueue, dict[str, Any]] = {}
    mq_pop_table: dict[MessageQueue, dict[str, Any]] = {}
    status_table: dict[str, dict[str, float]] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None


class ConsumeDirectlyResult(msgspec.Struct, rename="camel", kw_only=True):
    """A client's answer to CONSUME_MESSAGE_DIRECTLY (309)."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: int = 0


BodyT = TypeVar("BodyT")

# Enough for the statistics of a group with some ten thousand queues; a larger body would block the server for seconds.
ODD_BODY_SIZE_MAX_BYTES = 4 * 1024 * 1024
# How the text of a queue begins, as a key of strict JSON. Most bodies have none, and are decoded in one go.
_QUEUE_AS_TEXT = b'"{'
_decoders: dict[type[Any], msgspec.json.Decoder[Any] | None] = {}


def decode_admin_body(cls: type[BodyT], body: bytes) -> BodyT:
    """Decode a typed body from strict JSON or fastjson's dialect.

    Unknown members are ignored; keys that are queues become MessageQueue.

    Raises Refusal(SYSTEM_ERROR) naming the member that is missing or ill-typed.
    """
    decoder = _decoder_of(cls)
    if decoder is not None and _QUEUE_AS_TEXT not in body:
        with suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            decoded: BodyT = decoder.decode(body)
            return decoded
    try:
        return msgspec.convert(
            _with_queue_keys(loads(body, odd_size_max_bytes=ODD_BODY_SIZE_MAX_BYTES)), cls, strict=False
        )
    except (JsonError, msgspec.ValidationError) as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the body is not usable: {error}; correct that member") from error


def _decoder_of(cls: type[Any]) -> msgspec.json.Decoder[Any] | None:
    """Return what decodes strict JSON at once, None for a type that has queues as keys."""
    if cls not in _decoders:
        try:
            _decoders[cls] = msgspec.json.Decoder(cls, strict=False)
        except TypeError:
            _decoders[cls] = None
    return _decoders[cls]


def encode_admin_body(body: msgspec.Struct) -> bytes:
    """Encode a typed body as JSON: nulls are left out; queue keys are objects, as Go and C++ readers need them."""
    return encode_whole(body)


def _with_queue_keys(value: Any) -> Any:
    """Replace keys that hold a queue as JSON text, which is the strict form of an object key."""
    if isinstance(value, list):
        return [_with_queue_keys(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {_queue_or_text(key): _with_queue_keys(item) for key, item in value.items()}


def _queue_or_text(key: Any) -> Any:
    if not isinstance(key, str) or not key.startswith("{"):
        return key
    try:
        return msgspec.json.decode(key, type=QueueName).to_queue()
    except msgspec.DecodeError:
        return key
