"""Sends messages in transactions: a half message first, then the local transaction, then its commit or rollback.

Java: TransactionMQProducer.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, Unpack

from pymq.client.options import ProducerOptions
from pymq.client.outgoing import Outgoing
from pymq.client.producer import SEND_TIMEOUT_S, Producer
from pymq.client.sender import Deadline
from pymq.errors import PymqError, RefusedError, RequestTimeoutError, UsageError
from pymq.model import properties as names
from pymq.model import sysflag
from pymq.model.message import Message, SendResult, SendStatus
from pymq.model.names import check_topic
from pymq.model.properties import encode_properties
from pymq.model.record import MalformedRecordError, StoredMessage, decode_record
from pymq.model.transactions import COMMIT, ROLLBACK, UNKNOWN
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

END_TIMEOUT_S = 3.0
CHECKS_MAX = 1000  # checks under way; the broker asks again about those beyond
THREAD_COUNT_MAX = 8  # of a listener's plain functions
IMMUNITY_S_MAX = 30 * 24 * 3600


class TransactionState(Enum):
    """What a listener knows of its local transaction."""

    COMMIT = COMMIT
    ROLLBACK = ROLLBACK
    UNKNOWN = UNKNOWN


# The names of Java's LocalTransactionState, as traces have them.
_TRACED = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}
StateOrLater = TransactionState | Awaitable[TransactionState]


class TransactionListener(Protocol):
    """The application's side of transactions. Plain functions run in threads, coroutines on the loop.

    An exception, or anything but a :class:`TransactionState`, counts as UNKNOWN: the broker asks later.
    """

    def execute(self, message: Message, arg: Any) -> StateOrLater:
        """Run the local transaction, after the half message is stored; ``arg`` is the sender's."""
        ...

    def check(self, message: StoredMessage) -> StateOrLater:
        """Say how the local transaction of ``message.message_id`` ended. Any member of the group may be asked."""
        ...


@dataclass(slots=True, frozen=True)
class TransactionResult:
    """``sent``: the half message's place; ``state``: the state that its broker got.

    ``is_confirmed``: the broker answered the commit or rollback. Without that it asks later. ``error``: what the
    listener raised.
    """

    sent: SendResult
    state: TransactionState
    is_confirmed: bool
    error: Exception | None = None

    @property
    def message_id(self) -> str:
        """The message's unique key, which is the transaction's id."""
        return self.sent.message_id


