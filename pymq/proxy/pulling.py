"""What pull consumers ask for: PullMessage, and offsets of queues and groups. RocketMQ's definition has these calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.model.message import MessageQueue, PullResult, PullStatus
from pymq.proxy.backend import Backend, Pull
from pymq.proxy.bodies import given_body
from pymq.proxy.calls import Call, status_of, status_ok
from pymq.proxy.checks import BATCH_SIZE_MAX, POLLING_MS_MAX, check_client_id, check_group, check_topic
from pymq.proxy.conversion import message_of
from pymq.proxy.drafts import duration_ms
from pymq.proxy.protocol.messages import (
    GetOffsetResponse,
    PullMessageResponse,
    QueryOffsetResponse,
    Status,
    UpdateOffsetResponse,
)
from pymq.proxy.protocol.names import Code, OffsetPolicy
from pymq.proxy.receiving import KEPT_FACTOR, no_message, subscription_of
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.sessions import Sessions
from pymq.proxy.waits import Waits

ANSWER_MS = 500  # of a call's time are left for its answer


class Pulling:
    """Pulls for consumers that keep their offsets themselves, or here."""

    def __init__(self, backend: Backend, sessions: Sessions, waits: Waits, clock: Clock) -> None:
        self._backend = backend
        self._sessions = sessions
        self._waits = waits
        self._clock = clock

    async def pull_message(self, call: Call, request: Any) -> AsyncIterator[Any]:
        """Yield the status, the messages, and the offset to go on at."""
        try:
            check_client_id(call.client_id)
            self._sessions.touch(call.client_id, call.user, self._clock.monotonic_ms())
            queue, group = _queue(request), check_group(request.group.name)
            order = Pull(
                queue,
                group,
                _check_offset(request.offset),
                min(max(request.batch_size, 1), BATCH_SIZE_MAX),
                _wait_ms(request, call.left_ms),
                subscription_of(queue.topic, request.filter_expression),
            )
            found = await self._pull(call.client_id, order)
        except PymqError as error:
            yield PullMessageResponse(status=status_of(error))
            return
        next_offset = order.offset if found is None else found.next_offset
        if found is not None and found.status == PullStatus.OFFSET_ILLEGAL:
            text = f"offset {order.offset} is not stored: the queue has {found.min_offset} to {found.max_offset}"
            yield PullMessageResponse(status=Status(code=Code.ILLEGAL_OFFSET, message=text))
        else:
            messages = found.messages() if found is not None else []
            found = None  # its bytes are as large as the messages
            call.keep(KEPT_FACTOR * sum([each.size_bytes for each in messages]))
            yield PullMessageResponse(status=status_ok() if messages else no_message())
            for each in messages:
                body = await given_body(each.body, each.sys_flag, call.language)
                yield PullMessageResponse(message=message_of(each, queue.topic, body=body))
        yield PullMessageResponse(next_offset=next_offset)

    async def _pull(self, client_id: str, order: Pull) -> PullResult | None:
        """Return what is found within the time; None when the proxy stops meanwhile."""
        await self._backend.route(order.queue.topic)
        pulling = asyncio.ensure_future(self._backend.pull(order))
        try:
            async with self._waits.one(client_id, pulling):
                return await pulling
        except asyncio.CancelledError:
            if self._waits.is_ending:
                return None
            raise
        finally:
            pulling.cancel()

    async def update_offset(self, call: Call, request: Any) -> Any:
        """Commit a group's offset."""
        queue, group = _queue(request), check_group(request.group.name)
        await self._backend.route(queue.topic)
        await self._backend.commit(group, queue, _check_offset(request.offset))
        return UpdateOffsetResponse(status=status_ok())

    async def get_offset(self, call: Call, request: Any) -> Any:
        """Return a group's committed offset."""
        queue, group = _queue(request), check_group(request.group.name)
        await self._backend.route(queue.topic)
        offset = await self._backend.committed(group, queue)
        if offset is None:
            text = f"group {group} has committed no offset in queue {queue.queue_id} of {queue.topic}"
            raise ProxyRefusal(Code.OFFSET_NOT_FOUND, text)
        return GetOffsetResponse(status=status_ok(), offset=offset)

    async def query_offset(self, call: Call, request: Any) -> Any:
        """Return the first offset of a queue, the one behind its last message, or the first since a time."""
        queue, policy = _queue(request), request.query_offset_policy
        since_ms = None
        if policy == OffsetPolicy.TIMESTAMP:
            if not request.HasField("timestamp"):
                raise ProxyRefusal(Code.BAD_REQUEST, "the policy TIMESTAMP needs a timestamp")
            since_ms = duration_ms(request.timestamp)
        elif policy not in (OffsetPolicy.BEGINNING, OffsetPolicy.END):
            raise ProxyRefusal(Code.BAD_REQUEST, f"the policy {policy} is unknown: use BEGINNING, END or TIMESTAMP")
        await self._backend.route(queue.topic)
        offset = await self._backend.offset_of(queue, since_ms, at_end=policy == OffsetPolicy.END)
        return QueryOffsetResponse(status=status_ok(), offset=offset)


def _queue(request: Any) -> MessageQueue:
    """Return the queue that a request names. Raises ProxyRefusal."""
    named = request.message_queue
    topic = check_topic(named.topic.name)
    if not named.broker.name or named.id < 0:
        text = f"the message queue has the broker {named.broker.name!r:.80} and the id {named.id}: name both"
        raise ProxyRefusal(Code.BAD_REQUEST, text)
    return MessageQueue(topic, named.broker.name, named.id)


def _check_offset(offset: int) -> int:
    if offset < 0:
        raise ProxyRefusal(Code.ILLEGAL_OFFSET, f"the offset is {offset}: use 0 and more")
    return offset


def _wait_ms(request: Any, left_ms: float | None) -> int:
    """Return how long a pull waits for its first message: as asked, within the limit and the call's deadline."""
    asked_ms = min(max(duration_ms(request.long_polling_timeout), 0), POLLING_MS_MAX)
    return asked_ms if left_ms is None else max(0, min(asked_ms, int(left_ms) - ANSWER_MS))
