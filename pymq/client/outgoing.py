"""Prepares messages for sending: checks them, encodes properties and body, and builds the send request."""

from __future__ import annotations

from collections.abc import Sequence

from pymq.client.answers import read_answer
from pymq.errors import RefusedError, UsageError
from pymq.model import properties as names
from pymq.model.compression import compress_body
from pymq.model.ids import UniqueIdMaker
from pymq.model.layout import BATCH_COUNT_MAX, PROPERTIES_SIZE_MAX_BYTES
from pymq.model.message import Message, MessageQueue, SendResult, SendStatus
from pymq.model.names import AUTO_CREATE_TOPIC, RETRY_PREFIX
from pymq.model.properties import encode_properties
from pymq.model.record import encode_batch_entry
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.headers.send import SendMessageAnswer, SendMessageV2Header, send_v2_fields

BODY_SIZE_MAX_BYTES = 4 * 1024 * 1024  # Java: DefaultMQProducer.maxMessageSize
AUTO_CREATE_QUEUE_COUNT = 4

# Reserved names that an application may set as properties, because Message has no field for them.
_SETTABLE = {names.UNIQ_KEY, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.SHARDING_KEY}
_SETTABLE |= {"INSTANCE_ID", "BUYER_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_TYPE"}
_SETTABLE |= {names.PRIORITY, names.LITE_TOPIC}
FORBIDDEN = names.RESERVED - _SETTABLE
# A message with one of these has a meaning to brokers that no batch has.
ALONE = _SETTABLE - {names.UNIQ_KEY, names.SHARDING_KEY}

_PLAIN_LENGTH_MAX = 8000  # characters, so at most 32,000 bytes
_MARK_SIZE_MAX_BYTES = 64  # WAIT and PYMQ_RESEND, which a batch adds to each message
BATCHED_SIZE_MAX_BYTES = PROPERTIES_SIZE_MAX_BYTES - _MARK_SIZE_MAX_BYTES
_MARKED_LENGTH_MAX = BATCHED_SIZE_MAX_BYTES // 4  # characters

# SUCCESS: stored as requested; the others: stored, but flushing or replication was not confirmed.
_STATUS = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
}


class Outgoing:
    """The content of one send request; :meth:`command` may be called again for another queue."""

    __slots__ = ("attempt", "batch", "body", "born_ms", "code", "flag", "message_id", "properties", "sys_flag", "topic")

    def __init__(
        self, topic: str, body: bytes, properties: str, message_id: str, flag: int, sys_flag: int, batch: bool
    ) -> None:
        self.topic = topic
        self.body = body
        self.properties = properties
        self.message_id = message_id
        self.flag = flag
        self.sys_flag = sys_flag
        self.batch = batch
        self.born_ms = 0  # Unix time; 0: that of the attempt
        self.attempt = 0  # attempts before this one; brokers and consumers see it as the property PYMQ_RESEND
        self.code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2

    @property
    def marked_properties(self) -> str:
        """The properties, with the number of this attempt unless it is the first one."""
        if self.attempt and len(self.properties) <= _MARKED_LENGTH_MAX:
            return f"{self.properties}{names.RESEND}\x01{self.attempt}\x02"
        return self.properties

    def command(self, group: str, queue: MessageQueue, born_ms: int) -> Command:
        """Return the request that sends to ``queue``; ``born_ms`` is Unix time."""
        fields = send_v2_fields(
            producer_group=group,
            topic=self.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=AUTO_CREATE_QUEUE_COUNT,
            queue_id=queue.queue_id,
            sys_flag=self.sys_flag,
            born_timestamp=born_ms,
            flag=self.flag,
            properties=self.marked_properties,
            batch=self.batch,
            broker_name=queue.broker_name,
        )
        return Command(self.code, ext=fields, body=self.body)

    def retry_command(
        self, group: str, queue: MessageQueue, born_ms: int, reconsume_times: int, max_reconsume_times: int
    ) -> Command:
        """Return the request that sends a message to a retry topic, with its number of retries and their limit."""
        header = SendMessageV2Header(
            producer_group=group,
            topic=self.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=AUTO_CREATE_QUEUE_COUNT,
            queue_id=queue.queue_id,
            sys_flag=self.sys_flag,
            born_timestamp=born_ms,
            flag=self.flag,
            properties=self.properties,
            reconsume_times=reconsume_times,
            max_reconsume_times=max_reconsume_times,
            broker_name=queue.broker_name,
        )
        return request(RequestCode.SEND_MESSAGE_V2, header, self.body)


def pack_body(body: bytes, compress: str, compress_above_bytes: int) -> tuple[bytes, int]:
    """Return the body as it is sent, with its system flags: a longer one is compressed where that makes it shorter."""
    if len(body) > compress_above_bytes:
        packed, flags = compress_body(body, compress)
        if len(packed) < len(body):
            return packed, flags
    return body, 0


def wait_property(wait_store: bool) -> str:
    """Return the property that asks the broker to wait until the message is as safe as its settings say."""
    return "WAIT\x01true\x02" if wait_store else "WAIT\x01false\x02"


def prepare_batch(messages: Sequence[Message], ids: UniqueIdMaker, size_max_bytes: int) -> Outgoing:
    """Prepare many messages as one body. Raises UsageError for messages that can't form one batch."""
    _check_batch(messages)
    keys: list[str] = []
    entries: list[bytes] = []
    for message in messages:
        encoded, unique_key = own_properties(message, ids.next_id())
        encoded += wait_property(message.wait_store).encode()
        keys.append(unique_key)
        entries.append(encode_batch_entry(message.body, encoded, message.flag))
    body = b"".join(entries)
    if len(body) > size_max_bytes:
        raise UsageError(f"the batch has {len(body)} bytes, the limit is {size_max_bytes}: send it in smaller parts")
    # No key for the batch itself: brokers would put it in the place of its messages' keys.
    return Outgoing(messages[0].topic, body, wait_property(messages[0].wait_store), ",".join(keys), 0, 0, True)