class TransactionProducer(Producer):
    """A producer of transactions, with the arguments of Producer. It must be started: brokers ask it.

    ``check_after_s``: seconds before a broker's first check, for local transactions that take longer than the broker's
    transactionTimeOut; None: that. Raises UsageError when it is not 1 to 30 days.
    """

    def __init__(
        self,
        group: str,
        *,
        listener: TransactionListener,
        namesrv: str | Sequence[str] | None = None,
        check_after_s: int | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, namesrv=namesrv, **options)
        if check_after_s is not None and not 1 <= check_after_s <= IMMUNITY_S_MAX:
            raise UsageError(
                f"check_after_s is {check_after_s}: use 1 to {IMMUNITY_S_MAX} seconds, None for no own time"
            )
        self._listener = listener
        self._threads: ThreadPoolExecutor | None = None
        self._checking: set[str] = set()  # ids of transactions
        added = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: group}
        if check_after_s is not None:
            added[names.CHECK_IMMUNITY_SECONDS] = str(check_after_s)
        self._added = encode_properties(added).decode()
        self._instance.remoting.on_request = self._on_request

    async def stop(self) -> None:
        """As Producer's; calls of the listener that wait for a thread are dropped."""
        await super().stop()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def send_in_transaction(
        self, message: Message, arg: Any = None, *, timeout_s: float = SEND_TIMEOUT_S
    ) -> TransactionResult:
        """Store the half message, have the listener execute the local transaction, and end it as that says.

        A half message that is not stored as safely as asked is rolled back, and the listener is not called. Raises
        what :meth:`send` raises; UsageError for a delayed message, and before :meth:`start`.
        """
        if not self._instance.running:
            raise UsageError("a transaction needs a started producer, which brokers can ask about it: call start()")
        if message.delay_level:
            raise UsageError("a transactional message is not delayed: leave delay_level at 0")
        sent = await self._send_half(message, timeout_s)
        state, error = TransactionState.ROLLBACK, None
        if sent.status is SendStatus.SEND_OK:
            state, error = await self._ask(self._listener.execute, message, arg)
        else:
            log.warning("the half message %s is rolled back: %s", sent.message_id, sent.status.value)
        confirmed = state is not TransactionState.UNKNOWN and await self._end(sent, state)
        if self._tracer is not None and confirmed:
            address = await self._instance.routes.write_address(sent.queue)
            self._tracer.transaction_ended(message, sent.message_id, address, _TRACED[state], from_check=False)
        return TransactionResult(sent, state, confirmed, error)

    async def commit_copy(
        self,
        message: StoredMessage,
        topic: str,
        properties: Mapping[str, str],
        *,
        timeout_s: float = SEND_TIMEOUT_S,
    ) -> SendResult:
        """Send a stored message to ``topic`` in a transaction that is committed at once; otherwise as ``send_copy``.

        A topic that takes only transactional messages takes it. Raises RequestTimeoutError when the commit is not
        confirmed.
        """
        flags = message.sys_flag & (sysflag.COMPRESSED | sysflag.COMPRESSION_MASK) | sysflag.TRANSACTION_PREPARED
        text = encode_properties(properties).decode("utf-8", "replace") + self._added
        outgoing = Outgoing(check_topic(topic), message.body, text, message.message_id, message.flag, flags, False)
        sent = await self._sender.anywhere(outgoing, Deadline(self._clock, timeout_s))
        if not await self._end(sent, TransactionState.COMMIT):
            raise RequestTimeoutError(
                f"the broker did not confirm the commit of {message.message_id}: look for it first"
            )
        return sent

    async def _send_half(self, message: Message, timeout_s: float) -> SendResult:
        if self._telemetry is None:
            return await self._sender.anywhere(self._half(message), Deadline(self._clock, timeout_s))
        with self._telemetry.sending(message, self.client_id, "transaction") as sending:
            half = self._half(sending.message)
            return sending.done(await self._sender.anywhere(half, Deadline(self._clock, timeout_s)))

    def _half(self, message: Message) -> Outgoing:
        outgoing = self._preparer.outgoing(message)
        outgoing.properties += self._added
        outgoing.sys_flag |= sysflag.TRANSACTION_PREPARED
        return outgoing

    async def _ask(
        self, function: Callable[..., StateOrLater], *args: Any
    ) -> tuple[TransactionState, Exception | None]:
        """Return the listener's answer, and the error that it raised."""
        try:
            if inspect.iscoroutinefunction(function):
                state: Any = await function(*args)
            else:
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(THREAD_COUNT_MAX, "pymq-transaction")
                state = await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)
                if inspect.isawaitable(state):
                    state = await state
        except Exception as error:
            log.exception("the transaction listener failed: the broker asks again later")
            return TransactionState.UNKNOWN, error
        if isinstance(state, TransactionState):
            return state, None
        log.error("the transaction listener returned %.200r: return a TransactionState; it counts as UNKNOWN", state)
        return TransactionState.UNKNOWN, None

    async def _end(self, sent: SendResult, state: TransactionState) -> bool:
        """Tell the broker; return False when that failed. It asks later, unless it refused the end."""
        header = EndTransactionHeader(
            producer_group=self.group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=int(sent.offset_message_id[-16:], 16),
            commit_or_rollback=state.value,
            msg_id=sent.message_id,
            transaction_id=sent.message_id,
            topic=sent.queue.topic,
        )
        try:
            address = await self._instance.routes.write_address(sent.queue)
            await self._instance.remoting.invoke_ok(
                address, request(RequestCode.END_TRANSACTION, header), END_TIMEOUT_S
            )
        except RefusedError as error:
            log.warning("the broker refused the end of transaction %s: %s", sent.message_id, error)
            return False
        except PymqError as error:
            log.warning(
                "the broker did not confirm the end of transaction %s, it asks later: %s", sent.message_id, error
            )
            return False
        return True

    # -- what brokers ask ------------------------------------------------------------------------------------------

    def _on_request(self, command: Command, address: str) -> Reply | Awaitable[Reply | None] | None:
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return self._requests.handle(command, address)
        header = decode_header(CheckTransactionHeader, command.ext)
        try:
            message = decode_record(command.body)
        except MalformedRecordError as error:
            log.warning("%s asks about a transaction whose message can't be read: %s", address, error)
            return None
        transaction_id = header.transaction_id or header.msg_id or message.message_id
        if message.properties.get(names.PRODUCER_GROUP) != self.group:
            log.warning("%s asks about the transaction %s of another group: ignored", address, transaction_id)
        elif transaction_id not in self._checking and len(self._checking) < CHECKS_MAX:
            message.broker_name = header.broker_name or ""
            self._checking.add(transaction_id)
            self._instance.spawn(self._check_back(header, message, transaction_id, address))
        return None

    async def _check_back(
        self, header: CheckTransactionHeader, message: StoredMessage, transaction_id: str, address: str
    ) -> None:
        try:
            state, _ = await self._ask(self._listener.check, message)
            answer = EndTransactionHeader(
                producer_group=self.group,
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=state.value,
                from_transaction_check=True,
                msg_id=transaction_id,
                transaction_id=transaction_id,
                topic=message.topic,
            )
            await self._instance.remoting.oneway(address, request(RequestCode.END_TRANSACTION, answer, oneway=True))
            if self._tracer is not None:
                self._tracer.transaction_ended(message, transaction_id, address, _TRACED[state], from_check=True)
        except PymqError as error:
            log.warning("%s did not get the state of transaction %s, it asks again: %s", address, transaction_id, error)
        finally:
            self._checking.discard(transaction_id)
