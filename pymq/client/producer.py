"""Sends messages: picks the queue, retries on another broker, compresses large bodies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

from pymq.client.answers import read_answer
from pymq.client.group_client import GroupClient
from pymq.client.instance import ROUTE_POLL_INTERVAL_S, ClientInstance
from pymq.client.outgoing import BODY_SIZE_MAX_BYTES, Outgoing, prepare, prepare_batch, send_result
from pymq.client.queue_picker import BrokerHealth, QueuePicker
from pymq.client.requests import REQUEST_TIMEOUT_S, OpenRequests, no_reply, reply_message, request_message
from pymq.client.tracing import Tracer
from pymq.clock import Clock, SystemClock
from pymq.errors import ClosedError, NotFoundError, RefusedError, UnreachableError, UsageError
from pymq.model import sysflag
from pymq.model.message import DELAY_LEVEL_MAX, Message, MessageQueue, SendResult
from pymq.model.names import check_topic, reply_topic
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage
from pymq.model.timers import decode_handle
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request as command_of
from pymq.wire.headers.send import RecallMessageAnswer, RecallMessageHeader

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]

COMPRESS_ABOVE_BYTES = 4096
SEND_TIMEOUT_S = 3.0
RETRY_COUNT = 2

# Java: DefaultMQProducer.retryResponseCodes. Another broker may accept a message that one refuses with these codes.
RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)


class Producer(GroupClient):
    """A producer of one group. Use it with ``async with``, or :meth:`start` and :meth:`stop`.

    ``namesrv``: addresses separated by ``;``; without them NAMESRV_ADDR from the environment, else 127.0.0.1:9876.
    ``compress``: zlib, lz4, zstd (the last two need 5.x consumers).
    ``delay_level_max``: the number of levels in the brokers' ``messageDelayLevel``, if they have more than the default.
    ``trace``: write traces of all sends, for ``pymq message trace``.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        compress: str = "zlib",
        compress_above_bytes: int = COMPRESS_ABOVE_BYTES,
        body_size_max_bytes: int = BODY_SIZE_MAX_BYTES,
        delay_level_max: int = DELAY_LEVEL_MAX,
        retry_count: int = RETRY_COUNT,
        trace: bool = False,
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
        instance_name: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._requests = OpenRequests(clock)
        instance = ClientInstance(
            namesrv,
            clock=clock,
            on_request=self._requests.handle,
            rng=rng,
            instance_name=instance_name,
            producer_group=group,
            poll_interval_s=poll_interval_s,
        )
        super().__init__(group, instance)
        self.retry_count = retry_count
        self._compress = compress
        self._compress_above_bytes = compress_above_bytes
        self._body_size_max_bytes = body_size_max_bytes
        self._delay_level_max = delay_level_max
        self._clock = self._instance.clock
        self._tracer = Tracer(self._instance, group, "PRODUCE") if trace else None
        self._health = BrokerHealth(self._clock)
        self._picker = QueuePicker(self._health, self._instance.rng)

    async def start(self) -> None:
        """Starts background jobs. The first send opens the first connection. Raises ClosedError after a stop."""
        if not self._instance.running:
            await super().start()
            if self._tracer is not None:
                self._tracer.start()

    async def stop(self) -> None:
        """Leaves the group and closes all connections; pending sends and requests fail with UnreachableError."""
        self._requests.end()
        if self._tracer is not None and self._instance.running:
            await self._tracer.stop()
        await super().stop()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the writable queues of ``topic``. Raises NotFoundError, UnreachableError."""
        return list(await self._instance.routes.queues_to_write(check_topic(topic)))

    async def send(
        self,
        message: Message,
        *,
        timeout_s: float = SEND_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> SendResult:
        """Sends and waits until the broker has stored the message.

        Without ``queue`` and ``selector`` a failed attempt is repeated on another broker within ``timeout_s``. With
        one of them the caller chose the queue, and a failure is not repeated elsewhere.
        Raises UsageError (the message can't be sent as it is), NotFoundError (no such topic), RefusedError,
        UnreachableError, RequestTimeoutError.
        """
        deadline = Deadline(self._clock, timeout_s)
        outgoing = self._prepare(message)
        if queue is None and selector is None:
            return await self._send_anywhere(outgoing, deadline)
        chosen = queue or await self._select(selector, message, deadline.left_s())
        return await self._attempt(outgoing, chosen, deadline)

    def send_async(
        self,
        message: Message,
        *,
        timeout_s: float = SEND_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> asyncio.Task[SendResult]:
        """Starts a task that does the same as :meth:`send`."""
        sending = self.send(message, timeout_s=timeout_s, queue=queue, selector=selector)
        return asyncio.get_running_loop().create_task(sending)

    async def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, selector: Selector | None = None
    ) -> None:
        """Sends without waiting for an answer: failures in the broker go unnoticed. Raises for earlier failures."""
        outgoing = self._prepare(message)
        chosen = queue
        if chosen is None and selector is not None:
            chosen = await self._select(selector, message, None)
        if chosen is None:
            queues = await self._instance.routes.queues_to_write(outgoing.topic)
            chosen = self._picker.pick(outgoing.topic, queues)
        address = await self._instance.routes.write_address(chosen)
        await self._instance.remoting.oneway(address, outgoing.command(self.group, chosen, self._clock.now_ms()))

    async def send_batch(
        self, messages: Sequence[Message], *, timeout_s: float = SEND_TIMEOUT_S, queue: MessageQueue | None = None
    ) -> SendResult:
        """Sends messages of one topic in one request; all are stored in one queue with consecutive offsets, or none.

        Raises what :meth:`send` raises; UsageError also for mixed topics, delays, or a batch that is too large.
        """
        deadline = Deadline(self._clock, timeout_s)
        for message in messages:
            self._check(message)
        outgoing = prepare_batch(messages, self._instance.ids, self._body_size_max_bytes)
        if queue is not None:
            return await self._attempt(outgoing, queue, deadline)
        return await self._send_anywhere(outgoing, deadline)

    async def request(
        self,
        message: Message,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> StoredMessage:
        """Sends ``message`` as a request and returns the reply that a consumer sends back.

        The reply has no place in a log: its offsets are 0. Raises RequestTimeoutError when there is no reply within
        ``timeout_s``, and what :meth:`send` raises when the request can't be sent; UsageError before :meth:`start`,
        because brokers know only a started producer.
        """
        if not self._instance.running:
            raise UsageError("a request needs a started producer, to which brokers bring the reply: call start()")
        deadline = Deadline(self._clock, timeout_s)
        correlation_id = self._instance.ids.next_id()
        is_sent = False
        asking = request_message(message, self.client_id, correlation_id, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._expect_replies(asking.topic, deadline)
                reply = self._requests.open(correlation_id)
                await self.send(asking, timeout_s=deadline.left_s(), queue=queue, selector=selector)
                is_sent = True
                return await reply
        except TimeoutError:
            raise no_reply(message.topic, timeout_s, is_sent=is_sent) from None
        finally:
            self._requests.close(correlation_id)

    async def reply(
        self, request: StoredMessage, reply: Message | bytes | str, *, timeout_s: float = SEND_TIMEOUT_S
    ) -> SendResult:
        """Sends ``reply`` to the producer that waits in :meth:`request` for the answer to ``request``.

        ``reply`` is a body, or a message, whose topic does not count. Raises UsageError when ``request`` is no request,
        RefusedError with code 1 when its producer is gone or does not take the reply, and what :meth:`send` raises.
        """
        deadline = Deadline(self._clock, timeout_s)
        message = reply_message(request, reply)
        outgoing = self._prepare(message)
        outgoing.code = RequestCode.SEND_REPLY_MESSAGE_V2
        queues = await self._instance.routes.queues_to_write(message.topic, deadline.left_s())
        # The requester is known to the broker that it sent the request to.
        first = [one for one in queues if one.broker_name == request.broker_name]
        return await self._send_anywhere(outgoing, deadline, self._picker.pick(message.topic, first or queues))

    async def send_copy(
        self,
        message: StoredMessage,
        topic: str,
        properties: Mapping[str, str],
        *,
        timeout_s: float = SEND_TIMEOUT_S,
    ) -> SendResult:
        """Sends a stored message to ``topic`` as it is stored, with these properties instead of its own.

        It keeps its message id, and its body stays compressed. RocketMQ's own property names are allowed: this is for
        tools that move messages. Raises what :meth:`send` raises.
        """
        sys_flag = message.sys_flag & (sysflag.COMPRESSED | sysflag.COMPRESSION_MASK)
        encoded = encode_properties(properties).decode("utf-8", "replace")
        outgoing = Outgoing(
            check_topic(topic), message.body, encoded, message.message_id, message.flag, sys_flag, False
        )
        return await self._send_anywhere(outgoing, Deadline(self._clock, timeout_s))

    async def recall(self, topic: str, recall_handle: str, *, timeout_s: float = SEND_TIMEOUT_S) -> str:
        """Takes back a timer message that is not due yet. Returns its message id.

        ``recall_handle`` is that of the :class:`~pymq.model.message.SendResult`. Raises UsageError for a text that is
        no handle, RefusedError when the message is due, delivered or unknown there (604) or recalls are switched off
        (16), NotFoundError, UnreachableError, RequestTimeoutError.
        """
        try:
            handle = decode_handle(recall_handle)
        except ValueError as error:
            raise UsageError(str(error)) from error
        deadline = Deadline(self._clock, timeout_s)
        await self._instance.routes.queues_to_write(check_topic(topic), deadline.left_s())
        queue = MessageQueue(topic, handle.broker_name, 0)
        address = await self._instance.routes.write_address(queue, deadline.left_s())
        header = RecallMessageHeader(topic=topic, recall_handle=recall_handle, producer_group=self.group)
        command = command_of(RequestCode.RECALL_MESSAGE, header)
        answer = await self._instance.remoting.invoke(address, command, deadline.left_s())
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark, address)
        return read_answer(RecallMessageAnswer, answer, address).message_id

    async def _expect_replies(self, topic: str, deadline: Deadline) -> None:
        """Makes this producer known to all brokers that may get the reply: those of the cluster's reply topic."""
        routes = self._instance.routes
        await routes.queues_to_write(topic, deadline.left_s())
        for cluster in routes.clusters():
            if routes.cached(reply_topic(cluster)) is None:
                try:
                    await routes.queues_to_write(reply_topic(cluster), deadline.left_s())
                except (NotFoundError, RefusedError):
                    continue  # of a cluster without such a topic: the brokers of the request's topic are known
        await self._instance.announce()

    def _prepare(self, message: Message) -> Outgoing:
        self._check(message)
        return prepare(message, self._instance.ids, self._compress, self._compress_above_bytes)

    def _check(self, message: Message) -> None:
        check_topic(message.topic)
        message.check(self._delay_level_max)
        size = len(message.body)
        if size == 0:
            raise UsageError("the message's body is empty: brokers refuse that, send at least one byte")
        if size > self._body_size_max_bytes:
            raise UsageError(
                f"the message's body has {size} bytes, the limit is {self._body_size_max_bytes}: split it, or raise "
                "body_size_max_bytes here and maxMessageSize at the broker"
            )

    async def _select(self, selector: Selector | None, message: Message, timeout_s: float | None) -> MessageQueue:
        assert selector is not None
        queues = await self._instance.routes.queues_to_write(message.topic, timeout_s)
        return selector(queues, message)

    async def _send_anywhere(
        self, outgoing: Outgoing, deadline: Deadline, first: MessageQueue | None = None
    ) -> SendResult:
        """Tries different brokers, ``first`` first, until one accepts it, or the attempts or the time are used up."""
        last_broker: str | None = None
        for attempts_left in range(self.retry_count, -1, -1):
            queues = await self._instance.routes.queues_to_write(outgoing.topic, deadline.left_s())
            queue = first or self._picker.pick(outgoing.topic, queues, last_broker)
            first = None
            try:
                return await self._attempt(outgoing, queue, deadline)
            except (RefusedError, UnreachableError) as error:
                if attempts_left == 0 or deadline.is_over or not _may_retry(error):
                    raise
                last_broker = queue.broker_name
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, outgoing: Outgoing, queue: MessageQueue, deadline: Deadline) -> SendResult:
        instance = self._instance
        begun_ms = self._clock.now_ms()
        command = outgoing.command(self.group, queue, begun_ms)
        address = ""
        try:
            address = await instance.routes.write_address(queue, deadline.left_s())
            answer = await instance.remoting.invoke(address, command, deadline.left_s())
            result = send_result(answer, outgoing, queue, address)
        except (RefusedError, UnreachableError) as error:
            if _may_retry(error):
                self._broker_failed(queue)
            if self._tracer is not None:
                self._tracer.sent(outgoing, None, address, begun_ms, self._clock.now_ms() - begun_ms)
            raise
        self._health.succeeded(queue.broker_name)
        if self._tracer is not None:
            self._tracer.sent(outgoing, result, address, begun_ms, self._clock.now_ms() - begun_ms)
        return result

    def _broker_failed(self, queue: MessageQueue) -> None:
        """Avoids the broker for a while and renews the topic's route."""
        self._health.failed(queue.broker_name)
        self._instance.renew_route(queue.topic)


class Deadline:
    """The end of the time that a caller gave: everything that a send waits for ends by then."""

    __slots__ = ("_at_ms", "_clock")

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self._at_ms = clock.monotonic_ms() + timeout_s * 1000

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic_ms() >= self._at_ms

    def left_s(self) -> float:
        """Returns the seconds until then, at least 0."""
        return max(self._at_ms - self._clock.monotonic_ms(), 0) / 1000


def _may_retry(error: RefusedError | UnreachableError) -> bool:
    if isinstance(error, RefusedError):
        return error.code in RETRY_CODES
    return not isinstance(error, ClosedError)
