"""Admin calls that find single messages by offset message id, by unique key, or by key."""

from __future__ import annotations

from collections.abc import Callable

from pymq.client.admin.connection import AdminConnection
from pymq.client.admin.topics import TopicAdmin
from pymq.errors import NotFoundError, UsageError
from pymq.model.hosts import format_address
from pymq.model.ids import decode_offset_id
from pymq.model.inner_batch import unwrapped
from pymq.model.record import StoredMessage, decode_record, decode_records, log_malformed
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.headers.pull import QueryMessageHeader, ViewMessageHeader

UNIQUE_QUERY_COUNT_MAX = 32
TIME_MAX_MS = 2**63 - 1
# Java answers SYSTEM_ERROR when no message starts at the offset.
_NO_MESSAGE = frozenset({ResponseCode.SYSTEM_ERROR, ResponseCode.QUERY_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST})
_NONE_FOUND = frozenset({ResponseCode.QUERY_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST})


class MessageAdmin:
    """Look-ups of single messages."""

    def __init__(self, connection: AdminConnection, topics: TopicAdmin) -> None:
        self._connection = connection
        self._topics = topics

    async def by_offset_id(self, offset_message_id: str) -> StoredMessage:
        """Return the message with this id, which holds the broker's address and the log offset.

        Raises UsageError for text that is not such an id, NotFoundError when no message starts there.
        """
        try:
            host, port, physical_offset = decode_offset_id(offset_message_id)
        except ValueError as error:
            raise UsageError(f"{offset_message_id!r} is not an offset message id: {error}") from error
        address = format_address(host, port)
        header = ViewMessageHeader(offset=physical_offset)
        answer = await self._connection.ask_or_none(address, RequestCode.VIEW_MESSAGE_BY_ID, header, _NO_MESSAGE)
        if answer is None:
            raise NotFoundError(f"no message {offset_message_id} on {address}: deleted with its file, or never stored")
        return decode_record(answer.body)

    async def by_unique_key(self, topic: str, unique_key: str) -> list[StoredMessage]:
        """Return the messages sent with this id (several after a resend). Raises NotFoundError (no topic)."""
        found = await self._query(topic, unique_key, UNIQUE_QUERY_COUNT_MAX, 0, TIME_MAX_MS, unique=True)
        return _matching(found, lambda message: message.message_id == unique_key)

    async def by_key(
        self, topic: str, key: str, *, count_max: int = 64, begin_ms: int = 0, end_ms: int = TIME_MAX_MS
    ) -> list[StoredMessage]:
        """Return messages with ``key`` as one of their keys or as unique key, oldest first.

        Raises NotFoundError for an unknown topic.
        """
        found = await self._query(topic, key, count_max, begin_ms, end_ms, unique=False)
        # The index stores hashes of topic and key, so the answer may contain other keys.
        return _matching(found, lambda message: key in message.keys.split() or message.message_id == key)[:count_max]

    async def _query(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int, *, unique: bool
    ) -> list[StoredMessage]:
        header = QueryMessageHeader(
            topic=topic, key=key, max_num=count_max, begin_timestamp=begin_ms, end_timestamp=end_ms, unique_key=unique
        )
        found: list[StoredMessage] = []
        for target in await self._topics.targets(topic):
            answer = await self._connection.ask_or_none(target.address, RequestCode.QUERY_MESSAGE, header, _NONE_FOUND)
            if answer is None:
                continue
            for message in decode_records(answer.body, log_malformed):
                message.broker_name = target.name
                if message.topic == topic:
                    found.append(message)
        return sorted(found, key=lambda message: (message.store_timestamp_ms, message.physical_offset))


def _matching(found: list[StoredMessage], matches: Callable[[StoredMessage], bool]) -> list[StoredMessage]:
    """Return the messages that match. Of an inner batch those inside it, or its record when none of them does."""
    result: list[StoredMessage] = []
    for message in found:
        inner = [each for each in unwrapped((message,)) if matches(each)]
        result += inner or filter(matches, (message,))
    return result