def _check_batch(messages: Sequence[Message]) -> None:
    """Raise UsageError for messages that can't form one batch (Java: MessageBatch.generateFromList)."""
    if not messages:
        raise UsageError("the batch is empty: give at least one message")
    if len(messages) > BATCH_COUNT_MAX:
        raise UsageError(
            f"the batch has {len(messages)} messages, the limit is {BATCH_COUNT_MAX}: send smaller batches"
        )
    first = messages[0]
    if first.topic.startswith(RETRY_PREFIX):
        raise UsageError("messages to a retry topic can't be sent as a batch: send them one by one")
    for message in messages:
        if message.topic != first.topic:
            raise UsageError(f"a batch has one topic, this one has {first.topic} and {message.topic}: send two batches")
        if message.is_delayed:
            raise UsageError("delayed messages can't be sent as a batch: send them one by one")
        if message.priority is not None:
            raise UsageError("messages with a priority can't be sent as a batch: send them one by one")
        if message.lite_topic:
            raise UsageError("messages of lite topics can't be sent as a batch: send them one by one")
        if message.wait_store != first.wait_store:
            raise UsageError("all messages of a batch must have the same wait_store")


def own_properties(message: Message, unique_key: str, ordering_key: str | None = None) -> tuple[bytes, str]:
    """Return (encoded properties without WAIT, unique key). A unique key among the message's properties counts.

    Raises UsageError for reserved names, separators or too many bytes.
    """
    has_more = message.properties or message.is_delayed or message.priority is not None or message.lite_topic
    if has_more or ordering_key is not None:
        return _all_properties(message, unique_key, ordering_key)
    tags, keys = message.tags, message.keys
    text = f"TAGS\x01{tags}\x02" if tags else ""
    if keys:
        text += f"KEYS\x01{keys}\x02"
    if len(text) > _PLAIN_LENGTH_MAX or text.count("\x01") + text.count("\x02") != 2 * bool(tags) + 2 * bool(keys):
        return _all_properties(message, unique_key, ordering_key)
    return f"{text}UNIQ_KEY\x01{unique_key}\x02".encode(), unique_key


def _all_properties(message: Message, unique_key: str, ordering_key: str | None) -> tuple[bytes, str]:
    for name in message.properties:
        if name in FORBIDDEN:
            raise UsageError(f"the property name {name} is RocketMQ's own: choose another, or use Message's fields")
    pairs = message.wire_properties(unique_key)
    del pairs[names.WAIT]
    if ordering_key is not None:
        if message.priority is not None:
            raise UsageError("a message with an ordering_key has no priority: leave one of them out")
        if message.lite_topic:
            raise UsageError("a lite topic chooses the queue, and keeps its messages in order: leave ordering_key out")
        pairs[names.SHARDING_KEY] = ordering_key
    encoded = encode_properties(pairs)
    if encoded.count(b"\x01") != encoded.count(b"\x02") or encoded.count(b"\x02") > len(pairs):
        raise UsageError("a property has one of the separators 0x01 and 0x02 in its name or value: remove it")
    if len(encoded) + len(wait_property(False)) > PROPERTIES_SIZE_MAX_BYTES:
        raise UsageError(
            f"the properties have {len(encoded) + len(wait_property(False))} bytes, the limit is "
            f"{PROPERTIES_SIZE_MAX_BYTES}: shorten them"
        )
    return encoded, pairs[names.UNIQ_KEY]


def is_batchable(message: Message) -> bool:
    """Return whether ``message`` means in a batch what it means alone."""
    return ALONE.isdisjoint(message.properties) and not (_needs_own_queue(message) or message.is_delayed)


def fits_batch(message: Message, properties: bytes) -> bool:
    """Return whether ``message`` may be one of a batch. ``properties`` are its own, encoded."""
    if message.properties and not ALONE.isdisjoint(message.properties):
        return False
    return not (_needs_own_queue(message) or message.is_delayed or len(properties) > BATCHED_SIZE_MAX_BYTES)


def _needs_own_queue(message: Message) -> bool:
    return message.priority is not None or bool(message.lite_topic) or message.topic.startswith(RETRY_PREFIX)


def send_result(answer: Command, message_id: str, queue: MessageQueue, address: str) -> SendResult:
    """Convert the broker's answer. Raises RefusedError, and ProtocolViolation when the answer lacks a field."""
    status = _STATUS.get(answer.code)
    if status is None:
        raise RefusedError(answer.code, answer.remark, address)
    ext = answer.ext
    number, offset = ext.get("queueId", ""), ext.get("queueOffset", "")
    if "msgId" in ext and "recallHandle" not in ext and _is_short_number(number) and _is_short_number(offset):
        # As below, which takes three times as long.
        if int(number) != queue.queue_id:
            queue = MessageQueue(queue.topic, queue.broker_name, int(number))
        return SendResult(status, message_id, ext["msgId"], queue, int(offset))
    stored = read_answer(SendMessageAnswer, answer, address)
    if stored.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, stored.queue_id)
    return SendResult(status, message_id, stored.message_id, queue, stored.queue_offset, stored.recall_handle or "")


def _is_short_number(text: str) -> bool:
    return len(text) < 10 and text.isascii() and text.isdigit()
