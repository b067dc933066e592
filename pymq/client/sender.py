"""Sender: brings a request to a broker within its time: chooses the broker, repeats what failed, avoids slow ones."""

from __future__ import annotations

import asyncio

from pymq.client.instance import ClientInstance
from pymq.client.outgoing import Outgoing, send_result, wait_property
from pymq.client.parcel import Parcel
from pymq.client.preparing import with_id
from pymq.client.queue_picker import BrokerHealth, QueuePicker
from pymq.client.send_frames import SendFrames
from pymq.client.tracing import Tracer
from pymq.clock import Clock
from pymq.errors import ClosedError, NoQueueError, PymqError, RefusedError, RequestTimeoutError, UnreachableError
from pymq.model.message import Message, MessageQueue, SendResult
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command

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
# Before a queue, or brokers that may elect a master, get the same request again; doubles with each attempt.
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 0.2


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
        """Return the seconds until then, at least 0."""
        return max(self._at_ms - self._clock.monotonic_ms(), 0) / 1000


class _Pauses:
    """The pauses of one send between its attempts."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._next_s = PAUSE_FIRST_S

    async def next(self) -> bool:
        """Wait for the next pause; return False at once when less time is left."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, PAUSE_MAX_S)
        if self._deadline.left_s() <= pause_s:
            return False
        await asyncio.sleep(pause_s)
        return True


