"""What producers ask for: SendMessage and RecallMessage."""

from __future__ import annotations

from typing import Any

from pymq.client.outgoing import Outgoing
from pymq.clock import Clock
from pymq.model.message import SendResult, SendStatus
from pymq.model.message_types import DELAY
from pymq.model.properties import encode_properties
from pymq.model.record import encode_batch_entry
from pymq.proxy.backend import Backend, TransactionPlace
from pymq.proxy.calls import Call, status_ok
from pymq.proxy.checks import check_messages, check_topic, check_type, type_of
from pymq.proxy.conversion import born_ms_of, properties_of, sys_flag_of
from pymq.proxy.protocol.messages import RecallMessageResponse, SendMessageResponse, SendResultEntry, Status
from pymq.proxy.protocol.names import Code, MessageType
from pymq.proxy.queue_choice import queue_of_group
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.transactions import OpenTransactions

_STATUS = {
    SendStatus.SEND_OK: Code.OK,
    SendStatus.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    SendStatus.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    SendStatus.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}


class Publishing:
    """Sends and recalls messages."""

    def __init__(self, backend: Backend, transactions: OpenTransactions, clock: Clock) -> None:
        self._backend = backend
        self._transactions = transactions
        self._clock = clock

    async def send_message(self, call: Call, request: Any) -> Any:
        """Store one message, or several in one queue."""
        messages = request.messages
        topic = check_messages(messages, self._clock.now_ms())
        queues = await self._backend.queues_to_write(topic)
        wanted = await self._backend.topic_type(topic)
        for each in messages:
            check_type(each, topic, wanted)
        outgoing = self._one(messages[0]) if len(messages) == 1 else self._batch(messages)
        system = messages[0].system_properties
        is_grouped = system.HasField("message_group") and type_of(messages[0]) != MessageType.DELAY
        queue = queue_of_group(queues, system.message_group) if is_grouped else None
        result = await self._backend.send(outgoing, queue)
        if type_of(messages[0]) == MessageType.TRANSACTION:
            self._begin(topic, result)
        return self._answer(result)

    async def recall_message(self, call: Call, request: Any) -> Any:
        """Take back a message that waits for its time."""
        topic = check_topic(request.topic.name)
        if await self._backend.topic_type(topic) != DELAY:
            text = f"topic {topic} does not take {DELAY} messages, so it has none to recall"
            raise ProxyRefusal(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)
        message_id = await self._backend.recall(topic, request.recall_handle)
        return RecallMessageResponse(status=status_ok(), message_id=message_id)

    def _one(self, message: Any) -> Outgoing:
        text = encode_properties(properties_of(message)).decode()
        message_id = message.system_properties.message_id
        outgoing = Outgoing(message.topic.name, message.body, text, message_id, 0, sys_flag_of(message), False)
        outgoing.born_ms = born_ms_of(message, self._clock.now_ms())
        return outgoing

    def _batch(self, messages: Any) -> Outgoing:
        body = b"".join([encode_batch_entry(each.body, encode_properties(properties_of(each))) for each in messages])
        ids = ",".join([each.system_properties.message_id for each in messages])
        outgoing = Outgoing(messages[0].topic.name, body, "", ids, 0, 0, True)
        outgoing.born_ms = born_ms_of(messages[0], self._clock.now_ms())
        return outgoing

    def _begin(self, topic: str, result: SendResult) -> None:
        log_offset = int(result.offset_message_id[-16:], 16)
        place = TransactionPlace(topic, result.queue.broker_name, result.queue_offset, log_offset)
        self._transactions.begin(result.message_id, place, self._clock.monotonic_ms())

    @staticmethod
    def _answer(result: SendResult) -> Any:
        code = _STATUS[result.status]
        status = Status(code=code, message="OK" if code == Code.OK else result.status.value)
        entry = SendResultEntry(
            status=status,
            message_id=result.message_id,
            transaction_id=result.message_id,
            offset=result.queue_offset,
            recall_handle=result.recall_handle,
        )
        return SendMessageResponse(status=status, entries=[entry])
