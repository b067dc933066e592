"""Transactions that nobody ended: a broker asks, and the proxy passes the question on to a producer of the topic."""

from __future__ import annotations

import logging
from typing import Any

from pymq.clock import Clock
from pymq.model.record import StoredMessage
from pymq.proxy.backend import Backend, TransactionPlace
from pymq.proxy.calls import Call, status_ok
from pymq.proxy.checks import check_topic
from pymq.proxy.clients import Stream
from pymq.proxy.conversion import message_of
from pymq.proxy.protocol.messages import EndTransactionResponse, TelemetryCommand
from pymq.proxy.protocol.names import COMMIT, ROLLBACK, SOURCE_SERVER_CHECK, Code
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.sessions import Sessions
from pymq.proxy.transactions import OpenTransactions

log = logging.getLogger(__name__)


class Orphans:
    """Ends transactions for clients, and asks producers about transactions that stay open."""

    def __init__(self, backend: Backend, sessions: Sessions, transactions: OpenTransactions, clock: Clock) -> None:
        self._backend = backend
        self._sessions = sessions
        self._transactions = transactions
        self._clock = clock
        self._turn = 0  # so that no producer gets all questions

    async def end_transaction(self, call: Call, request: Any) -> Any:
        """Commit or roll back."""
        topic = check_topic(request.topic.name)
        transaction_id = request.transaction_id
        if not transaction_id.strip():
            raise ProxyRefusal(Code.INVALID_TRANSACTION_ID, "the request names no transaction")
        if request.resolution not in (COMMIT, ROLLBACK):
            raise ProxyRefusal(Code.BAD_REQUEST, "the request says neither COMMIT nor ROLLBACK")
        place = self._transactions.find(topic, transaction_id)
        if place is None:
            text = f"this server knows no open transaction {transaction_id:.80}: its broker asks about it"
            raise ProxyRefusal(Code.INTERNAL_SERVER_ERROR, text)
        is_checked = request.source == SOURCE_SERVER_CHECK
        is_commit = request.resolution == COMMIT
        await self._backend.end_transaction(place, transaction_id, is_commit=is_commit, is_checked=is_checked)
        self._transactions.end(topic, transaction_id)
        return EndTransactionResponse(status=status_ok())

    def ask(self, message: StoredMessage, transaction_id: str, place: TransactionPlace) -> bool:
        """Pass a broker's question on. Return False when no producer of the topic reads it: the broker asks again."""
        self._transactions.begin(transaction_id, place, self._clock.monotonic_ms())
        command = TelemetryCommand()
        question = command.recover_orphaned_transaction_command
        question.transaction_id = transaction_id
        question.message.CopyFrom(message_of(message, place.topic))
        streams = [
            session.stream
            for session in self._sessions.all()
            if isinstance(session.stream, Stream) and place.topic in session.published_topics
        ]
        for _ in streams:
            self._turn += 1
            if streams[self._turn % len(streams)].send(command):
                return True
        log.info("no producer of %s is there to say how the transaction %s ended", place.topic, transaction_id)
        return False
