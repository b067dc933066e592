"""What consumers ask for: ReceiveMessage, and what settles the messages that they got."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from pymq.client.subscription import Subscription, parse_subscription
from pymq.clock import Clock
from pymq.errors import ExpressionError, PymqError, RefusedError, UsageError
from pymq.model import sysflag
from pymq.model.pop import RECEIPT_OVER
from pymq.proxy.backend import Backend, Receive, Received
from pymq.proxy.bodies import given_body
from pymq.proxy.calls import Call, common_status, status_of, status_ok
from pymq.proxy.checks import (
    BATCH_SIZE_MAX,
    INVISIBLE_MS_MIN,
    check_client_id,
    check_group,
    check_invisible,
    check_topic,
    polling_ms,
)
from pymq.proxy.conversion import fill_message, timestamp_of
from pymq.proxy.drafts import duration_ms
from pymq.proxy.protocol.messages import (
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueResponse,
    ReceiveMessageResponse,
    Status,
)
from pymq.proxy.protocol.names import Code, FilterType, code_name
from pymq.proxy.receipts import (
    AUTO_RENEW_INVISIBLE_MS,
    Handle,
    Held,
    HeldMessages,
    check_in_time,
    decode_handle,
    encode_handle,
    prolonged,
)
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.sessions import Sessions
from pymq.proxy.settings import DEFAULT_REQUEST_TIMEOUT_MS, GroupRules
from pymq.proxy.waits import Waits

log = logging.getLogger(__name__)

KEPT_FACTOR = 2  # a found message is there as it came, and decoded
ACK_COUNT_MAX = 4096  # of a request
ACKS_PER_TURN = 64  # of the event loop, of each request with more than one receive gives
LARGE_ACKS_AT_ONCE = 4  # such requests; the others wait
GIVE_BACK_MS = 1000  # after which a message comes again that nobody took
_ONE_ACKED = AckMessageResponse(
    status=status_ok(), entries=[AckMessageResultEntry(status=status_ok())]
).SerializeToString()


class Receiving:
    """Receives for consumers, and settles what they got."""

    def __init__(self, backend: Backend, sessions: Sessions, held: HeldMessages, waits: Waits, clock: Clock) -> None:
        self._backend = backend
        self._sessions = sessions
        self._held = held
        self._waits = waits
        self._clock = clock
        self._large_acks = asyncio.Semaphore(LARGE_ACKS_AT_ONCE)
        self._tasks: set[asyncio.Task[Any]] = set()
        # Under way, by the group and the handle given out.
        self._renewals: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._unanswered: set[asyncio.Task[Any]] = set()  # wait for what receives asked for that are over

    async def receive_message(self, call: Call, request: Any) -> AsyncIterator[Any]:
        """Yield the status, the messages, and the time."""
        try:
            order, rules = await self._order(call, request)
            found = await self._wait(call.client_id, order, rules)
        except PymqError as error:
            yield ReceiveMessageResponse(status=status_of(error))
            yield ReceiveMessageResponse(delivery_timestamp=timestamp_of(self._clock.now_ms()))
            return
        given_count = 0
        call.keep(KEPT_FACTOR * sum([each.message.size_bytes for each in found]))
        try:
            yield ReceiveMessageResponse(status=status_ok() if found else no_message())
            is_renewed, language = request.auto_renew, call.language
            for stored, handle in found:
                if is_renewed:
                    self._held.hold(call.client_id, order.group, order.topic, handle, self._clock.now_ms())
                is_packed = stored.sys_flag & sysflag.COMPRESSED
                body = await given_body(stored.body, stored.sys_flag, language) if is_packed else None
                answer = ReceiveMessageResponse()
                fill_message(answer.message, stored, order.topic, encode_handle(handle), body)
                yield answer
                given_count += 1
            yield ReceiveMessageResponse(delivery_timestamp=timestamp_of(self._clock.now_ms()))
        finally:  # a client that left did not get the rest
            self._give_back_later(order, found[given_count:])

    async def _order(self, call: Call, request: Any) -> tuple[Receive, GroupRules]:
        check_client_id(call.client_id)
        session = self._sessions.touch(call.client_id, call.user, self._clock.monotonic_ms())
        if session is None and not self._sessions.strangers.knows(call.client_id, call.user):
            text = f"client {call.client_id} has sent no settings: open a Telemetry stream first"
            raise ProxyRefusal(Code.INTERNAL_SERVER_ERROR, text)
        timeout_ms = duration_ms(session.settings.request_timeout) if session is not None else 0
        asked_ms = duration_ms(request.long_polling_timeout) if request.HasField("long_polling_timeout") else None
        wait_ms = polling_ms(asked_ms, call.left_ms, timeout_ms or DEFAULT_REQUEST_TIMEOUT_MS, call.version)
        topic = check_topic(request.message_queue.topic.name)
        group = check_group(request.group.name)
        if request.auto_renew:
            invisible_ms = AUTO_RENEW_INVISIBLE_MS
        else:
            invisible_ms = check_invisible(duration_ms(request.invisible_duration), INVISIBLE_MS_MIN)
        subscription = subscription_of(topic, request.filter_expression)
        await self._backend.route(topic)
        rules = await self._backend.group_rules(group)
        order = Receive(
            topic,
            group,
            request.message_queue.broker.name,
            min(max(request.batch_size, 1), BATCH_SIZE_MAX),
            invisible_ms,
            wait_ms,
            subscription,
            rules.is_orderly,
            request.attempt_id or None,
            call.client_id if session is not None and session.is_lite else "",
        )
        return order, rules

    async def _wait(self, client_id: str, order: Receive, rules: GroupRules) -> list[Received]:
        """Return messages within the time. What comes after the client left goes back."""
        self._waits.check(client_id)
        end_ms = self._clock.monotonic_ms() + order.wait_ms
        while not self._waits.is_ending:
            asking = asyncio.ensure_future(self._backend.receive(order))
            wait = asyncio.shield(asking)
            try:
                async with self._waits.one(client_id, wait):
                    found = await wait
            except asyncio.CancelledError:
                late = self._spawn(self._give_back_found(order, asking))
                self._unanswered.add(late)
                late.add_done_callback(self._unanswered.discard)
                if self._waits.is_ending:
                    break
                raise
            wanted = []
            for each in found:
                if each.message.reconsume_times >= rules.attempts_max:
                    await self._to_dead_letters(order, each)
                else:
                    wanted.append(each)
            left_ms = int(end_ms - self._clock.monotonic_ms())
            if wanted or not found or left_ms <= 0:
                return wanted
            order = order._replace(wait_ms=left_ms)
        return []

    async def _to_dead_letters(self, order: Receive, each: Received) -> None:
        try:
            await self._backend.to_dead_letters(order.topic, order.group, each.handle, each.message.message_id)
        except PymqError as error:
            log.warning("%s stays out of the dead letters for now: %s", each.message.message_id, error)

    # -- what settles a message ------------------------------------------------------------------------------------

    async def ack_message(self, call: Call, request: Any) -> Any:
        """Acknowledge messages, each on its own."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        entries = request.entries
        if not entries:
            raise ProxyRefusal(Code.BAD_REQUEST, "the request names no message to acknowledge")
        if len(entries) == 1:
            return answer_to_ack(*await self._ack(topic, group, entries[0]))
        if len(entries) > ACK_COUNT_MAX:
            text = f"the request acknowledges {len(entries)} messages, the limit is {ACK_COUNT_MAX}: send several"
            raise ProxyRefusal(Code.BAD_REQUEST, text)
        if len(entries) <= BATCH_SIZE_MAX:
            return answer_to_acks([_entry(*await self._ack(topic, group, each)) for each in entries])
        answers = []
        async with self._large_acks:
            for number, each in enumerate(entries):
                if number % ACKS_PER_TURN == ACKS_PER_TURN - 1:
                    await asyncio.sleep(0)  # others have their turn, also when no entry waits for a broker
                answers.append(_entry(*await self._ack(topic, group, each)))
        return answer_to_acks(answers)

    async def _ack(self, topic: str, group: str, entry: Any) -> tuple[str, str, PymqError | None]:
        """Acknowledge a message. Return its id, its handle, and why it was not acknowledged, None when it was."""
        message_id, receipt_handle = entry.message_id, entry.receipt_handle
        try:
            if (group, receipt_handle) in self._renewals:
                await self._end_of_renewal(group, receipt_handle)
            handle = check_in_time(self._newest(group, receipt_handle), self._clock.now_ms())
            await self._backend.ack(topic, group, handle)
            self._held.release(group, receipt_handle)
        except PymqError as error:
            return message_id, receipt_handle, error
        return message_id, receipt_handle, None

    async def change_invisible_duration(self, call: Call, request: Any) -> Any:
        """Let a message come again later.

        As with RocketMQ, a handle within its time gets OK, also when it has nothing to change any more: the message is
        acknowledged, has a newer handle, or is another group's. Clients would try again and again after an error.
        """
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        invisible_ms = check_invisible(duration_ms(request.invisible_duration), 0)
        handle = check_in_time(await self._current(group, request.receipt_handle), self._clock.now_ms())
        try:
            renewed = await self._backend.change_invisible(topic, group, handle, invisible_ms)
        except RefusedError as error:
            if not error.remark.startswith(RECEIPT_OVER):
                raise
            renewed = prolonged(handle, self._clock.now_ms(), invisible_ms)
        self._held.release(group, request.receipt_handle)
        return ChangeInvisibleDurationResponse(status=status_ok(), receipt_handle=encode_handle(renewed))

    async def forward_message_to_dead_letter_queue(self, call: Call, request: Any) -> Any:
        """Give a message up: the one that the handle names, whatever place in the log a client has written into it."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        handle = await self._current(group, request.receipt_handle)
        held = self._held.find(group, request.receipt_handle)
        if held is None or held.topic != topic:  # this server did not give it out
            await self._backend.check_place(topic, group, handle)
        await self._backend.to_dead_letters(topic, group, handle, request.message_id)
        self._held.release(group, request.receipt_handle)
        return ForwardMessageToDeadLetterQueueResponse(status=status_ok())

    async def _current(self, group: str, text: str) -> Handle:
        """Return the newest handle for one that was given out, once no renewal is under way. Raises ProxyRefusal."""
        await self._end_of_renewal(group, text)
        return self._newest(group, text)

    async def _end_of_renewal(self, group: str, text: str) -> None:
        """Wait for a renewal that is under way: the broker forgets the handle before it."""
        renewal = self._renewals.get((group, text))
        if renewal is not None:
            await asyncio.wait([renewal])

    def _newest(self, group: str, text: str) -> Handle:
        """Return the newest handle for one that was given out. Raises ProxyRefusal."""
        held = self._held.find(group, text)
        return decode_handle(text) if held is None else held.current

    # -- renewal ---------------------------------------------------------------------------------------------------

    async def renew_due(self) -> None:
        """Renew the receipts that end soon, and give back what clients without settings hold that fell silent."""
        for client_id in self._sessions.strangers.silent(self._clock.monotonic_ms()):
            self.give_back_client(client_id)
        due = list(self._held.due(self._clock.now_ms()))
        for held in due:
            self._renewals[held.group, held.given] = self._spawn(self._renew(held))
        if due:
            await asyncio.wait([self._renewals[held.group, held.given] for held in due])

    async def _renew(self, held: Held) -> None:
        try:
            handle = await self._backend.change_invisible(held.topic, held.group, held.current, held.step_ms)
        except PymqError as error:
            self._held.not_renewed(held)
            log.info("the receipt of a message for group %s was not renewed: %s", held.group, error)
        else:
            if not self._held.renewed(held, handle):  # its client left meanwhile
                await self._give_back(held.topic, held.group, handle)
        finally:
            del self._renewals[held.group, held.given]

    def give_back_client(self, client_id: str) -> None:
        """Let come again what a client holds that has left. What is being renewed comes again after that."""
        for held in self._held.release_client(client_id):
            if (held.group, held.given) not in self._renewals:
                self._spawn(self._give_back(held.topic, held.group, held.current))

    async def _give_back_found(self, order: Receive, asking: asyncio.Future[list[Received]]) -> None:
        try:
            found = await asking
        except PymqError:
            return
        self._give_back_later(order, found)

    def _give_back_later(self, order: Receive, found: list[Received]) -> None:
        for each in found:
            self._held.release(order.group, encode_handle(each.handle))
            self._spawn(self._give_back(order.topic, order.group, each.handle))

    async def _give_back(self, topic: str, group: str, handle: Handle) -> None:
        try:
            await self._backend.change_invisible(topic, group, handle, GIVE_BACK_MS)
        except PymqError as error:
            log.info("a message for group %s comes again after its invisible time: %s", group, error)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Give back what came. Brokers forget what is still unanswered with the connection, which must end next."""
        for each in list(self._unanswered):
            each.cancel()
        await self.drain()

    async def drain(self) -> None:
        """Wait until all that goes back has gone."""
        while self._tasks:
            await asyncio.wait(self._tasks)


