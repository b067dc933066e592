"""END_TRANSACTION (37) and RESUME_CHECK_HALF_MESSAGE (323). Java: EndTransactionProcessor, AdminBrokerProcessor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pymq.broker.runtime import Runtime
from pymq.broker.transactions.open_halves import Outcome
from pymq.errors import Refusal
from pymq.model import properties as props
from pymq.model.ids import decode_offset_id
from pymq.model.record import StoredMessage
from pymq.model.transactions import COMMIT, ROLLBACK, UNKNOWN, immunity_ms_of, target_of
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command, encode_command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.transactions.checks import TransactionChecks
    from pymq.broker.transactions.transactions import Transactions
    from pymq.wire.headers.transaction import EndTransactionHeader, ResumeCheckHeader

_OUTCOMES: Final = {COMMIT: Outcome.COMMITTED, ROLLBACK: Outcome.ROLLED_BACK}


class TransactionHandlers:
    """Ends transactions. A client ends one with the offsets from the answer to the half message's send."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        transactions: Transactions,
        checks: TransactionChecks,
        writer: Writer,
    ) -> None:
        self._config = runtime.config
        self._clock = runtime.clock
        self._transactions = transactions
        self._checks = checks
        self._writer = writer

    def end(self, request: Command, header: EndTransactionHeader, peer: Peer) -> Reply | None:
        """Commit or roll back. The answer waits for the write, as a send's does."""
        wanted = header.commit_or_rollback
        if wanted == UNKNOWN:
            return Reply(remark="the transaction stays open: the broker asks its producers later")
        if wanted not in _OUTCOMES:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"commitOrRollback field wrong: {wanted}; use {COMMIT} to commit, {ROLLBACK} to roll back, {UNKNOWN} "
                "for a state that is not known yet",
            )
        message = self._transactions.half_at(header.commit_log_offset)
        _check_topic(request, message)
        self._check_time(header, message)
        _check_identity(header, message)
        outcome = _OUTCOMES[wanted]
        if self._transactions.find_open(message) is None:
            past = self._transactions.outcome_of(message)
            if past is outcome:
                return Reply(remark=f"the transaction was {past.value} before: nothing was done")
            if (past, outcome) != (Outcome.DISCARDED, Outcome.COMMITTED):
                raise _ended(past, message.queue_offset)
        if outcome is Outcome.COMMITTED:
            self._transactions.commit(message)
        else:
            self._transactions.roll_back(message)
        if not request.is_oneway:
            self._writer.hold(peer, encode_command(Reply().to_command(request)))  # type: ignore[arg-type]
        return None

    def resume_check(self, request: Command, header: ResumeCheckHeader, peer: Peer) -> Reply | None:
        """Store an open half message again with no checks counted, so that its producers are asked from the start."""
        try:
            physical_offset = decode_offset_id(header.msg_id)[2]
        except ValueError as error:
            text = f"{header.msg_id[:60]!r} is no message id of a broker: {error}"
            raise Refusal(ResponseCode.INVALID_PARAMETER, text) from error
        message = self._transactions.half_at(physical_offset)
        _check_topic(request, message)
        half = self._transactions.find_open(message)
        if half is None:
            raise _ended(self._transactions.outcome_of(message), message.queue_offset)
        self._checks.store_copy(half, message, 0)
        self._writer.hold(peer, encode_command(Reply().to_command(request)))  # type: ignore[arg-type]
        return None

    def _check_time(self, header: EndTransactionHeader, message: StoredMessage) -> None:
        """Refuse what comes after the immunity time that the message itself asks for: the check decides then."""
        immunity_ms = immunity_ms_of(message)
        if header.from_transaction_check or props.CHECK_IMMUNITY_SECONDS not in message.properties:
            return
        limit_ms = max(immunity_ms or 0, self._config.transaction_timeout_ms)
        half = self._transactions.find_open(message)
        age_ms = self._clock.now_ms() - (message.store_timestamp_ms if half is None else half.begun_ms)
        if age_ms > limit_ms:
            raise Refusal(
                ResponseCode.ILLEGAL_OPERATION,
                f"the transaction is {age_ms} ms old, its immunity time is {limit_ms} ms: the broker asks the "
                "producers now, answer that check",
            )


def _check_topic(request: Command, message: StoredMessage) -> None:
    """Check that the sender may end transactions of the half message's real topic. Raises Refusal(NO_PERMISSION)."""
    target = target_of(message)
    request.check_found_topic(message.topic if target is None else target[0])


def _check_identity(header: EndTransactionHeader, message: StoredMessage) -> None:
    """Check that the client names the half message that it sent. Raises Refusal(SYSTEM_ERROR)."""
    group = message.properties.get(props.PRODUCER_GROUP, "")
    if not group or target_of(message) is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            "the half message names no producer group or no target (properties PGROUP, REAL_TOPIC, REAL_QID): it can't "
            "be ended",
        )
    if header.producer_group != group:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The producer group wrong: {header.producer_group[:127]!r} did not send this half message; its own group "
            "ends it",
        )
    if header.tran_state_table_offset != message.queue_offset:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The transaction state table offset wrong: {header.tran_state_table_offset}; give the queueOffset from "
            "the answer to the half message's send",
        )
    if header.commit_log_offset != message.physical_offset:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The commit log offset wrong: {header.commit_log_offset}, the half message is at "
            f"{message.physical_offset}",
        )


def _ended(past: Outcome | None, queue_offset: int) -> Refusal:
    how = "has ended already" if past is None else f"was {past.value} already"
    return Refusal(
        ResponseCode.SYSTEM_ERROR,
        f"the transaction of the half message at queue offset {queue_offset} {how}: a transaction ends once",
    )
