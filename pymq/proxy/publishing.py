"""What producers ask for: SendMessage and RecallMessage."""

from __future__ import annotations

import asyncio
from typing import Any

from pymq.client.outgoing import Outgoing
from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.model import sysflag
from pymq.model.hosts import host_of
from pymq.model.message import MessageQueue, SendResult, SendStatus
from pymq.model.message_types import DELAY
from pymq.model.properties import encode_properties, properties_text
from pymq.model.record import encode_batch_entry
from pymq.proxy.backend import Backend, TransactionPlace
from pymq.proxy.bodies import (
    DEFLATE_RATIO_MAX,
    INFLATED_BYTES_MAX,
    REQUEST_INFLATED_BYTES_MAX,
    Body,
    of_one_mark,
    stored_body,
)
from pymq.proxy.calls import Call, common_status, status_of, status_ok
from pymq.proxy.checks import BODY_BYTES_MAX, MIXED, check_messages, check_topic, check_type
from pymq.proxy.conversion import properties_of
from pymq.proxy.drafts import Draft
from pymq.proxy.protocol.messages import RecallMessageResponse, SendMessageResponse, SendResultEntry, Status
from pymq.proxy.protocol.names import Code, Encoding, MessageType
from pymq.proxy.queue_choice import queue_of_group
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.rpc.request_room import RequestRoom
from pymq.proxy.transactions import OpenTransactions

_STATUS = {
    SendStatus.SEND_OK: Code.OK,
    SendStatus.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    SendStatus.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    SendStatus.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}
_OK = status_ok()
_ONE_SENT = SendMessageResponse(status=_OK, entries=[SendResultEntry(status=_OK)]).SerializeToString()


class Publishing:
    """Sends and recalls messages."""

    def __init__(self, backend: Backend, transactions: OpenTransactions, clock: Clock) -> None:
        self._backend = backend
        self._transactions = transactions
        self._clock = clock
        self._room = RequestRoom(REQUEST_INFLATED_BYTES_MAX)  # for bodies that are inflated at the same time

    async def send_message(self, call: Call, request: Any) -> Any:
        """Store one message, or several: as a batch in one queue, where they can be one, else one after the other."""
        drafts = check_messages(request.messages, self._clock.now_ms())
        topic = drafts[0].topic
        queues = await self._backend.queues_to_write(topic)
        wanted = await self._backend.topic_type(topic)
        packed = []
        for draft in drafts:
            check_type(draft.kind, topic, wanted)
            if draft.encoding == Encoding.GZIP:
                packed.append(draft)
        if not packed:
            return await self._send_all(drafts, queues)
        grown_bytes = await self._inflate(host_of(call.peer), packed)
        try:
            return await self._send_all(drafts, queues)
        finally:
            self._room.leave(grown_bytes)

    async def _inflate(self, host: str, packed: list[Draft]) -> int:
        """Make of compressed bodies what is stored. Return how many bytes of room those take that are stored inflated.

        Raises ProxyRefusal.
        """
        wanted_bytes = sum([min(DEFLATE_RATIO_MAX * len(draft.body), INFLATED_BYTES_MAX) for draft in packed])
        taken_bytes = await self._room.enter(host, min(wanted_bytes, REQUEST_INFLATED_BYTES_MAX))
        left_bytes, grown_bytes = REQUEST_INFLATED_BYTES_MAX, 0
        try:
            for draft in packed:
                (draft.body, draft.body_flags), inflated_bytes = await stored_body(draft.body, left_bytes)
                left_bytes -= inflated_bytes
                grown_bytes += 0 if draft.body_flags else inflated_bytes
                await asyncio.sleep(0)  # others have their turn
        except BaseException:
            self._room.leave(taken_bytes)
            raise
        grown_bytes = min(grown_bytes, taken_bytes)
        self._room.leave(taken_bytes - grown_bytes)
        return grown_bytes

    async def _send_all(self, drafts: list[Draft], queues: list[MessageQueue]) -> Any:
        if len(drafts) == 1:
            return answer_to_one(await self._send(drafts[0], queues))
        if _is_batch(drafts):
            result = await self._backend.send(await self._batch(drafts), _queue_of(queues, drafts[0]))
            return answer_to_all([_entry(result)])
        entries: list[Any] = []
        for draft in drafts:
            try:
                entries.append(_entry(await self._send(draft, queues)))
            except PymqError as error:
                if not entries:
                    raise
                # Nothing behind it is sent: messages of one group must not overtake each other.
                failed = SendResultEntry(status=status_of(error))
                entries += [failed] * (len(drafts) - len(entries))
                break
        return answer_to_all(entries)

    async def recall_message(self, call: Call, request: Any) -> Any:
        """Take back a message that waits for its time."""
        topic = check_topic(request.topic.name)
        if await self._backend.topic_type(topic) not in (DELAY, MIXED):
            text = f"topic {topic} does not take {DELAY} messages, so it has none to recall"
            raise ProxyRefusal(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)
        message_id = await self._backend.recall(topic, request.recall_handle)
        return RecallMessageResponse(status=status_ok(), message_id=message_id)

    async def _send(self, draft: Draft, queues: list[MessageQueue]) -> SendResult:
        text, is_half = properties_text(properties_of(draft)), draft.kind == MessageType.TRANSACTION
        flags = draft.body_flags | (sysflag.TRANSACTION_PREPARED if is_half else 0)
        outgoing = Outgoing(draft.topic, draft.body, text, draft.message_id, 0, flags, False)
        outgoing.born_ms = self._clock.now_ms() if draft.born_ms is None else draft.born_ms
        result = await self._backend.send(outgoing, _queue_of(queues, draft))
        if is_half:
            self._begin(draft.topic, result)
        return result

    async def _batch(self, drafts: list[Draft]) -> Outgoing:
        """Return a batch. Raises ProxyRefusal for one that no broker takes."""
        contents, flags = await of_one_mark([Body(each.body, each.body_flags) for each in drafts])
        entries = [
            encode_batch_entry(content, encode_properties(properties_of(each)))
            for content, each in zip(contents, drafts, strict=True)
        ]
        size_bytes = sum(map(len, entries))
        if size_bytes > BODY_BYTES_MAX:
            text = f"the messages of the request have {size_bytes} bytes together, the limit is {BODY_BYTES_MAX}"
            raise ProxyRefusal(Code.MESSAGE_BODY_TOO_LARGE, text)
        first = drafts[0]
        ids = ",".join([each.message_id for each in drafts])
        outgoing = Outgoing(first.topic, b"".join(entries), "", ids, 0, flags, True)
        outgoing.born_ms = self._clock.now_ms() if first.born_ms is None else first.born_ms
        return outgoing

    def _begin(self, topic: str, result: SendResult) -> None:
        log_offset = int(result.offset_message_id[-16:], 16)
        place = TransactionPlace(topic, result.queue.broker_name, result.queue_offset, log_offset)
        self._transactions.begin(result.message_id, place, self._clock.monotonic_ms())


