"""Pops messages for a group, and settles them: the requests of simple consumers, and of push consumers that pop."""

from __future__ import annotations

import asyncio

from pymq.client.answers import read_answer
from pymq.client.consumer_settings import TO_DEAD_LETTERS
from pymq.client.instance import ClientInstance
from pymq.client.popped_answer import popped
from pymq.client.received import Received
from pymq.client.send_back import send_back_header
from pymq.client.subscription import Subscription, explained
from pymq.errors import RefusedError
from pymq.model import pop
from pymq.model.message import MessageQueue
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeHeader,
    PopMessageHeader,
)

POP_COUNT_MAX = 32  # messages of one pop
ANY_QUEUE = -1
CALL_TIMEOUT_S = 10.0
ANSWER_SLACK_S = 10.0
# Answers of a pop that found nothing.
NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND)
FULL_PAUSE_S = 0.2


class Popping:
    """The requests of one group. ``from_end``: where the group begins in a queue that it never popped."""

    def __init__(self, group: str, instance: ClientInstance, *, from_end: bool) -> None:
        self._group = group
        self._instance = instance
        self._init_mode = int(from_end)

    async def pop(
        self, queue: MessageQueue, count_max: int, invisible_ms: int, wait_ms: int, subscription: Subscription
    ) -> list[Received]:
        """Pop up to ``count_max`` messages of a queue, or with the id :data:`ANY_QUEUE` of all of its broker's queues.

        Waits for the first one up to ``wait_ms``. Raises NotFoundError, RefusedError, UnreachableError.
        """
        header = PopMessageHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=count_max,
            invisible_time=invisible_ms,
            poll_time=wait_ms,
            born_time=0,  # the broker's clock: this one may be wrong
            init_mode=self._init_mode,
            exp_type=subscription.expression_type,
            exp=subscription.expression,
        )
        address = await self._instance.routes.write_address(MessageQueue(queue.topic, queue.broker_name, 0))
        timeout_s = wait_ms / 1000 + ANSWER_SLACK_S
        answer = await self._instance.remoting.invoke(address, request(RequestCode.POP_MESSAGE, header), timeout_s)
        if answer.code in NOTHING:
            if answer.code == ResponseCode.POLLING_FULL:
                await asyncio.sleep(FULL_PAUSE_S)
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise explained(RefusedError(answer.code, answer.remark, address), subscription)
        found = popped(answer, address, self._group, queue.topic, queue.broker_name)
        wanted = [each for each in found if not subscription.tags or subscription.accepts(each.message.tags)]
        for each in found:
            if each not in wanted:  # another tag with the same hash: it is not this group's
                await self.ack(each)
        return wanted

    async def ack(self, received: Received) -> None:
        """Acknowledge a message: it does not come again. Too late or twice is no error. Raises as :meth:`pop`."""
        queue_id, offset = received.place
        header = AckMessageHeader(
            consumer_group=self._group,
            topic=received.topic,
            queue_id=queue_id,
            extra_info=received.receipt,
            offset=offset,
            lite_topic=received.lite_topic,
        )
        await self._ask(received, request(RequestCode.ACK_MESSAGE, header))
        received.done = True

    async def extend(self, received: Received, invisible_ms: int) -> None:
        """Keep a message away for ``invisible_ms`` from now on, and renew its receipt; 0 gives it back at once.

        Raises RefusedError when the receipt is over, else as :meth:`pop`.
        """
        queue_id, offset = received.place
        header = ChangeInvisibleTimeHeader(
            consumer_group=self._group,
            topic=received.topic,
            queue_id=queue_id,
            extra_info=received.receipt,
            offset=offset,
            invisible_time=invisible_ms,
            lite_topic=received.lite_topic,
        )
        answer, address = await self._ask(received, request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header))
        fields = read_answer(ChangeInvisibleTimeAnswer, answer, address)
        old = pop.decode_receipt(received.receipt)
        renewed = pop.Receipt(
            offset,
            fields.pop_time,
            fields.invisible_time,
            fields.revive_qid,
            old.retry_flag,
            old.broker_name,
        )
        received.receipt = pop.encode_receipt(renewed, queue_id, offset)

    async def give_back(self, received: Received, invisible_ms: int = 0) -> None:
        """Let a message come again after ``invisible_ms``, here or elsewhere. Raises as :meth:`extend`."""
        await self.extend(received, invisible_ms)
        received.done = True

    async def give_up(self, received: Received) -> None:
        """Move a message to the group's dead letters. Raises as :meth:`pop`."""
        message = received.message
        header = send_back_header(self._group, message, TO_DEAD_LETTERS, message.reconsume_times)
        await self._ask(received, request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
        await self.ack(received)

    async def _ask(self, received: Received, command: Command) -> tuple[Command, str]:
        """Send a request to the message's broker and return its answer and address. Raises RefusedError."""
        queue = MessageQueue(received.message.topic, received.broker_name, 0)
        address = await self._instance.routes.write_address(queue)
        answer = await self._instance.remoting.invoke(address, command, CALL_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark, address)
        return answer, address
