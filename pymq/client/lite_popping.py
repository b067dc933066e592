"""Pops messages of lite topics: the requests of a LiteConsumer and their answers."""

from __future__ import annotations

import asyncio

from pymq.client.answers import read_answer
from pymq.client.instance import ClientInstance
from pymq.client.popping import ANSWER_SLACK_S, FULL_PAUSE_S, NOTHING
from pymq.client.received import Received
from pymq.errors import ProtocolViolation, RefusedError
from pymq.model import pop
from pymq.model.lite_topics import MULTI_QUEUE_OFFSET
from pymq.model.message import MessageQueue
from pymq.model.properties import LITE_TOPIC
from pymq.model.record import decode_records, log_malformed
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.headers.lites import PopLiteAnswer, PopLiteHeader


async def pop_lites(
    instance: ClientInstance, group: str, queue: MessageQueue, count_max: int, invisible_ms: int, wait_ms: int
) -> list[Received]:
    """Pop messages of the lite topics below ``queue.topic`` that this client subscribes to at the queue's broker.

    Waits for the first one up to ``wait_ms``. Raises NotFoundError, RefusedError, UnreachableError, ProtocolViolation.
    """
    header = PopLiteHeader(
        client_id=instance.client_id,
        consumer_group=group,
        topic=queue.topic,
        max_msg_num=count_max,
        invisible_time=invisible_ms,
        poll_time=wait_ms,
        born_time=0,  # the broker's clock: this one may be wrong
    )
    address = await instance.routes.write_address(queue)
    command = request(RequestCode.POP_LITE_MESSAGE, header)
    answer = await instance.remoting.invoke(address, command, wait_ms / 1000 + ANSWER_SLACK_S)
    if answer.code in NOTHING:
        if answer.code == ResponseCode.POLLING_FULL:
            await asyncio.sleep(FULL_PAUSE_S)
        return []
    if answer.code != ResponseCode.SUCCESS:
        raise RefusedError(answer.code, answer.remark, address)
    return popped_lites(answer, address, queue.topic, queue.broker_name)


def popped_lites(answer: Command, address: str, parent: str, broker: str) -> list[Received]:
    """Return the messages in the answer to a lite pop, in order. Raises ProtocolViolation.

    The number of times that a message was handed out before is its ``reconsume_times``.
    """
    fields = read_answer(PopLiteAnswer, answer, address)
    messages = decode_records(answer.body, log_malformed)
    try:
        counts = [_count(part) for part in (fields.order_count_info or "").split(";") if part]
        places = [(message.properties[LITE_TOPIC], int(message.properties[MULTI_QUEUE_OFFSET])) for message in messages]
    except (ValueError, KeyError) as error:
        raise ProtocolViolation("answer-header", f"{address} answered a lite pop with unusable places") from error
    found = []
    for at, (message, (lite, offset)) in enumerate(zip(messages, places, strict=True)):
        message.broker_name = broker
        message.reconsume_times = max(message.reconsume_times, counts[at] if at < len(counts) else 0)
        receipt = pop.Receipt(offset, fields.pop_time, fields.invisible_time, fields.revive_qid, pop.NORMAL, broker)
        text = pop.encode_receipt(receipt, 0, offset)
        found.append(Received(message, text, parent, broker, lite_topic=lite, lite_offset=offset))
    return found


def _count(part: str) -> int:
    """Return how often a message was handed out before: ``3``, or ``0 qo0%17 3``. Raises ValueError."""
    return int(part.rpartition(" ")[2])
