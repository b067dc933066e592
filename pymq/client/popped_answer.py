"""What a broker answers to a pop: the messages with their receipts."""

from __future__ import annotations

from pymq.client.answers import read_answer
from pymq.client.received import Received
from pymq.errors import ProtocolViolation
from pymq.model import pop
from pymq.model import properties as props
from pymq.model.record import StoredMessage, decode_records, log_malformed
from pymq.wire.command import Command
from pymq.wire.headers.pop import PopMessageAnswer


def popped(answer: Command, address: str, group: str, topic: str, broker: str) -> list[Received]:
    """Return the messages in the answer of the broker at ``address`` to a pop of ``topic`` for ``group``.

    An orderly pop's messages have the number of their retries in ``reconsume_times``. Raises ProtocolViolation.
    """
    found = []
    for message, receipt in popped_with_receipts(answer, address, broker):
        text = message.properties.get(props.POP_CK)
        if text is None:
            text = pop.encode_receipt(receipt, message.queue_id, message.queue_offset)
        found.append(Received(message, text, pop.stored_topic(receipt.retry_flag, group, topic), broker))
    return found


def popped_with_receipts(answer: Command, address: str, broker: str) -> list[tuple[StoredMessage, pop.Receipt]]:
    """Do as :func:`popped`, for a caller that needs no text of receipts."""
    fields = read_answer(PopMessageAnswer, answer, address)
    try:
        starts = _starts(fields.start_offset_info or "")
        counts = _counts(fields.order_count_info or "")
        messages = decode_records(answer.body, log_malformed)
        found = [(message, _receipt_of(message, fields, starts, broker)) for message in messages]
    except (ValueError, KeyError) as error:
        raise ProtocolViolation(
            "answer-header", f"{address} answered a pop with unusable offsets: {fields.start_offset_info!r}"
        ) from error
    for message, _ in found:
        message.broker_name = broker
        if counts:
            queue_id, offset = message.queue_id, message.queue_offset
            count = counts.get(f"qo{queue_id}%{offset}", counts.get(str(queue_id), 0))
            message.reconsume_times = max(message.reconsume_times, count)
    return found


def _receipt_of(message: StoredMessage, fields: PopMessageAnswer, starts: dict[int, int], broker: str) -> pop.Receipt:
    text = message.properties.get(props.POP_CK)
    if text is not None:
        return pop.decode_receipt(text)
    start = starts[message.queue_id]
    return pop.Receipt(start, fields.pop_time, fields.invisible_time, fields.revive_qid, pop.NORMAL, broker)


def _starts(text: str) -> dict[int, int]:
    """Return where the broker began to read each queue of the topic itself. Raises ValueError."""
    starts = {}
    for part in filter(None, text.split(";")):
        flag, queue_id, start = map(int, part.split(" "))
        if flag == pop.NORMAL:
            starts[queue_id] = start
    return starts


def _counts(text: str) -> dict[str, int]:
    """Return the retries of an orderly pop: of single messages (``qo0%17``) and of queues. Raises ValueError."""
    counts = {}
    for part in filter(None, text.split(";")):
        _, key, count = part.split(" ")
        counts[key] = int(count)
    return counts
