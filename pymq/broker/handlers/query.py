"""Look-ups of single messages: by key (12) and by the id that holds their place in the log (33)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pymq.broker.runtime import Runtime
from pymq.errors import CorruptRecordError, NotFoundError, Refusal
from pymq.model.names import HIDDEN_TOPICS, hidden_text
from pymq.model.record import decode_record
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.pull import QueryMessageAnswer, QueryMessageHeader, ViewMessageHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.work.sliced_work import Steps
    from pymq.store.store import MessageStore

# Every record that was found fits, and the answer stays well below the frame's limit.
ANSWER_SIZE_BYTES_MAX = 12 * 1024 * 1024
KEY_LENGTH_MAX = 32_767


class QueryHandlers:
    """Finds messages without reading queues."""

    def __init__(self, runtime: Runtime, *, store: MessageStore, topics: TopicManager) -> None:
        self._sliced_work = runtime.sliced_work
        self._config = runtime.config
        self._store = store
        self._topics = topics

    def by_key(self, request: Command, header: QueryMessageHeader, peer: Peer) -> Reply | None:
        """Return messages of a topic that have a key, or a unique key, and were stored in a span of time."""
        if not header.key or len(header.key) > KEY_LENGTH_MAX:
            text = f"the key has {len(header.key)} characters: use 1 to {KEY_LENGTH_MAX}"
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        return self._sliced_work.answer(request, peer, self._by_key(header))

    def _by_key(self, header: QueryMessageHeader) -> Steps[Reply]:
        config = self._config
        wanted = config.default_query_max_num if header.unique_key else min(header.max_num, config.max_msgs_num_batch)
        found: list[memoryview] = []
        if wanted > 0:
            begin_ms, end_ms = header.begin_timestamp, header.end_timestamp
            found = yield from self._store.find_by_key_in_steps(header.topic, header.key, wanted, begin_ms, end_ms)
        if not found:
            text = f"can not find message: none in topic {header.topic} has the key {header.key[:100]!r} in that time"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, text)
        records = [bytes(record) for record in _fitting(found)]
        newest = max(decode_record(record).store_timestamp_ms for record in records)
        answer = QueryMessageAnswer(
            index_last_update_timestamp=newest, index_last_update_offset=self._store.physical_max_offset
        )
        return Reply(ext=answer, body=b"".join(records))

    def by_id(self, request: Command, header: ViewMessageHeader, peer: Peer) -> Reply:
        """Return the message that starts at a log offset."""
        try:
            record = bytes(self._store.record_at(header.offset))
        except (NotFoundError, CorruptRecordError) as error:
            text = f"can not find message by the offset, {header.offset}: {error}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text) from error
        name = decode_record(record).topic
        request.check_found_topic(name)
        if name in HIDDEN_TOPICS and header.topic != name:
            raise Refusal(ResponseCode.SYSTEM_ERROR, hidden_text(name))
        topic = self._topics.get(name)
        if topic is not None and not topic.readable:
            raise Refusal(ResponseCode.NO_PERMISSION, f"topic {name} has permission {topic.perm} without read (4)")
        return Reply(body=record)


def _fitting(records: Iterable[memoryview]) -> Iterable[memoryview]:
    """Return the first record and those behind it that fit into one answer."""
    size_bytes = 0
    for record in records:
        if size_bytes and size_bytes + len(record) > ANSWER_SIZE_BYTES_MAX:
            return
        size_bytes += len(record)
        yield record
