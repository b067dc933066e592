"""The two-separator property string: ``name 0x01 value 0x02`` repeated (Java: MessageDecoder)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pymq.model.javahash import tags_code

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"

KEYS = "KEYS"
TAGS = "TAGS"
UNIQ_KEY = "UNIQ_KEY"
WAIT = "WAIT"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
CLUSTER = "CLUSTER"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
POP_CK = "POP_CK"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
PRIORITY = "_SYS_MSG_PRIORITY_"
LITE_TOPIC = "__LITE_TOPIC"  # a client's: the lite topic of a message
SHARDING_KEY = "__SHARDINGKEY"
RESEND = "PYMQ_RESEND"  # PyMQ's producer, on what it sends again: the number of attempts before
# Request-reply.
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
REQUEST_TTL = "TTL"
MESSAGE_TYPE = "MSG_TYPE"
REPLY_MESSAGE_TYPE = "reply"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
ARRIVE_TIME = "ARRIVE_TIME"

# Names that an application may not set (Java: MessageConst.STRING_HASH_SET).
RESERVED = frozenset(
    {
        "1ST_POP_TIME",
        "ARRIVE_TIME",
        "BORN_TIMESTAMP",
        "BUYER_ID",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "CLUSTER",
        "CONSUME_START_TIME",
        "CORRECTION_FLAG",
        "CORRELATION_ID",
        "DELAY",
        "DLQ_ORIGIN_MESSAGE_ID",
        "DLQ_ORIGIN_TOPIC",
        "DUP_INFO",
        "INNER_BASE",
        "INNER_NUM",
        "INSTANCE_ID",
        "KEYS",
        "MAX_OFFSET",
        "MAX_RECONSUME_TIMES",
        "MIN_OFFSET",
        "MQ2_FLAG",
        "MSG_REGION",
        "MSG_TYPE",
        "ORIGIN_GROUP",
        "ORIGIN_MESSAGE_ID",
        "PGROUP",
        "POP_CK",
        "POP_CK_OFFSET",
        "PUSH_REPLY_TIME",
        "REAL_QID",
        "REAL_TOPIC",
        "RECONSUME_TIME",
        "REPLY_TO_CLIENT",
        "RETRY_TOPIC",
        "TAGS",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TIMER_DEL_UNIQKEY",
        "TIMER_DEQUEUE_MS",
        "TIMER_ENQUEUE_MS",
        "TIMER_OUT_MS",
        "TIMER_ROLL_TIMES",
        "TRACE_ON",
        "TRANSACTION_CHECK_TIMES",
        "TRANSFER_FLAG",
        "TRAN_MSG",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "TTL",
        "UNIQ_KEY",
        "WAIT",
        PRIORITY,
        "__CRC32#",
        LITE_TOPIC,
        "__transactionId__",
    }
)


# Names that mean something to the broker and that only it may write: where a message goes later, which transaction it
# belongs to, what it was before, that a wheel takes another one back. RocketMQ's broker believes them from any client.
BROKER_ONLY = frozenset(
    {
        "1ST_POP_TIME",
        "DLQ_ORIGIN_MESSAGE_ID",
        "DLQ_ORIGIN_TOPIC",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
        "INNER_NUM",
        "POP_CK",
        "POP_CK_OFFSET",
        "REAL_QID",
        "REAL_TOPIC",
        "TIMER_DEL_UNIQKEY",
        "TIMER_ROLL_TIMES",
        "TRANSACTION_CHECK_TIMES",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "__CRC32#",
    }
)
# In a retry topic a client's own copy has them: a consumer sends one when giving back fails.
RETRY_ONLY = frozenset({"ORIGIN_MESSAGE_ID", "RETRY_TOPIC"})


def has_broker_word(text: str) -> bool:
    """Return True when one of :data:`BROKER_ONLY` and :data:`RETRY_ONLY` may be among the properties.

    Each of these names has one of these words. They are looked for in text, four times as fast as in bytes.
    """
    return (
        "POP_" in text
        or "REAL_" in text
        or "ORIGIN_" in text
        or "INNER_" in text
        or "RETRY_TOPIC" in text
        or "DEL_UNIQ" in text
        or "ROLL_" in text
        or "CHECK_TIMES" in text
        or "TRAN_PREP" in text
        or "__CRC32" in text
    )


def sent_properties(raw: bytes, *, to_retry_topic: bool = False) -> bytes:
    """Return what a client's message keeps of its properties: those that it may set. Others keep their bytes."""
    if not has_broker_word(raw.decode("latin-1")):
        return raw
    names = BROKER_ONLY if to_retry_topic else BROKER_ONLY | RETRY_ONLY
    found = decode_properties(raw).keys() & names
    return without_properties(raw, {name.encode() for name in found}) if found else raw


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties as stored, each pair closed by 0x02. Leaves out empty values, as Java's parser drops them."""
    return properties_text(properties).encode()


def properties_text(properties: Mapping[str, str]) -> str:
    """Do as :func:`encode_properties` for a header that holds them as text."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items() if name and value])


def decode_properties(raw: bytes | memoryview) -> dict[str, str]:
    """The inverse of :func:`encode_properties`. Tolerates a missing last separator; the last duplicate wins.

    Drops pairs without a separator, with an empty name or with an empty value, as the Java parser does. Bytes that are
    not UTF-8 become U+FFFD.
    """
    result: dict[str, str] = {}
    for pair in bytes(raw).decode("utf-8", "replace").split(PROPERTY_SEPARATOR):
        name, separator, value = pair.partition(NAME_VALUE_SEPARATOR)
        if separator and name and value:
            result[name] = value
    return result


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """Return the value of one property without parsing the rest, None when absent; equal to the decoder's result."""
    prefix = name + b"\x01"
    at = raw.rfind(b"\x02" + prefix)
    if at >= 0:
        start = at + 1 + len(prefix)
    elif raw.startswith(prefix):
        start = len(prefix)
    else:
        return None
    end = raw.find(b"\x02", start)
    value = raw[start:] if end < 0 else raw[start:end]
    if value:
        return value
    return _find_earlier(raw, name)


def _find_earlier(raw: bytes, name: bytes) -> bytes | None:
    """Find it the slow way, when the last duplicate is empty and an earlier one counts."""
    found = decode_properties(raw).get(name.decode())
    return found.encode() if found is not None else None


def append_properties(raw: bytes, extra: bytes) -> bytes:
    """Join two property strings, with a separator between them when the first lacks its last one."""
    if not raw or not extra or raw.endswith(b"\x02"):
        return raw + extra
    return raw + b"\x02" + extra


def without_properties(raw: bytes, names: Collection[bytes]) -> bytes:
    """Return the properties without those of these names; the others keep their bytes and order."""
    kept = [pair for pair in raw.split(b"\x02") if pair and pair.partition(b"\x01")[0] not in names]
    return b"".join([pair + b"\x02" for pair in kept])


def tags_code_of(raw: bytes) -> int:
    """Return the consume queue's tagsCode for a message with these raw properties."""
    if b"TAGS\x01" not in raw:
        return 0
    tags = find_property(raw, b"TAGS")
    return tags_code(tags.decode("utf-8", "replace")) if tags else 0