def _is_batch(drafts: list[Draft]) -> bool:
    """Whether messages can be stored together: brokers know no batch of delayed or half messages, nor two queues."""
    first = drafts[0]
    are_alike = all(each.kind == first.kind and each.group == first.group for each in drafts)
    return are_alike and first.kind in (MessageType.NORMAL, MessageType.FIFO)


def _queue_of(queues: list[MessageQueue], draft: Draft) -> MessageQueue | None:
    """Return the queue of a message's group or lite topic; None when any one will do."""
    if draft.kind == MessageType.LITE and draft.lite_topic:
        return queue_of_group(queues, draft.lite_topic)
    is_grouped = draft.group and draft.kind != MessageType.DELAY
    return queue_of_group(queues, draft.group) if is_grouped else None


def _entry(result: SendResult) -> Any:
    code = _STATUS[result.status]
    return SendResultEntry(
        status=_OK if code == Code.OK else Status(code=code, message=result.status.value),
        message_id=result.message_id,
        transaction_id=result.message_id,
        offset=result.queue_offset,
        recall_handle=result.recall_handle,
    )


def answer_to_all(entries: list[Any]) -> Any:
    """Return the answer to a request with the results of its messages."""
    status = entries[0].status if len(entries) == 1 else common_status([entry.status for entry in entries])
    return SendMessageResponse(status=status, entries=entries)


def answer_to_one(result: SendResult) -> Any:
    """Return the answer to a request with one message; for a stored one in a third of the time."""
    if result.status is not SendStatus.SEND_OK:
        return answer_to_all([_entry(result)])
    answer = SendMessageResponse.FromString(_ONE_SENT)
    entry = answer.entries[0]
    entry.message_id = entry.transaction_id = result.message_id
    entry.offset = result.queue_offset
    entry.recall_handle = result.recall_handle
    return answer
