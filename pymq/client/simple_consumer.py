"""SimpleConsumer: receives messages one batch at a time, and acknowledges or extends each. The broker keeps the rest.

No queue belongs to a member, and none joins a group: any number of processes may receive for a group at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from pymq.client.answers import read_answer
from pymq.client.group_client import GroupClient
from pymq.client.instance import ROUTE_POLL_INTERVAL_S, ClientInstance
from pymq.client.received import Received
from pymq.client.received_loop import received_loop
from pymq.client.subscription import EVERYTHING, Subscription, explained
from pymq.client.subscription_options import SubscriptionOptions
from pymq.clock import Clock
from pymq.errors import ProtocolViolation, RefusedError, UnreachableError, UsageError
from pymq.model import pop
from pymq.model import properties as props
from pymq.model.message import MessageQueue
from pymq.model.names import check_topic
from pymq.model.record import StoredMessage, decode_records
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeHeader,
    PopMessageAnswer,
    PopMessageHeader,
)

RECEIVE_COUNT_MAX = 32
INVISIBLE_MS = 60_000
WAIT_MS = 15_000
# With several brokers, a receive waits this long at one before it looks at the next one.
SLICE_MS = 1000
CALL_TIMEOUT_S = 10.0
ANSWER_SLACK_S = 10.0
_ANY_QUEUE = -1
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND)
_FULL_PAUSE_S = 0.2


class SimpleConsumer(GroupClient):
    """Receives for ``group``. Use it with ``async with``, or :meth:`start` and :meth:`stop`.

    What is neither acknowledged nor extended within its invisible time comes again, here or elsewhere. ``namesrv``: as
    :class:`~pymq.client.producer.Producer` takes them.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        from_end: bool = False,
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
        instance_name: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``from_end``: where a group begins that never received from a queue."""
        instance = ClientInstance(
            namesrv, clock=clock, rng=rng, instance_name=instance_name, poll_interval_s=poll_interval_s
        )
        super().__init__(group, instance)
        self._init_mode = int(from_end)
        self._subscribed: dict[str, tuple[str, str | None]] = {}  # topic -> (expression, SQL)
        self._turn = 0  # so that no broker is always the first

    async def stop(self) -> None:
        """Closes all connections. Messages without an acknowledgement come again after their invisible time."""
        await super().stop()

    async def receive(
        self,
        topic: str,
        count_max: int = 16,
        *,
        invisible_ms: int = INVISIBLE_MS,
        wait_ms: int = WAIT_MS,
        expression: str = EVERYTHING,
        sql: str | None = None,
    ) -> list[Received]:
        """Receives up to ``count_max`` messages (32 at most), waiting for the first one up to ``wait_ms``.

        They stay away from other members for ``invisible_ms``. Returns an empty list when none came. Raises UsageError,
        NotFoundError, RefusedError, UnreachableError (when no broker of the topic answers).
        """
        if not 1 <= count_max <= RECEIVE_COUNT_MAX:
            raise UsageError(f"count_max={count_max}: use 1 to {RECEIVE_COUNT_MAX}")
        subscription = SubscriptionOptions(expression, sql).subscription(check_topic(topic), 0, self._instance.clock)
        clock = self._instance.clock
        end_ms = clock.monotonic_ms() + wait_ms
        brokers = await self._brokers(topic)
        ask_ms = wait_ms if len(brokers) == 1 else 0
        while True:
            self._turn += 1
            first = self._turn % len(brokers)
            errors: list[UnreachableError] = []
            for broker in brokers[first:] + brokers[:first]:
                try:
                    found = await self._pop(topic, broker, count_max, invisible_ms, ask_ms, subscription)
                except UnreachableError as error:
                    errors.append(error)
                    continue
                if found:
                    return found
            if len(errors) == len(brokers):
                self._instance.renew_route(topic)
                raise errors[0]
            left_ms = end_ms - clock.monotonic_ms()
            if left_ms <= 0:
                return []
            ask_ms = left_ms if len(brokers) == 1 else min(left_ms, SLICE_MS)

    def subscribe(self, topic: str, expression: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Names a topic, with the messages wanted of it, for loops over this consumer. Raises UsageError."""
        SubscriptionOptions(expression, sql).subscription(check_topic(topic), 0, self._instance.clock)
        self._subscribed[topic] = (expression, sql)

    def __aiter__(self) -> AsyncIterator[Received]:
        return self.messages()

    def messages(self, count_max: int = 16, *, invisible_ms: int = INVISIBLE_MS) -> AsyncGenerator[Received, None]:
        """Yields messages of the subscribed topics without end: ``async for received in consumer`` does the same.

        A message is acknowledged when the loop asks for the next one, unless it was acknowledged or given back in the
        loop. A loop that ends early, by ``break`` or an exception, gives its message back, and so those that it has
        received ahead: ``count_max`` at most. A loop's body has at least half of ``invisible_ms`` for each message;
        :meth:`extend` gives it more. Raises UsageError without a subscription.
        """
        if not self._subscribed:
            raise UsageError("nothing is subscribed: call subscribe(topic) before the loop")
        return received_loop(self, self._subscribed, self._instance.clock, count_max, invisible_ms)

    async def ack(self, received: Received) -> None:
        """Acknowledges a message: it does not come again. Too late or twice is no error. Raises as :meth:`receive`."""
        header = AckMessageHeader(
            consumer_group=self.group,
            topic=received.topic,
            queue_id=received.message.queue_id,
            extra_info=received.receipt,
            offset=received.message.queue_offset,
        )
        await self._ask(received, request(RequestCode.ACK_MESSAGE, header))
        received.done = True

    async def extend(self, received: Received, invisible_ms: int) -> None:
        """Keeps a message away for ``invisible_ms`` from now on, and renews its receipt; 0 gives it back at once.

        Raises RefusedError when the receipt is over, else as :meth:`receive`.
        """
        message = received.message
        header = ChangeInvisibleTimeHeader(
            consumer_group=self.group,
            topic=received.topic,
            queue_id=message.queue_id,
            extra_info=received.receipt,
            offset=message.queue_offset,
            invisible_time=invisible_ms,
        )
        answer, address = await self._ask(received, request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header))
        fields = read_answer(ChangeInvisibleTimeAnswer, answer, address)
        old = pop.decode_receipt(received.receipt)
        renewed = pop.Receipt(
            message.queue_offset,
            fields.pop_time,
            fields.invisible_time,
            fields.revive_qid,
            old.retry_flag,
            old.broker_name,
        )
        received.receipt = pop.encode_receipt(renewed, message.queue_id, message.queue_offset)

    async def give_back(self, received: Received) -> None:
        """Lets a message come again at once, here or elsewhere. Raises as :meth:`extend`."""
        await self.extend(received, 0)
        received.done = True

    async def _brokers(self, topic: str) -> list[str]:
        queues = await self._instance.routes.queues_to_read(topic)
        return sorted({queue.broker_name for queue in queues})

    async def _pop(
        self, topic: str, broker: str, count_max: int, invisible_ms: int, wait_ms: int, subscription: Subscription
    ) -> list[Received]:
        header = PopMessageHeader(
            consumer_group=self.group,
            topic=topic,
            queue_id=_ANY_QUEUE,
            max_msg_nums=count_max,
            invisible_time=invisible_ms,
            poll_time=wait_ms,
            born_time=0,  # the broker's clock: this one may be wrong
            init_mode=self._init_mode,
            exp_type=subscription.expression_type,
            exp=subscription.expression,
        )
        address = await self._instance.routes.write_address(MessageQueue(topic, broker, 0))
        timeout_s = wait_ms / 1000 + ANSWER_SLACK_S
        answer = await self._instance.remoting.invoke(address, request(RequestCode.POP_MESSAGE, header), timeout_s)
        if answer.code in _NOTHING:
            if answer.code == ResponseCode.POLLING_FULL:
                await asyncio.sleep(_FULL_PAUSE_S)
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise explained(RefusedError(answer.code, answer.remark, address), subscription)
        found = self._received(answer, address, topic, broker)
        wanted = [each for each in found if not subscription.tags or subscription.accepts(each.message.tags)]
        for each in found:
            if each not in wanted:  # another tag with the same hash: it is not this group's
                await self.ack(each)
        return wanted

    def _received(self, answer: Command, address: str, topic: str, broker: str) -> list[Received]:
        fields = read_answer(PopMessageAnswer, answer, address)
        try:
            starts = _starts(fields.start_offset_info or "")
            return [self._one(message, fields, starts, topic, broker) for message in decode_records(answer.body)]
        except (ValueError, KeyError) as error:
            raise ProtocolViolation(
                "answer-header", f"{address} answered a pop with unusable offsets: {fields.start_offset_info!r}"
            ) from error

    def _one(
        self, message: StoredMessage, fields: PopMessageAnswer, starts: dict[int, int], topic: str, broker: str
    ) -> Received:
        message.broker_name = broker
        receipt = message.properties.get(props.POP_CK)
        if receipt is None:
            own = pop.Receipt(
                starts[message.queue_id], fields.pop_time, fields.invisible_time, fields.revive_qid, pop.NORMAL, broker
            )
            receipt = pop.encode_receipt(own, message.queue_id, message.queue_offset)
        flag = pop.decode_receipt(receipt).retry_flag
        names = {pop.RETRY_V1: pop.retry_topic_v1, pop.RETRY_V2: pop.retry_topic_v2}
        stored_in = names[flag](self.group, topic) if flag in names else topic
        return Received(message, receipt, stored_in, broker)

    async def _ask(self, received: Received, command: Command) -> tuple[Command, str]:
        """Sends a request to the message's broker and returns its answer and address. Raises RefusedError."""
        queue = MessageQueue(received.message.topic, received.broker_name, 0)
        address = await self._instance.routes.write_address(queue)
        answer = await self._instance.remoting.invoke(address, command, CALL_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark, address)
        return answer, address


def _starts(text: str) -> dict[int, int]:
    """Return where the broker began to read each queue of the topic itself. Raises ValueError."""
    starts = {}
    for part in filter(None, text.split(";")):
        flag, queue_id, start = map(int, part.split(" "))
        if flag == pop.NORMAL:
            starts[queue_id] = start
    return starts
