"""Preparer: checks messages and encodes what of them is the same for every request that may carry them."""

from __future__ import annotations

from pymq.client.instance import ClientInstance
from pymq.client.outgoing import Outgoing, fits_batch, own_properties, pack_body, wait_property
from pymq.errors import UsageError
from pymq.model.message import Message
from pymq.model.names import check_topic
from pymq.model.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR

# (body, properties without WAIT, message id, system flags, whether it must not be in a batch). Without a message id the
# properties end before the value of UNIQ_KEY, which :func:`with_id` adds.
Prepared = tuple[bytes, bytes, str, int, bool]

ID_SIZE_BYTES = 33  # a unique key with its separator

_KEPT_MAX = 256  # topics, and tags
_TAGS_LENGTH_MAX = 128


def with_id(properties: bytes, message_id: str) -> bytes:
    """Return prepared properties with the value of their UNIQ_KEY."""
    return b"%b%b\x02" % (properties, message_id.encode())


class Preparer:
    """Prepares the messages of one producer."""

    def __init__(
        self,
        instance: ClientInstance,
        compress: str,
        compress_above_bytes: int,
        body_size_max_bytes: int,
        level_max: int,
    ) -> None:
        """``level_max``: the largest delay level."""
        self._instance = instance
        self._compress = compress
        self._compress_above_bytes = compress_above_bytes
        self._body_size_max_bytes = body_size_max_bytes
        self._plain_size_max_bytes = min(compress_above_bytes, body_size_max_bytes)
        self._level_max = level_max
        self._topics: set[str] = set()  # of plain messages before
        self._starts: dict[str, bytes] = {}  # properties up to the unique key, by tags

    def prepare(self, message: Message, ordering_key: str | None = None) -> Prepared:
        """Return the parts of a request for ``message``. Raises UsageError for one that can't be sent.

        Most messages get no id here: a batch makes the ids of all its messages at once.
        """
        if not isinstance(message, Message):
            raise UsageError(f"{message!r:.60} is no message: write Message(topic, body)")
        body = message.body
        if (
            ordering_key is not None
            or message.properties
            or message.keys
            or message.topic not in self._topics
            or type(body) is not bytes
            or not 0 < len(body) <= self._plain_size_max_bytes
            or message.delay_level
            or message.deliver_at_ms
            or message.delay_ms
            or message.priority is not None
            or message.lite_topic
            or type(message.tags) is not str
        ):
            return self._prepare(message, ordering_key)
        start = self._starts.get(message.tags)
        if start is None:
            start = self._start(message.tags)
            if start is None:
                return self._prepare(message, ordering_key)
        return body, start, "", 0, False

    def outgoing(self, message: Message) -> Outgoing:
        """Return a request with ``message`` alone. Raises UsageError for one that can't be sent."""
        return self.request(message, self.prepare(message))

    def request(self, message: Message, prepared: Prepared) -> Outgoing:
        """Return a request with ``message``, which is prepared."""
        body, properties, message_id, sys_flag, _ = prepared
        if not message_id:
            message_id = self._instance.ids.next_id()
            properties = with_id(properties, message_id)
        text = properties.decode() + wait_property(message.wait_store)
        return Outgoing(message.topic, body, text, message_id, message.flag, sys_flag, False)

    def _prepare(self, message: Message, ordering_key: str | None) -> Prepared:
        self.check(message)
        if ordering_key is not None and (not isinstance(ordering_key, str) or not ordering_key):
            raise UsageError(f"ordering_key is {ordering_key!r:.60}: give text with at least one character, or None")
        body, sys_flag = pack_body(message.body, self._compress, self._compress_above_bytes)
        properties, message_id = own_properties(message, self._instance.ids.next_id(), ordering_key)
        is_alone = bool(sys_flag) or not fits_batch(message, properties)
        if not is_alone:
            if len(self._topics) >= _KEPT_MAX:
                self._topics.clear()
            self._topics.add(message.topic)
        return body, properties, message_id, sys_flag, is_alone

    def _start(self, tags: str) -> bytes | None:
        """Return the properties of a message with these tags, up to its unique key; None for odd tags."""
        if len(tags) > _TAGS_LENGTH_MAX or NAME_VALUE_SEPARATOR in tags or PROPERTY_SEPARATOR in tags:
            return None
        if len(self._starts) >= _KEPT_MAX:
            self._starts.clear()
        start = (f"TAGS\x01{tags}\x02UNIQ_KEY\x01" if tags else "UNIQ_KEY\x01").encode()
        self._starts[tags] = start
        return start

    def check(self, message: Message) -> None:
        """Raise UsageError for a message that no broker accepts, or that would become another one."""
        if not isinstance(message.topic, str):
            raise UsageError(f"the message's topic is {message.topic!r:.60}: it is text")
        check_topic(message.topic)
        message.check(self._level_max)
        size = len(message.body)
        if size == 0:
            raise UsageError("the message's body is empty: brokers refuse that, send at least one byte")
        if size > self._body_size_max_bytes:
            raise UsageError(
                f"the message's body has {size} bytes, the limit is {self._body_size_max_bytes}: split it, or raise "
                "body_size_max_bytes here and maxMessageSize at the broker"
            )
