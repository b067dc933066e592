"""What producers ask for: SendMessage and RecallMessage."""

from __future__ import annotations

from typing import Any, NamedTuple

from pymq.client.outgoing import Outgoing
from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.model import sysflag
from pymq.model.message import MessageQueue, SendResult, SendStatus
from pymq.model.message_types import DELAY
from pymq.model.properties import encode_properties
from pymq.model.record import encode_batch_entry
from pymq.proxy.backend import Backend, TransactionPlace
from pymq.proxy.bodies import Body, of_one_mark, stored_body
from pymq.proxy.calls import Call, common_status, status_of, status_ok
from pymq.proxy.checks import BODY_BYTES_MAX, MIXED, check_messages, check_topic, check_type, type_of
from pymq.proxy.conversion import born_ms_of, properties_of
from pymq.proxy.protocol.messages import RecallMessageResponse, SendMessageResponse, SendResultEntry, Status
from pymq.proxy.protocol.names import Code, Encoding, MessageType
from pymq.proxy.queue_choice import queue_of_group
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.transactions import OpenTransactions

_STATUS = {
    SendStatus.SEND_OK: Code.OK,
    SendStatus.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    SendStatus.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    SendStatus.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}
_OK = status_ok()


class _Sending(NamedTuple):
    """A message, what it is, its group, and its body as it is stored."""

    message: Any
    kind: int
    group: str
    body: Body


class Publishing:
    """Sends and recalls messages."""

    def __init__(self, backend: Backend, transactions: OpenTransactions, clock: Clock) -> None:
        self._backend = backend
        self._transactions = transactions
        self._clock = clock

    async def send_message(self, call: Call, request: Any) -> Any:
        """Store one message, or several: as a batch in one queue, where they can be one, else one after the other."""
        messages = request.messages
        topic = check_messages(messages, self._clock.now_ms())
        queues = await self._backend.queues_to_write(topic)
        wanted = await self._backend.topic_type(topic)
        sendings = [await _sending(each, topic, wanted) for each in messages]
        if len(sendings) > 1 and _is_batch(sendings):
            result = await self._backend.send(self._batch(sendings), _queue_of(queues, sendings[0]))
            return _answer([_entry(result)])
        entries: list[Any] = []
        for sending in sendings:
            try:
                result = await self._backend.send(self._one(sending), _queue_of(queues, sending))
            except PymqError as error:
                if not entries:
                    raise
                # Nothing behind it is sent: messages of one group must not overtake each other.
                failed = SendResultEntry(status=status_of(error))
                entries += [failed] * (len(messages) - len(entries))
                break
            if sending.kind == MessageType.TRANSACTION:
                self._begin(topic, result)
            entries.append(_entry(result))
        return _answer(entries)

    async def recall_message(self, call: Call, request: Any) -> Any:
        """Take back a message that waits for its time."""
        topic = check_topic(request.topic.name)
        if await self._backend.topic_type(topic) not in (DELAY, MIXED):
            text = f"topic {topic} does not take {DELAY} messages, so it has none to recall"
            raise ProxyRefusal(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)
        message_id = await self._backend.recall(topic, request.recall_handle)
        return RecallMessageResponse(status=status_ok(), message_id=message_id)

    def _one(self, sending: _Sending) -> Outgoing:
        message, kind, body = sending.message, sending.kind, sending.body
        text = encode_properties(properties_of(message, kind)).decode()
        message_id = message.system_properties.message_id
        flags = body.mark | (sysflag.TRANSACTION_PREPARED if kind == MessageType.TRANSACTION else 0)
        outgoing = Outgoing(message.topic.name, body.content, text, message_id, 0, flags, False)
        outgoing.born_ms = born_ms_of(message, self._clock.now_ms())
        return outgoing

    def _batch(self, sendings: list[_Sending]) -> Outgoing:
        """Return a batch. Raises ProxyRefusal for one that no broker takes."""
        contents, flags = of_one_mark([each.body for each in sendings])
        entries = [
            encode_batch_entry(content, encode_properties(properties_of(each.message, each.kind)))
            for content, each in zip(contents, sendings, strict=True)
        ]
        size_bytes = sum(map(len, entries))
        if size_bytes > BODY_BYTES_MAX:
            text = f"the messages of the request have {size_bytes} bytes together, the limit is {BODY_BYTES_MAX}"
            raise ProxyRefusal(Code.MESSAGE_BODY_TOO_LARGE, text)
        first = sendings[0].message
        ids = ",".join([each.message.system_properties.message_id for each in sendings])
        outgoing = Outgoing(first.topic.name, b"".join(entries), "", ids, 0, flags, True)
        outgoing.born_ms = born_ms_of(first, self._clock.now_ms())
        return outgoing

    def _begin(self, topic: str, result: SendResult) -> None:
        log_offset = int(result.offset_message_id[-16:], 16)
        place = TransactionPlace(topic, result.queue.broker_name, result.queue_offset, log_offset)
        self._transactions.begin(result.message_id, place, self._clock.monotonic_ms())


async def _sending(message: Any, topic: str, wanted: str) -> _Sending:
    """Return what is sent of a message. Raises ProxyRefusal for one that the topic does not take."""
    system, kind = message.system_properties, type_of(message)
    check_type(kind, topic, wanted)
    content, encoding = message.body, system.body_encoding
    body = Body(content, 0) if encoding != Encoding.GZIP else await stored_body(content)
    return _Sending(message, kind, system.message_group, body)


def _is_batch(sendings: list[_Sending]) -> bool:
    """Whether messages can be stored together: brokers know no batch of delayed or half messages, nor two queues."""
    first = sendings[0]
    are_alike = all(each.kind == first.kind and each.group == first.group for each in sendings)
    return are_alike and first.kind in (MessageType.NORMAL, MessageType.FIFO)


def _queue_of(queues: list[MessageQueue], sending: _Sending) -> MessageQueue | None:
    """Return the queue of a message's group; None when any one will do."""
    is_grouped = sending.group and sending.kind != MessageType.DELAY
    return queue_of_group(queues, sending.group) if is_grouped else None


def _entry(result: SendResult) -> Any:
    code = _STATUS[result.status]
    return SendResultEntry(
        status=_OK if code == Code.OK else Status(code=code, message=result.status.value),
        message_id=result.message_id,
        transaction_id=result.message_id,
        offset=result.queue_offset,
        recall_handle=result.recall_handle,
    )


def _answer(entries: list[Any]) -> Any:
    status = entries[0].status if len(entries) == 1 else common_status([entry.status for entry in entries])
    return SendMessageResponse(status=status, entries=entries)
