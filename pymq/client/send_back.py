"""Returns messages for a later retry: through the broker (code 36), or by sending a copy to the retry topic."""

from __future__ import annotations

import logging

from pymq.client.consumer_settings import TO_DEAD_LETTERS, ConsumerState
from pymq.client.outgoing import Outgoing, send_result
from pymq.errors import PymqError
from pymq.model import properties as names
from pymq.model import sysflag
from pymq.model.message import MessageQueue
from pymq.model.names import retry_topic
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage
from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from pymq.wire.headers.send import ConsumerSendMsgBackHeader

log = logging.getLogger(__name__)

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
FIRST_RETRY_DELAY_LEVEL = 3
TIMEOUT_S = 5.0
_NOT_COPIED = {names.TRANSACTION_PREPARED, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES, names.DELAY}
_NOT_COPIED |= {names.REAL_TOPIC, names.REAL_QUEUE_ID}


def send_back_header(
    group: str, message: StoredMessage, delay_level: int, reconsume_times_max: int
) -> ConsumerSendMsgBackHeader:
    """Return the header that has a broker store ``message`` for ``group`` again, or among its dead letters."""
    return ConsumerSendMsgBackHeader(
        offset=message.physical_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id=message.offset_message_id,
        origin_topic=message.topic,
        unit_mode=False,
        max_reconsume_times=reconsume_times_max,
    )


async def send_back(state: ConsumerState, message: StoredMessage, delay_level: int) -> bool:
    """Ask the broker to deliver ``message`` again later. Returns False if that failed: the caller must keep it."""
    max_times = state.settings.reconsume_count_max
    header = send_back_header(state.group, message, delay_level, max_times)
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    try:
        address = await state.instance.routes.read_address(queue)
        command = request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        await state.instance.remoting.invoke_ok(address, command, TIMEOUT_S)
        return True
    except PymqError as error:
        log.warning("the broker doesn't take %s back, a copy goes to the retry topic: %s", message.message_id, error)
    if delay_level == TO_DEAD_LETTERS:
        return await give_up(state, message)
    level = delay_level or FIRST_RETRY_DELAY_LEVEL + message.reconsume_times
    return await _send_copy(state, message, message.reconsume_times + 1, max_times, level)


async def give_up(state: ConsumerState, message: StoredMessage) -> bool:
    """Send ``message`` to the group's dead letters, as a retry beyond the limit. Returns False when that failed."""
    tries = message.reconsume_times
    return await _send_copy(state, message, tries + 1, tries, FIRST_RETRY_DELAY_LEVEL)


async def _send_copy(
    state: ConsumerState, message: StoredMessage, reconsume_times: int, max_times: int, delay_level: int
) -> bool:
    """Send a copy to the retry topic (Java: DefaultMQPushConsumerImpl.sendMessageBack after a failed request)."""
    properties = {name: value for name, value in message.properties.items() if name not in _NOT_COPIED}
    properties.setdefault(names.RETRY_TOPIC, message.topic)
    properties.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_message_id)
    properties[names.DELAY] = str(delay_level)
    topic = retry_topic(state.group)
    sys_flag = message.sys_flag & (sysflag.COMPRESSED | sysflag.COMPRESSION_MASK)
    encoded = encode_properties(properties).decode("utf-8", "replace")
    outgoing = Outgoing(topic, message.body, encoded, message.message_id, message.flag, sys_flag, False)
    instance = state.instance
    try:
        queue = instance.rng.choice(await instance.routes.queues_to_write(topic))
        born_ms = message.born_timestamp_ms
        command = outgoing.retry_command(INNER_PRODUCER_GROUP, queue, born_ms, reconsume_times, max_times)
        address = await instance.routes.write_address(queue)
        send_result(await instance.remoting.invoke(address, command, TIMEOUT_S), outgoing.message_id, queue, address)
        return True
    except PymqError as error:
        log.warning("a copy of %s could not be sent to %s: %s", message.message_id, topic, error)
        return False
