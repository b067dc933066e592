"""JSON bodies that clients and brokers exchange: heartbeats, consumer lists, queue locks (codes 34, 38, 41, 42, 46)."""

from __future__ import annotations

from typing import Any

import msgspec

from pymq.errors import Refusal
from pymq.model.fastjson import JsonError, loads
from pymq.model.message import MessageQueue
from pymq.wire.codes import ResponseCode

PYMQ_LANGUAGE = "PYTHON"  # of a request's header; RocketMQ's own clients get answers without PyMQ's fields
# PyMQ's field of a heartbeat's answer: a text about members of the group that subscribe differently.
DIFFERING_SUBSCRIPTIONS = "pymqDifferingSubscriptions"


class SubscriptionData(msgspec.Struct, rename="camel", kw_only=True):
    """A consumer's subscription to one topic. ``code_set`` holds Java's hash codes of the tags."""

    topic: str
    sub_string: str | None = "*"
    expression_type: str | None = "TAG"
    class_filter_mode: bool = False
    sub_version: int = 0
    tags_set: list[str] | None = []
    code_set: list[int] | None = []
    filter_class_source: str | None = None


# Java's enums in declaration order, because the C++ client sends ordinals.
CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


class ConsumerData(msgspec.Struct, rename="camel", kw_only=True):
    """One consumer group of a heartbeat. Peers send enums as names or ordinals; after decoding they are names."""

    group_name: str
    consume_type: str | int | None = "CONSUME_PASSIVELY"
    message_model: str | int | None = "CLUSTERING"
    consume_from_where: str | int | None = "CONSUME_FROM_LAST_OFFSET"
    unit_mode: bool = False
    subscription_data_set: list[SubscriptionData] | None = []

    def __post_init__(self) -> None:
        self.consume_type = _enum_name(self.consume_type, CONSUME_TYPES, "CONSUME_PASSIVELY")
        self.message_model = _enum_name(self.message_model, MESSAGE_MODELS, "CLUSTERING")
        self.consume_from_where = _enum_name(self.consume_from_where, CONSUME_FROM_WHERE, "CONSUME_FROM_LAST_OFFSET")


class ProducerData(msgspec.Struct, rename="camel", kw_only=True):
    """One producer group of a heartbeat."""

    group_name: str


class HeartbeatData(
    msgspec.Struct,
    kw_only=True,
    rename={
        "client_id": "clientID",
        "producer_data_set": "producerDataSet",
        "consumer_data_set": "consumerDataSet",
        "heartbeat_fingerprint": "heartbeatFingerprint",
        "without_sub": "withoutSub",
    },
):
    """HEART_BEAT (34)."""

    client_id: str
    producer_data_set: list[ProducerData] | None = []
    consumer_data_set: list[ConsumerData] | None = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class QueueName(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The JSON form of a message queue."""

    topic: str
    broker_name: str
    queue_id: int

    def to_queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @classmethod
    def of(cls, queue: MessageQueue) -> QueueName:
        return cls(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)


class LockRequest(msgspec.Struct, rename="camel", kw_only=True):
    """LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""

    consumer_group: str
    client_id: str
    mq_set: list[QueueName] = []
    only_this_broker: bool = False


class LockAnswer(msgspec.Struct, kw_only=True, rename={"lock_ok_mq_set": "lockOKMQSet"}):
    """The answer to LOCK_BATCH_MQ (41): the queues the client holds now."""

    lock_ok_mq_set: list[QueueName] = []


class ConsumerListAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP (38)."""

    consumer_id_list: list[str] = []


def _enum_name(value: str | int | None, names: tuple[str, ...], default: str) -> str:
    if isinstance(value, str) and not value.isdigit():
        return value
    ordinal = int(value) if value is not None else -1
    return names[ordinal] if 0 <= ordinal < len(names) else default


# Bodies that are not strict JSON come from old Java peers and are small.
ODD_BODY_SIZE_MAX_BYTES = 1024 * 1024


def decode_body(cls: Any, body: bytes) -> Any:
    """Decode a typed body from strict JSON or fastjson's dialect; unknown members are ignored.

    Raises Refusal(SYSTEM_ERROR) naming the member that is missing or ill-typed.
    """
    try:
        try:
            # Decodes straight into the type: a body of another shape fails early, at its first wrong member.
            return msgspec.json.decode(body, type=cls, strict=False)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.convert(loads(body, odd_size_max_bytes=ODD_BODY_SIZE_MAX_BYTES), cls, strict=False)
    except (JsonError, msgspec.ValidationError) as error:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"the request's body is not usable: {error}; correct that member"
        ) from error


def encode_body(value: Any) -> bytes:
    """Encode a typed body as compact JSON."""
    return msgspec.json.encode(value)