def _entry(message_id: str, receipt_handle: str, error: PymqError | None) -> Any:
    status = status_ok() if error is None else status_of(error)
    return AckMessageResultEntry(status=status, message_id=message_id, receipt_handle=receipt_handle)


def answer_to_acks(entries: list[Any]) -> Any:
    """Return the answer to a request to acknowledge messages, with the result of each.

    Its own text is the name of its code, as with RocketMQ's proxy 5.3.3: programs compare it. Entries say more.
    """
    code = common_status([entry.status for entry in entries]).code
    return AckMessageResponse(status=Status(code=code, message=code_name(code)), entries=entries)


def answer_to_ack(message_id: str, receipt_handle: str, error: PymqError | None) -> Any:
    """Return the answer for one message; for one that is acknowledged in a third of the time."""
    if error is not None:
        return answer_to_acks([_entry(message_id, receipt_handle, error)])
    answer = AckMessageResponse.FromString(_ONE_ACKED)
    entry = answer.entries[0]
    entry.message_id, entry.receipt_handle = message_id, receipt_handle
    return answer


def no_message() -> Any:
    """Return the status of a call that waited in vain."""
    return Status(code=Code.MESSAGE_NOT_FOUND, message="no message came in time")


def subscription_of(topic: str, expression: Any) -> Subscription:
    """Return what a request selects. Raises ProxyRefusal."""
    try:
        if expression.type == FilterType.SQL:
            return parse_subscription(topic, None, 0, sql=expression.expression)
        return parse_subscription(topic, expression.expression, 0)
    except ExpressionError as error:
        raise ProxyRefusal(Code.INTERNAL_SERVER_ERROR, str(error)) from error
    except UsageError as error:
        raise ProxyRefusal(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from error
