"""The values that applications send and receive: messages, queues, and the results of sends and pulls."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pymq.model import properties as names
from pymq.model.record import StoredMessage, decode_records


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Sorts as in RocketMQ's clients: by topic, broker name, queue id."""

    topic: str
    broker_name: str
    queue_id: int


@dataclass(slots=True)
class Message:
    """A message to send. ``keys`` are words separated by blanks; ``delay_level`` is 1 to 18, 0 for none."""

    topic: str
    body: bytes
    tags: str = ""
    keys: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    wait_store: bool = True

    def wire_properties(self, unique_key: str) -> dict[str, str]:
        """Return all properties in the wire's form, with the unique key and the reserved ones."""
        result = dict(self.properties)
        if self.tags:
            result[names.TAGS] = self.tags
        if self.keys:
            result[names.KEYS] = self.keys
        if self.delay_level:
            result[names.DELAY] = str(self.delay_level)
        result.setdefault(names.UNIQ_KEY, unique_key)
        result[names.WAIT] = "true" if self.wait_store else "false"
        return result


class SendStatus(Enum):
    """How safely a message was stored when the answer was sent."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"


@dataclass(slots=True, frozen=True)
class SendResult:
    """``message_id`` is the unique key (comma-joined for a batch), ``offset_message_id`` is the broker's id."""

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int


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
        """Return the decoded records, each with the broker's name set. Raises MalformedRecordError."""
        result = decode_records(self.raw)
        for message in result:
            message.broker_name = self.broker_name
        return result
