"""Send messages of transactions that no producer ended, and take timer messages back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pymq.client import Producer
from pymq.client.admin import Admin
from pymq.client.transactions import TransactionProducer, TransactionState
from pymq.errors import NotFoundError, UsageError
from pymq.model.properties import (
    CHECK_IMMUNITY_SECONDS,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
)
from pymq.model.timers import RecallHandle, decode_handle
from pymq.operations.dead_letters import NOT_SENT_AGAIN
from pymq.security.credentials import Credentials

RECALL_GROUP = "PYMQ_CLI_PRODUCER"
RESEND_GROUP = "PYMQ_RESEND"  # a producer's
_OF_TRANSACTIONS = NOT_SENT_AGAIN | {
    PRODUCER_GROUP,
    TRANSACTION_ID,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    CHECK_IMMUNITY_SECONDS,
}


@dataclass(frozen=True)
class Producing:
    """What a producer of an operation needs: addresses of name servers, and what it signs with."""

    namesrv: Sequence[str]
    credentials: Credentials | None = None


async def recall(topic: str, handle: str, producing: Producing) -> str:
    """Take back a timer message, and return its id."""
    async with Producer(RECALL_GROUP, namesrv=producing.namesrv, credentials=producing.credentials) as producer:
        return await producer.recall(topic, handle)


def recalled_by(topic: str, handle: str) -> RecallHandle:
    """Return which message a handle names, without asking a server. Raises UsageError."""
    try:
        named = decode_handle(handle)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if named.topic != topic:
        raise UsageError(f"the handle is of a message to {named.topic!r}, not to {topic!r}: name its topic")
    return named


class _Committing:
    """A listener that always commits."""

    def execute(self, message: object, arg: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: object) -> TransactionState:
        return TransactionState.COMMIT


async def resend(
    admin: Admin, producing: Producing, message_ids: list[str], source: str, *, apply: bool
) -> list[dict[str, Any]]:
    """Send messages of ``source`` to the topics that their transactions were for.

    Raises NotFoundError, UsageError for a message of no transaction, RefusedError.
    """
    found = []
    for message_id in message_ids:
        stored = await admin.messages.by_unique_key(source, message_id)
        if not stored:
            raise NotFoundError(f"no message {message_id} in {source}: `pymq tail {source}` shows what is there")
        target = stored[-1].properties.get(REAL_TOPIC, "")
        if not target:
            raise UsageError(f"the message {message_id} has no property {REAL_TOPIC}, so it is of no transaction")
        found.append((stored[-1], target))
    if apply:
        async with TransactionProducer(
            RESEND_GROUP, listener=_Committing(), namesrv=producing.namesrv, credentials=producing.credentials
        ) as producer:
            for message, target in found:
                kept = {name: value for name, value in message.properties.items() if name not in _OF_TRANSACTIONS}
                await producer.commit_copy(message, target, kept)
    return [{"message_id": message.message_id, "to": target, "sent": apply} for message, target in found]
