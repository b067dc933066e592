"""Requests about one queue's offsets: smallest, largest, by time, and committed by groups."""

from __future__ import annotations

from pymq.client.answers import read_answer
from pymq.client.instance import ClientInstance
from pymq.errors import RefusedError
from pymq.model.message import MessageQueue
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request
from pymq.wire.header import Header
from pymq.wire.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffsetHeader,
    QueueOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)

TIMEOUT_S = 5.0


class QueueOffsets:
    """Offset requests of one client. All raise RefusedError, UnreachableError, and NotFoundError (no route)."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that is still stored."""
        header = QueueOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return max(0, await self._ask(RequestCode.GET_MIN_OFFSET, header, queue))  # -1: an empty batch queue

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        header = QueueOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return await self._ask(RequestCode.GET_MAX_OFFSET, header, queue)

    async def by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the first offset stored at ``timestamp_ms`` (Unix ms) or later."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        return await self._ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, queue)

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset that ``group`` committed in ``queue``, None when there is none."""
        header = QueryConsumerOffsetHeader(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return await self._ask(RequestCode.QUERY_CONSUMER_OFFSET, header, queue)
        except RefusedError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit ``offset`` for ``group``; return once the broker has answered."""
        header = UpdateConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        address = await self._instance.routes.read_address(queue)
        command = request(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        await self._instance.remoting.invoke_ok(address, command, TIMEOUT_S)

    async def _ask(self, code: int, header: Header, queue: MessageQueue) -> int:
        address = await self._instance.routes.read_address(queue)
        answer = await self._instance.remoting.invoke_ok(address, request(code, header), TIMEOUT_S)
        return read_answer(OffsetAnswer, answer, address).offset
