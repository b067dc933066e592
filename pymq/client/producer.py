"""Sends messages: picks the queue, retries on another broker, compresses large bodies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

from pymq.client.answers import read_answer
from pymq.client.group_client import GroupClient
from pymq.client.in_flight import BYTES_MAX, COUNT_MAX, WAIT, InFlight
from pymq.client.instance import ROUTE_POLL_INTERVAL_S, ClientInstance, ClusterAccess, Membership
from pymq.client.lanes import Lanes
from pymq.client.options import Selector
from pymq.client.outgoing import BODY_SIZE_MAX_BYTES, Outgoing, prepare_batch
from pymq.client.parcel import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from pymq.client.preparing import ID_SIZE_BYTES, Prepared, Preparer
from pymq.client.queue_picker import queue_of_key, queue_of_lite_topic
from pymq.client.requests import REQUEST_TIMEOUT_S, OpenRequests, no_reply, reply_message, request_message
from pymq.client.sender import Deadline, Sender
from pymq.client.telemetry import Telemetry, TracedMessage
from pymq.client.tls import Tls
from pymq.client.tracing import Tracer
from pymq.clock import Clock, SystemClock
from pymq.errors import NotFoundError, RefusedError, UsageError
from pymq.model import sysflag
from pymq.model.layout import BATCH_ENTRY_OVERHEAD_BYTES
from pymq.model.message import DELAY_LEVEL_MAX, Message, MessageQueue, SendResult
from pymq.model.names import check_topic, reply_topic
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage
from pymq.model.timers import decode_handle
from pymq.security.credentials import Credentials
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request as command_of
from pymq.wire.headers.send import RecallMessageAnswer, RecallMessageHeader

COMPRESS_ABOVE_BYTES = 4096
SEND_TIMEOUT_S = 3.0
RETRY_COUNT = 2
_ENTRY_SIZE_BYTES = BATCH_ENTRY_OVERHEAD_BYTES + ID_SIZE_BYTES  # of a batch, without body and other properties


class Producer(GroupClient):
    """A producer of one group. Use it with ``async with``, or :meth:`start` and :meth:`stop`.

    ``namesrv``: addresses separated by ``;``; without them NAMESRV_ADDR from the environment, else 127.0.0.1:9876.
    ``compress``: zlib, lz4, zstd (the last two need 5.x consumers).
    ``delay_level_max``: the number of levels in the brokers' ``messageDelayLevel``, if they have more than the default.
    ``trace``: write traces of all sends, for ``pymq message trace``. ``telemetry``: OpenTelemetry's spans of sends.
    ``linger_ms``: collect messages so long, and send them in batches of up to ``batch_bytes_max`` and
    ``batch_count_max``; 0 collects what one turn of the event loop sends; None sends each message alone.
    ``in_flight_count_max``, ``in_flight_bytes_max``: sends beyond wait for room; with ``when_full="refuse"`` they raise
    OverloadedError. ``avoid_slow_brokers``: choose others for a while when a broker takes 0.55 s or more to answer.
    ``credentials``: sign all requests, for clusters that know users.
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
        linger_ms: float | None = None,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        batch_count_max: int = BATCH_MESSAGES_MAX,
        in_flight_count_max: int = COUNT_MAX,
        in_flight_bytes_max: int = BYTES_MAX,
        when_full: str = WAIT,
        avoid_slow_brokers: bool = True,
        trace: bool = False,
        telemetry: Telemetry | None = None,
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
        instance_name: str | None = None,
        tls: Tls | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._requests = OpenRequests(clock)
        instance = ClientInstance(
            ClusterAccess(namesrv, credentials, tls),
            Membership(producer_group=group, on_request=self._requests.handle),
            clock=clock,
            rng=rng,
            instance_name=instance_name,
            poll_interval_s=poll_interval_s,
        )
        super().__init__(group, instance)
        self._body_size_max_bytes = body_size_max_bytes
        self._preparer = Preparer(instance, compress, compress_above_bytes, body_size_max_bytes, delay_level_max)
        self._clock = self._instance.clock
        self._tracer = Tracer(self._instance, group, "PRODUCE") if trace else None
        self._telemetry = telemetry
        self._sender = Sender(self._instance, group, retry_count, self._tracer, avoids_slow=avoid_slow_brokers)
        self._room = InFlight(in_flight_count_max, in_flight_bytes_max, when_full)
        self._lanes = Lanes(
            self._clock,
            self._room,
            self._sender.deliver,
            linger_ms=linger_ms,
            batch_bytes_max=min(batch_bytes_max, body_size_max_bytes),
            batch_count_max=batch_count_max,
        )
        self._in_order = asyncio.Lock()  # of sends with a key that wait for a route or for room
        self._in_order_count = 0

    async def start(self) -> None:
        """Start background jobs. The first send opens the first connection. Raises ClosedError after a stop."""
        if not self._instance.running:
            await super().start()
            if self._tracer is not None:
                self._tracer.start()

    async def stop(self) -> None:
        """Send what lingers and wait for all enqueued messages, leave the group and close all connections.

        Other sends and requests that are under way fail with UnreachableError.
        """
        if not self.inherited:
            self._requests.end()
            await self._lanes.flush()
            self._lanes.end()
            if self._tracer is not None and self._instance.running:
                await self._tracer.stop()
        await super().stop()

    async def flush(self) -> None:
        """Send what lingers, and return when all messages enqueued so far have their result or their error."""
        await self._lanes.flush()

    @property
    def made_topics(self) -> frozenset[str]:
        """Topics that did not exist before this producer's first send to them: brokers made them, if they took it."""
        return frozenset(self._instance.routes.made_topics)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of ``topic``. Raises NotFoundError, UnreachableError."""
        return list(await self._instance.routes.queues_to_write(check_topic(topic)))

    async def send(
        self,
        message: Message,
        *,
        timeout_s: float = SEND_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        ordering_key: str | None = None,
    ) -> SendResult:
        """Send and wait until the broker has stored the message.

        A failed attempt is repeated on another broker within ``timeout_s``. Messages with the same ``ordering_key``, or
        of the same lite topic, go to the same queue, in the order of the calls, and are repeated there. With ``queue``
        or ``selector`` the caller chose the queue, and a failure is not repeated. Raises UsageError (the message can't
        be sent as it is), NotFoundError (no such topic), RefusedError, UnreachableError, RequestTimeoutError,
        OverloadedError.
        """
        if self._telemetry is not None and _is_untraced(message):
            with self._telemetry.sending(message, self.client_id, ordering_key=ordering_key) as sending:
                return sending.done(
                    await self.send(
                        sending.message, timeout_s=timeout_s, queue=queue, selector=selector, ordering_key=ordering_key
                    )
                )
        if ordering_key is not None or self._lanes.linger_ms is not None or _is_lite(message):
            return await (
                await self.enqueue(
                    message, timeout_s=timeout_s, queue=queue, selector=selector, ordering_key=ordering_key
                )
            )
        prepared = self._preparer.prepare(message)
        body, properties, message_id, _, _ = prepared
        size_bytes = len(body)
        if not self._room.try_take(size_bytes):
            begun_ms = self._clock.monotonic_ms()
            await self._room.take(size_bytes, timeout_s)
            timeout_s = self._left_s(begun_ms + timeout_s * 1000)
        try:
            if queue is None and selector is None:
                if not message_id:
                    return await self._sender.plain(message, properties, timeout_s)
                return await self._sender.anywhere(
                    self._preparer.request(message, prepared), Deadline(self._clock, timeout_s)
                )
            deadline = Deadline(self._clock, timeout_s)
            chosen = queue or await self._select(selector, message, timeout_s)
            return await self._sender.attempt(self._preparer.request(message, prepared), chosen, deadline)
        finally:
            self._room.give(1, size_bytes)

    async def enqueue(
        self,
        message: Message,
        *,
        timeout_s: float = SEND_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        ordering_key: str | None = None,
    ) -> asyncio.Future[SendResult]:
        """Accept a message, waiting only for room, and return the future of what :meth:`send` returns or raises.

        Raises UsageError, OverloadedError; RequestTimeoutError when there is no room in time; with a key or selector
        what the look-up of the topic raises.
        """
        if self._telemetry is not None and _is_untraced(message):
            sending = self._telemetry.sending(message, self.client_id, ordering_key=ordering_key)
            try:
                future = await self.enqueue(
                    sending.message, timeout_s=timeout_s, queue=queue, selector=selector, ordering_key=ordering_key
                )
            except BaseException as error:
                sending.end(error)
                raise
            future.add_done_callback(sending.settle)
            return future
        end_ms = self._clock.monotonic_ms() + timeout_s * 1000
        prepared = self._preparer.prepare(message, ordering_key)
        size_bytes = _ENTRY_SIZE_BYTES + len(prepared[0]) + len(prepared[1])
        has_choice = queue is not None or selector is not None
        if ordering_key is not None and has_choice:
            raise UsageError("ordering_key chooses the queue: leave queue and selector out")
        if ordering_key is not None or (message.lite_topic and not has_choice):
            future = await self._enqueue_in_order(message, prepared, size_bytes, ordering_key, end_ms)
        else:
            if selector is not None:
                queue = await self._select(selector, message, timeout_s)
            if not self._room.try_take(size_bytes):
                await self._room.take(size_bytes, self._left_s(end_ms))
            future = self._lanes.put(message, prepared, size_bytes, queue, end_ms)
        if self._lanes.has_sent:
            self._lanes.has_sent = False
            await asyncio.sleep(0)
        return future

    async def _enqueue_in_order(
        self, message: Message, prepared: Prepared, size_bytes: int, ordering_key: str | None, end_ms: float
    ) -> asyncio.Future[SendResult]:
        """Accept a message behind all earlier ones with a key, or of its lite topic."""
        queues = self._instance.routes.known_queues(message.topic)
        if queues is not None and not self._in_order_count and self._room.try_take(size_bytes):
            queue = _queue_in_order(queues, message, ordering_key)
            return self._lanes.put(message, prepared, size_bytes, queue, end_ms, is_ordered=True)
        self._in_order_count += 1
        try:
            async with self._in_order:
                queues = await self._instance.routes.queues_to_write(message.topic, self._left_s(end_ms))
                await self._room.take(size_bytes, self._left_s(end_ms))
                queue = _queue_in_order(queues, message, ordering_key)
                return self._lanes.put(message, prepared, size_bytes, queue, end_ms, is_ordered=True)
        finally:
            self._in_order_count -= 1

    def _left_s(self, end_ms: float) -> float:
        return max(end_ms - self._clock.monotonic_ms(), 0) / 1000

    def send_async(
        self,
        message: Message,
        *,
        timeout_s: float = SEND_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        ordering_key: str | None = None,
    ) -> asyncio.Task[SendResult]:
        """Start a task that does the same as :meth:`send`. Nothing limits the number of these tasks."""
        sending = self.send(message, timeout_s=timeout_s, queue=queue, selector=selector, ordering_key=ordering_key)
        return asyncio.get_running_loop().create_task(sending)

    async def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, selector: Selector | None = None
    ) -> None:
        """Send without waiting for an answer: failures in the broker go unnoticed. Raises for earlier failures."""
        if self._telemetry is not None and _is_untraced(message):
            with self._telemetry.sending(message, self.client_id) as sending:
                await self.send_oneway(sending.message, queue=queue, selector=selector)
            return
        outgoing = self._preparer.outgoing(message)
        chosen = queue
        if chosen is None and selector is not None:
            chosen = await self._select(selector, message, None)
        if chosen is None:
            queues = await self._instance.routes.queues_to_write(outgoing.topic)
            if message.lite_topic:
                chosen = queue_of_lite_topic(queues, message.lite_topic)
            else:
                chosen = self._sender.picker.pick(outgoing.topic, queues)
        address = await self._instance.routes.write_address(chosen)
        await self._instance.remoting.oneway(address, outgoing.command(self.group, chosen, self._clock.now_ms()))

    async def send_batch(
        self, messages: Sequence[Message], *, timeout_s: float = SEND_TIMEOUT_S, queue: MessageQueue | None = None
    ) -> SendResult:
        """Send messages of one topic in one request; all are stored in one queue with consecutive offsets, or none.

        Raises what :meth:`send` raises; UsageError also for mixed topics, delays, or a batch that is too large.
        """
        if self._telemetry is not None and messages and all(map(_is_untraced, messages)):
            with self._telemetry.sending_batch(messages, self.client_id) as sending:
                return sending.done(await self.send_batch(sending.messages, timeout_s=timeout_s, queue=queue))
        deadline = Deadline(self._clock, timeout_s)
        for message in messages:
            self._preparer.check(message)
        outgoing = prepare_batch(messages, self._instance.ids, self._body_size_max_bytes)
        if queue is not None:
            return await self._sender.attempt(outgoing, queue, deadline)
        return await self._sender.anywhere(outgoing, deadline)

    async def request(
        self,
        message: Message,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> StoredMessage:
        """Send ``message`` as a request and return the reply that a consumer sends back.

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
        """Send ``reply`` to the producer that waits in :meth:`request` for the answer to ``request``.

        ``reply`` is a body, or a message, whose topic does not count. Raises UsageError when ``request`` is no request,
        RefusedError with code 1 when its producer is gone or does not take the reply, and what :meth:`send` raises.
        """
        deadline = Deadline(self._clock, timeout_s)
        message = reply_message(request, reply)
        outgoing = self._preparer.outgoing(message)
        outgoing.code = RequestCode.SEND_REPLY_MESSAGE_V2
        queues = await self._instance.routes.queues_to_write(message.topic, deadline.left_s())
        # The requester is known to the broker that it sent the request to.
        first = [one for one in queues if one.broker_name == request.broker_name]
        return await self._sender.anywhere(outgoing, deadline, self._sender.picker.pick(message.topic, first or queues))

    async def send_copy(
        self,
        message: StoredMessage,
        topic: str,
        properties: Mapping[str, str],
        *,
        timeout_s: float = SEND_TIMEOUT_S,
    ) -> SendResult:
        """Send a stored message to ``topic`` as it is stored, with these properties instead of its own.

        It keeps its message id, and its body stays compressed. RocketMQ's own property names are allowed: this is for
        tools that move messages. Raises what :meth:`send` raises.
        """
        sys_flag = message.sys_flag & (sysflag.COMPRESSED | sysflag.COMPRESSION_MASK)
        encoded = encode_properties(properties).decode("utf-8", "replace")
        outgoing = Outgoing(
            check_topic(topic), message.body, encoded, message.message_id, message.flag, sys_flag, False
        )
        return await self._sender.anywhere(outgoing, Deadline(self._clock, timeout_s))

    async def recall(self, topic: str, recall_handle: str, *, timeout_s: float = SEND_TIMEOUT_S) -> str:
        """Take back a timer message that is not due yet. Returns its message id.

        ``recall_handle`` is that of the :class:`~pymq.model.message.SendResult`. Raises UsageError for a text that is
        no handle, RefusedError when the message is due, delivered or unknown there (604) or recalls are switched off
        (16), NotFoundError, UnreachableError, RequestTimeoutError.
        """
        try:
            handle = decode_handle(recall_handle)
        except ValueError as error:
            raise UsageError(str(error)) from error
        begun_ms, succeeded = self._clock.now_ms(), False
        try:
            message_id = await self._recall(topic, handle.broker_name, recall_handle, Deadline(self._clock, timeout_s))
            succeeded = True
        finally:
            if self._tracer is not None:
                self._tracer.recalled(topic, handle.unique_key, begun_ms, succeeded=succeeded)
        return message_id

    async def _recall(self, topic: str, broker_name: str, recall_handle: str, deadline: Deadline) -> str:
        await self._instance.routes.queues_to_write(check_topic(topic), deadline.left_s())
        queue = MessageQueue(topic, broker_name, 0)
        address = await self._instance.routes.write_address(queue, deadline.left_s())
        header = RecallMessageHeader(topic=topic, recall_handle=recall_handle, producer_group=self.group)
        command = command_of(RequestCode.RECALL_MESSAGE, header)
        answer = await self._instance.remoting.invoke(address, command, deadline.left_s())
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark, address)
        return read_answer(RecallMessageAnswer, answer, address).message_id

    async def _expect_replies(self, topic: str, deadline: Deadline) -> None:
        """Make this producer known to all brokers that may get the reply: the brokers of the cluster's reply topic."""
        routes = self._instance.routes
        await routes.queues_to_write(topic, deadline.left_s())
        for cluster in routes.clusters():
            if routes.cached(reply_topic(cluster)) is None:
                try:
                    await routes.queues_to_write(reply_topic(cluster), deadline.left_s())
                except (NotFoundError, RefusedError):
                    continue  # of a cluster without such a topic: the brokers of the request's topic are known
        await self._instance.announce()

    async def _select(self, selector: Selector | None, message: Message, timeout_s: float | None) -> MessageQueue:
        assert selector is not None
        queues = await self._instance.routes.queues_to_write(message.topic, timeout_s)
        return selector(queues, message)


def _is_lite(message: Message) -> bool:
    return isinstance(message, Message) and bool(message.lite_topic)


def _queue_in_order(queues: Sequence[MessageQueue], message: Message, ordering_key: str | None) -> MessageQueue:
    """Return the queue of all messages with this key, or of the message's lite topic without one."""
    return (
        queue_of_lite_topic(queues, message.lite_topic) if ordering_key is None else queue_of_key(queues, ordering_key)
    )


def _is_untraced(message: Message) -> bool:
    """Return whether a send begins a span: what is no message is refused, and a traced one is in its span already."""
    return isinstance(message, Message) and not isinstance(message, TracedMessage)
