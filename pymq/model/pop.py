"""Pop consumption: names of topics, receipts of handed-out messages, and the records of the revive topic.

Java: PopAckConstants, KeyBuilder, ExtraInfoUtil, PopCheckPoint, AckMsg and BatchAckMsg.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from pymq.model import fastjson
from pymq.model.names import RETRY_PREFIX, REVIVE_TOPIC_PREFIX, topic_problem

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
CHECK_POINT_TAG = "ck"
ACK_TAG = "ack"
BATCH_ACK_TAG = "bAck"
FIRST_POP_TIME = "1ST_POP_TIME"
MESSAGES_PER_CHECK_POINT_MAX = 32  # an acknowledgement is one bit of 32
ORDERLY_REVIVE_QUEUE = 999  # the revive queue in receipts of orderly pops, which have no check point
RECEIPT_OVER = "the receipt is over"  # begins the remark of a change of the invisible time that has nothing to change
RECEIPT_PARTS_MIN = 6  # that a broker reads

# The retry flag of a receipt and of the offset strings: where the message was read.
NORMAL, RETRY_V1, RETRY_V2 = 0, 1, 2


def revive_topic(cluster: str) -> str:
    """Return the topic of a cluster's check points and acknowledgements."""
    return REVIVE_TOPIC_PREFIX + cluster


def retry_topic_v1(group: str, topic: str) -> str:
    """Return ``%RETRY%group_topic``. It is ambiguous when a name contains an underscore."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def retry_topic_v2(group: str, topic: str) -> str:
    """Return ``%RETRY%group+topic``."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def retry_topic_problem(group: str, topic: str) -> str | None:
    """Return why a group can't have a retry topic for a topic; None when it can. Both forms have the same length."""
    return topic_problem(retry_topic_v1(group, topic))


def retry_topics_of(wanted: Collection[str], topics: Collection[str], groups: Collection[str]) -> list[str]:
    """Return those of ``topics`` that hold what groups get again of a topic in ``wanted`` and of no other topic.

    A topic of the first form counts only when no other pair of these names has it, nor a push group for its retries.
    """
    found = []
    for name in topics:
        if name.startswith(RETRY_PREFIX):
            joined, plus, of_topic = name.removeprefix(RETRY_PREFIX).partition("+")
            if not plus:
                pairs = _pairs_of(joined, topics, groups)
                of_topic = pairs[0][1] if len(pairs) == 1 else ""
            if of_topic in wanted:
                found.append(name)
    return found


def _pairs_of(joined: str, topics: Collection[str], groups: Collection[str]) -> list[tuple[str, str]]:
    """Return the group and topic pairs that two names joined by an underscore may be of; a group alone counts too."""
    cuts = [at for at, character in enumerate(joined) if character == "_"]
    pairs = [(joined[:at], joined[at + 1 :]) for at in cuts]
    found = [(group, topic) for group, topic in pairs if group in groups and topic in topics]
    return [*found, (joined, "")] if joined in groups else found


def stored_topic(flag: int, group: str, topic: str) -> str:
    """Return the topic in which a message of a pop of ``topic`` was read, by the retry flag of its receipt."""
    if flag == RETRY_V1:
        return retry_topic_v1(group, topic)
    if flag == RETRY_V2:
        return retry_topic_v2(group, topic)
    return topic


def normal_topic(topic: str, group: str) -> tuple[str, int]:
    """Return the topic that a pop asked for, and the retry flag, for a topic of a check point of ``group``."""
    for flag, prefix in ((RETRY_V1, retry_topic_v1(group, "")), (RETRY_V2, retry_topic_v2(group, ""))):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix), flag
    return topic, NORMAL


class Receipt(NamedTuple):
    """The first parts of a receipt (``extraInfo``, property ``POP_CK``). Times are Unix ms of the broker's clock."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry_flag: int
    broker_name: str


def encode_receipt(receipt: Receipt, queue_id: int, offset: int) -> str:
    """Return the text of a receipt: six parts, the message's queue and its offset there."""
    start_offset, pop_time_ms, invisible_ms, revive_queue_id, flag, broker = receipt
    return f"{start_offset} {pop_time_ms} {invisible_ms} {revive_queue_id} {flag} {broker} {queue_id} {offset}"