class Sender:
    """Sends the requests of one producer."""

    def __init__(
        self, instance: ClientInstance, group: str, retry_count: int, tracer: Tracer | None, *, avoids_slow: bool
    ) -> None:
        self._instance = instance
        self._clock = instance.clock
        self._group = group
        self._retry_count = retry_count
        self._tracer = tracer
        self._avoids_slow = avoids_slow
        self.health = BrokerHealth(self._clock)
        self.picker = QueuePicker(self.health, instance.rng)
        self._frames = SendFrames(group, instance.remoting.language, instance.remoting.version)
        # Neither for traced sends nor for signed ones, whose header differs with each body.
        self._has_short_way = tracer is None and instance.remoting.sign is None

    async def plain(self, message: Message, start: bytes, timeout_s: float) -> SendResult:
        """Send a plain message, prepared up to its id: a first attempt by the shortest way, then :meth:`anywhere`."""
        instance = self._instance
        begun_ms = self._clock.monotonic_ms()
        message_id = instance.ids.next_id()
        attempt, failed_broker = 0, None
        queues = instance.routes.known_queues(message.topic)
        if queues is not None and self._has_short_way:
            queue = self.picker.pick(message.topic, queues)
            answering = self._begin_plain(message, start, message_id, queue, timeout_s)
            if answering is not None:
                try:
                    result = send_result(await answering[0], message_id, queue, answering[1])
                    took_ms = self._clock.monotonic_ms() - begun_ms
                    self.health.succeeded(queue.broker_name, took_ms if self._avoids_slow else 0)
                    return result
                except (RefusedError, UnreachableError) as error:
                    self._failed(queue, error)
                    attempt, failed_broker = 1, queue.broker_name
                    is_over = self._clock.monotonic_ms() - begun_ms >= timeout_s * 1000
                    if is_over or not self._retry_count or not may_retry(error):
                        raise
        text = with_id(start, message_id).decode() + wait_property(message.wait_store)
        outgoing = Outgoing(message.topic, message.body, text, message_id, message.flag, 0, False)
        outgoing.attempt = attempt
        left_s = timeout_s - (self._clock.monotonic_ms() - begun_ms) / 1000
        return await self.anywhere(outgoing, Deadline(self._clock, left_s), avoid=failed_broker)

    def _begin_plain(
        self, message: Message, start: bytes, message_id: str, queue: MessageQueue, timeout_s: float
    ) -> tuple[asyncio.Future[Command], str] | None:
        """Write a plain message. Returns the future of the answer and the broker's address, None if it must wait."""
        remoting, address = self._instance.remoting, self._instance.routes.known_address(queue)
        if address is None or not remoting.is_ready(address):
            return None
        opaque = remoting.next_opaque()
        frame = self._frames.frame(
            queue, start, message.wait_store, message_id, message.body, message.flag, self._clock.now_ms(), opaque
        )
        if frame is None:
            return None
        future = remoting.call_frame(address, frame, opaque, RequestCode.SEND_MESSAGE_V2, timeout_s)
        return None if future is None else (future, address)

    async def anywhere(
        self,
        outgoing: Outgoing,
        deadline: Deadline,
        first: MessageQueue | None = None,
        avoid: str | None = None,
    ) -> SendResult:
        """Try different brokers until one accepts it, or the attempts or the time are used up.

        Attempts are not counted, but come after pauses, while no broker has a master and replicas may elect one.
        ``first`` is the first queue; ``avoid`` the broker of an attempt before.
        """
        pauses = _Pauses(deadline)
        # Of the time since the last pause: how many attempts failed, and at which brokers.
        failure_count, failed = outgoing.attempt, set() if avoid is None else {avoid}
        without_master: NoQueueError | None = None
        while True:
            try:
                queue = first or self._pick_known(outgoing.topic, avoid)
                if queue is None:
                    queue = await self._pick(outgoing.topic, deadline, avoid)
            except NoQueueError as error:
                if not self._retry_count or not self._instance.routes.awaits_master(outgoing.topic):
                    raise
                if not await pauses.next():
                    raise
                without_master = error
                continue
            except RequestTimeoutError:
                if without_master is None:
                    raise
                raise without_master from None  # the time ended in the midst of another look: this is the reason
            first = None
            try:
                return await self.attempt(outgoing, queue, deadline)
            except (RefusedError, UnreachableError) as error:
                if not self._retry_count or deadline.is_over or not may_retry(error):
                    raise
                avoid = queue.broker_name
                failed.add(avoid)
                failure_count += 1
                if self._may_elect(queue, error) and self._are_all(failed, outgoing.topic):
                    if not await pauses.next():
                        raise
                    failure_count, failed = 0, set()
                elif failure_count > self._retry_count:
                    raise
                outgoing.attempt += 1

    def _pick_known(self, topic: str, avoid: str | None) -> MessageQueue | None:
        """Pick a queue; return None when a name server must be asked for them."""
        queues = self._instance.routes.known_queues(topic)
        return None if queues is None else self.picker.pick(topic, queues, avoid)

    async def _pick(self, topic: str, deadline: Deadline, avoid: str | None) -> MessageQueue:
        queues = await self._instance.routes.queues_to_write(topic, deadline.left_s())
        return self.picker.pick(topic, queues, avoid)

    def _may_elect(self, queue: MessageQueue, error: RefusedError | UnreachableError) -> bool:
        """Return whether the queue's broker has no master for now, and replicas of which one may become it."""
        if isinstance(error, RefusedError) and error.code != ResponseCode.SERVICE_NOT_AVAILABLE:
            return False
        return self._instance.routes.has_replicas(queue.broker_name)

    def _are_all(self, broker_names: set[str], topic: str) -> bool:
        """Return whether no other broker is known to have a queue to write to."""
        queues = self._instance.routes.known_queues(topic) or ()
        return all(queue.broker_name in broker_names for queue in queues)

    async def at_queue(self, outgoing: Outgoing, queue: MessageQueue, deadline: Deadline) -> SendResult:
        """Send to ``queue``, and to no other: repeats there after a pause what may succeed later."""
        pauses = _Pauses(deadline)
        while True:
            try:
                return await self.attempt(outgoing, queue, deadline)
            except (RefusedError, UnreachableError) as error:
                if not self._retry_count or not may_retry(error):
                    raise
                if outgoing.attempt >= self._retry_count and not self._may_elect(queue, error):
                    raise
                if not await pauses.next():
                    raise
                outgoing.attempt += 1

    async def attempt(self, outgoing: Outgoing, queue: MessageQueue, deadline: Deadline) -> SendResult:
        """Send once, to ``queue``. Raises RefusedError, UnreachableError."""
        instance = self._instance
        begun_ms, born_ms = self._clock.monotonic_ms(), outgoing.born_ms or self._clock.now_ms()
        address = ""
        result: SendResult | None = None
        try:
            answering = self._begin(outgoing, queue, born_ms, deadline)
            if answering is not None:
                address = answering[1]
                answer = await answering[0]
            else:
                command = outgoing.command(self._group, queue, born_ms)
                address = await instance.routes.write_address(queue, deadline.left_s())
                answer = await instance.remoting.invoke(address, command, deadline.left_s())
            result = send_result(answer, outgoing.message_id, queue, address)
            return result
        except (RefusedError, UnreachableError) as error:
            self._failed(queue, error)
            raise
        finally:
            took_ms = self._clock.monotonic_ms() - begun_ms
            if result is not None:
                self.health.succeeded(queue.broker_name, took_ms if self._avoids_slow else 0)
            if self._tracer is not None:
                self._tracer.sent(outgoing, result, address, born_ms, took_ms)

    def _begin(
        self, outgoing: Outgoing, queue: MessageQueue, born_ms: int, deadline: Deadline
    ) -> tuple[asyncio.Future[Command], str] | None:
        """Write a request. Returns as :meth:`_begin_plain`."""
        remoting, address = self._instance.remoting, self._instance.routes.known_address(queue)
        if address is None or remoting.sign is not None or not remoting.is_ready(address):
            return None
        opaque = remoting.next_opaque()
        frame = self._frames.frame_of(outgoing, queue, born_ms, opaque)
        future = remoting.call_frame(address, frame, opaque, outgoing.code, deadline.left_s())
        return None if future is None else (future, address)

    def _failed(self, queue: MessageQueue, error: RefusedError | UnreachableError) -> None:
        """Avoid the broker for a while and renew the topic's route, if another attempt may succeed."""
        if may_retry(error):
            self.health.failed(queue.broker_name)
            self._instance.renew_route(queue.topic)

    async def deliver(self, parcel: Parcel, queue: MessageQueue | None, is_ordered: bool) -> None:
        """Send a parcel and give its messages their results. Never raises anything but a cancellation."""
        try:
            parcel.succeed(await self._send(parcel, queue, is_ordered))
        except RefusedError as error:
            if error.code == ResponseCode.MESSAGE_ILLEGAL and len(parcel.items) > 1:
                await self._one_by_one(parcel, queue, is_ordered)
            else:
                parcel.fail(error)
        except asyncio.CancelledError:
            parcel.fail(ClosedError("the message is not confirmed: the producer was stopped"))
            raise
        except Exception as error:
            parcel.fail(error)

    async def _send(self, parcel: Parcel, queue: MessageQueue | None, is_ordered: bool) -> SendResult:
        deadline = Deadline(self._clock, (max(parcel.deadlines_ms) - self._clock.monotonic_ms()) / 1000)
        outgoing = parcel.outgoing(self._instance.ids)
        if queue is None:
            return await self.anywhere(outgoing, deadline)
        if is_ordered:
            return await self.at_queue(outgoing, queue, deadline)
        return await self.attempt(outgoing, queue, deadline)

    async def _one_by_one(self, parcel: Parcel, queue: MessageQueue | None, is_ordered: bool) -> None:
        """Send the messages of a batch that a broker refused for its content: only the bad one fails."""
        for single in parcel.singles():
            try:
                single.succeed(await self._send(single, queue, is_ordered))
            except asyncio.CancelledError:
                parcel.fail(ClosedError("the message is not confirmed: the producer was stopped"))
                raise
            except PymqError as error:
                single.fail(error)


def may_retry(error: RefusedError | UnreachableError) -> bool:
    """Return whether a later attempt, or one at another broker, may succeed."""
    if isinstance(error, RefusedError):
        return error.code in RETRY_CODES
    return not isinstance(error, ClosedError)
