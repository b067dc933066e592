"""The values that applications send and receive: messages, queues, and the results of sends and pulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar, overload

import msgspec

from pymq.errors import UsageError
from pymq.model import properties as names
from pymq.model.lite_topics import lite_name_problem
from pymq.model.record import StoredMessage, decode_records, log_malformed

DELAY_LEVEL_MAX = 18  # Java: the number of levels in messageDelayLevel's default
PRIORITY_MAX = 2**31 - 1
SHOWN_LENGTH_MAX = 60
KEY_SEPARATOR = " "  # Java: MessageConst.KEY_SEPARATOR


T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")


class Encoder(Protocol[T_contra]):
    """The half of a codec (:mod:`pymq.client.codecs`) that writes bodies."""

    def encode(self, value: T_contra) -> bytes:
        """Return the body for ``value``."""
        ...


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Sorts as in RocketMQ's clients: by topic, broker name, queue id."""

    topic: str
    broker_name: str
    queue_id: int


@dataclass(slots=True, init=False)
class Message:
    """A message to send.

    ``body``: bytes, or text, which is sent as UTF-8; with ``codec`` any value that it encodes. ``tags``: one tag.
    ``keys``: one text with keys separated by blanks, or a sequence of keys. ``delay_level`` is 1 to 18, 0 for none. A
    timer message has ``deliver_at_ms`` (Unix time) or ``delay_ms`` instead. ``priority``: 0 or more; PyMQ and
    RocketMQ 5.5 deliver higher ones first to consumers that pop a topic of type PRIORITY. ``lite_topic``: of a message
    to a topic of type LITE; the messages of one lite topic stay in order. Raises UsageError for other types, and what
    the codec raises.
    """

    topic: str
    body: bytes
    tags: str
    keys: str
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    wait_store: bool = True
    deliver_at_ms: int = 0
    delay_ms: int = 0
    priority: int | None = None
    lite_topic: str = ""

    @overload
    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview | str,
        tags: str = "",
        keys: str | Sequence[str] = "",
        properties: dict[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        wait_store: bool = True,
        deliver_at_ms: int = 0,
        delay_ms: int = 0,
        priority: int | None = None,
        lite_topic: str = "",
    ) -> None: ...

    @overload
    def __init__(
        self,
        topic: str,
        body: T,
        tags: str = "",
        keys: str | Sequence[str] = "",
        properties: dict[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        wait_store: bool = True,
        deliver_at_ms: int = 0,
        delay_ms: int = 0,
        priority: int | None = None,
        lite_topic: str = "",
        *,
        codec: Encoder[T],
    ) -> None: ...

    def __init__(
        self,
        topic: str,
        body: Any,
        tags: str = "",
        keys: str | Sequence[str] = "",
        properties: dict[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        wait_store: bool = True,
        deliver_at_ms: int = 0,
        delay_ms: int = 0,
        priority: int | None = None,
        lite_topic: str = "",
        *,
        codec: Encoder[Any] | None = None,
    ) -> None:
        if codec is not None:
            body = codec.encode(body)
        self.topic = topic
        self.body = body if type(body) is bytes else _body_bytes(body)
        self.tags = tags
        self.keys = keys if type(keys) is str else _joined_keys(keys)
        self.properties = {} if properties is None else properties
        self.flag = flag
        self.delay_level = delay_level
        self.wait_store = wait_store
        self.deliver_at_ms = deliver_at_ms
        self.delay_ms = delay_ms
        self.priority = priority
        self.lite_topic = lite_topic

    def check(self, delay_level_max: int = DELAY_LEVEL_MAX) -> None:
        """Raise UsageError for a value that RocketMQ would store as something else, or act on differently."""
        # An attribute may have been set after __init__ converted it.
        if type(self.body) is not bytes:
            self.body = _body_bytes(self.body)
        if type(self.keys) is not str:
            self.keys = _joined_keys(self.keys)
        if type(self.tags) is not str and not isinstance(self.tags, str):
            raise UsageError(f"the message's tags are {_shown(self.tags)}: a message has one tag, give it as text")
        if self.delay_level:
            check_delay_level(self.delay_level, delay_level_max)
        if self.deliver_at_ms or self.delay_ms:
            self._check_timer()
        if self.priority is not None:
            self._check_priority()
        if self.lite_topic:
            self._check_lite_topic()
        for name, value in self.properties.items():
            if type(name) is not str or type(value) is not str:
                raise UsageError(
                    f"the property {name!r} has the value {_shown(value)}: names and values are text, write str(...)"
                )

    @property
    def is_delayed(self) -> bool:
        """True for a message with a delay of any kind."""
        return bool(self.delay_level or self.deliver_at_ms or self.delay_ms)

    def _check_timer(self) -> None:
        for name, value in (("deliver_at_ms", self.deliver_at_ms), ("delay_ms", self.delay_ms)):
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
                raise UsageError(f"{name} is {_shown(value)}: give milliseconds as a whole number, 0 for none")
        if bool(self.deliver_at_ms) + bool(self.delay_ms) + bool(self.delay_level) > 1:
            raise UsageError("a message has one delay: give deliver_at_ms, delay_ms or delay_level")

    def _check_priority(self) -> None:
        value = self.priority
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= PRIORITY_MAX:
            raise UsageError(
                f"priority is {_shown(value)}: give a whole number from 0 to {PRIORITY_MAX}, None for none"
            )
        if self.is_delayed:
            raise UsageError("a delayed message has no priority: leave out the priority or the delay")

    def _check_lite_topic(self) -> None:
        if not isinstance(self.lite_topic, str):
            raise UsageError(f"lite_topic is {_shown(self.lite_topic)}: give text, or an empty text for none")
        problem = lite_name_problem(self.lite_topic)
        if problem is not None:
            raise UsageError(problem)
        if self.is_delayed or self.priority is not None:
            raise UsageError("a message of a lite topic has no delay and no priority: leave out one of them")

    def wire_properties(self, unique_key: str) -> dict[str, str]:
        """Return all properties in the wire's form, with the unique key and the reserved ones."""
        result = dict(self.properties)
        if self.tags:
            result[names.TAGS] = self.tags
        if self.keys:
            result[names.KEYS] = self.keys
        if self.delay_level:
            result[names.DELAY] = str(self.delay_level)
        if self.deliver_at_ms:
            result[names.TIMER_DELIVER_MS] = str(self.deliver_at_ms)
        if self.delay_ms:
            result[names.TIMER_DELAY_MS] = str(self.delay_ms)
        if self.priority is not None:
            result[names.PRIORITY] = str(self.priority)
        if self.lite_topic:
            result[names.LITE_TOPIC] = self.lite_topic
        result.setdefault(names.UNIQ_KEY, unique_key)
        result[names.WAIT] = "true" if self.wait_store else "false"
        return result


class SendStatus(Enum):
    """How safely a message was stored when the answer was sent."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """``message_id`` is the unique key (comma-joined for a batch), ``offset_message_id`` is the broker's id.

    ``recall_handle`` is what :meth:`pymq.client.producer.Producer.recall` takes for a timer message, else empty.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    recall_handle: str = ""


class PullStatus(Enum):
    """The result of a pull (names as in RocketMQ's client)."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MSG"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


@dataclass(slots=True)
class PullResult:
    """``raw`` holds the records back to back; :meth:`messages` decodes them."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    raw: bytes = b""
    suggested_broker_id: int = 0
    broker_name: str = ""

    def messages(self) -> list[StoredMessage]:
        """Return the decoded records, each with the broker's name set.

        A record that can't be decoded is logged and left out. Raises MalformedRecordError when nothing says where the
        next one begins.
        """
        result = decode_records(self.raw, log_malformed)
        for message in result:
            message.broker_name = self.broker_name
        return result


def check_delay_level(level: int, level_max: int) -> None:
    """Raise UsageError unless ``level`` is 0 (no delay) to ``level_max``: a broker silently lowers a larger one."""
    if not isinstance(level, int) or isinstance(level, bool):
        raise UsageError(f"delay_level is {_shown(level)}: it is a number from 1 to {level_max}, 0 for no delay")
    if level < 0:
        raise UsageError(f"delay_level is {level}: it is a number from 1 to {level_max}, 0 for no delay")
    if level > level_max:
        raise UsageError(
            f"delay_level is {level}, the largest is {level_max}: a broker takes a larger one for its own largest, "
            "which is 2 hours by default; if its messageDelayLevel has more levels, raise delay_level_max "
            "(--delay-level-max)"
        )


def _body_bytes(body: object) -> bytes:
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"the message's body can't be sent as UTF-8: {error}; encode it yourself") from error
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise UsageError(
        f"the message's body is {_shown(body)}: give bytes or text, other objects encoded, for example json.dumps(body)"
    )


def _joined_keys(keys: object) -> str:
    """Return the keys in RocketMQ's form, separated by blanks."""
    if isinstance(keys, str):
        return keys
    if isinstance(keys, bytes | bytearray | memoryview) or not isinstance(keys, Sequence):
        raise UsageError(
            f'the message\'s keys are {_shown(keys)}: give one text, or a list of texts such as ["a", "b"]'
        )
    for key in keys:
        if not isinstance(key, str):
            raise UsageError(f"one of the message's keys is {_shown(key)}: keys are text, write str(...)")
        if not key or KEY_SEPARATOR in key:
            raise UsageError(f"{key!r} is no key: a key has at least one character and no blank, which separates keys")
    return KEY_SEPARATOR.join(keys)


def _shown(value: object) -> str:
    """Return a value with its type, for errors."""
    text = repr(value)
    return f"{text if len(text) <= SHOWN_LENGTH_MAX else text[:SHOWN_LENGTH_MAX] + '…'} ({type(value).__name__})"