def decode_receipt(text: str) -> Receipt:
    """Return the parts that a broker reads. Raises ValueError that names the part."""
    parts = text.split(" ")
    if len(parts) < RECEIPT_PARTS_MIN:
        raise ValueError(f"the receipt {text[:80]!r} has {len(parts)} parts, at least {RECEIPT_PARTS_MIN} are needed")
    return Receipt(
        _number("start offset", parts[0], text),
        _number("pop time", parts[1], text),
        _number("invisible time", parts[2], text),
        _number("revive queue", parts[3], text),
        _number("retry flag", parts[4], text),
        parts[5],
    )


def _number(name: str, part: str, text: str) -> int:
    digits = part.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise ValueError(f"the receipt {text[:80]!r} has {part[:20]!r} as its {name}: it must be a whole number")
    return int(part)


class QueueOffsets(NamedTuple):
    """What an answer holds of one queue: the offset at which the broker began to read, and those of the messages."""

    retry_flag: int
    queue_id: int
    start_offset: int
    offsets: Sequence[int]


def start_offset_info(queues: Sequence[QueueOffsets]) -> str:
    """Return the field ``startOffsetInfo``: ``flag queue start`` for each queue, between semicolons."""
    return ";".join([f"{each.retry_flag} {each.queue_id} {each.start_offset}" for each in queues])


def message_offset_info(queues: Sequence[QueueOffsets]) -> str:
    """Return the field ``msgOffsetInfo``: ``flag queue offset,offset,…`` for each queue, between semicolons."""
    return ";".join([f"{each.retry_flag} {each.queue_id} {','.join(map(str, each.offsets))}" for each in queues])


class CheckPointRecord(msgspec.Struct, kw_only=True):
    """The JSON of a check point, its members in the order in which fastjson writes them."""

    acked_bits: int = msgspec.field(name="bm", default=0)
    broker_name: str = msgspec.field(name="bn", default="")
    group: str = msgspec.field(name="c")
    distances: list[int] | None = msgspec.field(name="d", default=None)  # of the messages from the start offset
    invisible_ms: int = msgspec.field(name="it")
    count: int = msgspec.field(name="n", default=0)
    pop_time_ms: int = msgspec.field(name="pt")
    queue_id: int = msgspec.field(name="q")
    revive_ms: int = msgspec.field(name="reviveTime", default=0)
    revive_offset: int = msgspec.field(name="ro", default=0)
    start_offset: int = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")


class AckRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The JSON of an acknowledgement; of a batch, when it has ``offsets``."""

    offset: int = msgspec.field(name="ao")
    offsets: list[int] | None = msgspec.field(name="aol", default=None)
    broker_name: str = msgspec.field(name="bn", default="")
    group: str = msgspec.field(name="c")
    pop_time_ms: int = msgspec.field(name="pt")
    queue_id: int = msgspec.field(name="q")
    start_offset: int = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")


# Java's readers accept these for the members of an acknowledgement.
_LONG_NAMES = {
    "ackOffset": "ao",
    "ackOffsetList": "aol",
    "brokerName": "bn",
    "consumerGroup": "c",
    "popTime": "pt",
    "queueId": "q",
    "startOffset": "so",
    "topic": "t",
}


def decode_check_point(body: bytes) -> CheckPointRecord:
    """Return the check point in a record's body. Raises ValueError."""
    record: CheckPointRecord = _decode(CheckPointRecord, body)
    return record


def decode_ack(body: bytes) -> AckRecord:
    """Return the acknowledgement in a record's body. Raises ValueError."""
    record: AckRecord = _decode(AckRecord, body)
    return record


def _decode(cls: type[Any], body: bytes) -> Any:
    try:
        return msgspec.json.decode(body, type=cls)
    except msgspec.MsgspecError:
        pass
    try:
        loose = fastjson.loads(body, odd_size_max_bytes=len(body) + 1)
        if isinstance(loose, dict):
            loose = {_LONG_NAMES.get(str(name), str(name)): value for name, value in loose.items()}
        return msgspec.convert(loose, cls, strict=False)
    except (msgspec.ValidationError, fastjson.JsonError) as error:
        raise ValueError(f"{cls.__name__} can't be read: {error}") from error
