"""The work of the message commands: finds messages and prints them with all their fields."""

from __future__ import annotations

import sys
from typing import Any

from pymq.cli.dlq_work import NOT_SENT_AGAIN
from pymq.cli.message_text import message_stream, shown_body
from pymq.cli.options import request_credentials, split_addresses
from pymq.cli.output import MessageOutput, is_styled, print_fields, print_line, printable
from pymq.cli.times import local_time
from pymq.client import Producer
from pymq.client.admin import Admin
from pymq.client.admin.messages import TIME_MAX_MS
from pymq.client.transactions import TransactionProducer, TransactionState
from pymq.errors import NotFoundError, UnreachableError, UsageError
from pymq.model.hosts import format_address
from pymq.model.ids import decode_offset_id
from pymq.model.properties import (
    CHECK_IMMUNITY_SECONDS,
    KEYS,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
)
from pymq.model.record import StoredMessage
from pymq.model.timers import decode_handle

__all__ = ["TIME_MAX_MS", "find_by_id", "print_messages", "recall", "recall_plan", "resend"]

RECALL_GROUP = "PYMQ_CLI_PRODUCER"
RESEND_GROUP = "PYMQ_RESEND"  # a producer's
_OF_TRANSACTIONS = NOT_SENT_AGAIN | {
    PRODUCER_GROUP,
    TRANSACTION_ID,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    CHECK_IMMUNITY_SECONDS,
}


async def find_by_id(admin: Admin, message_id: str, topic: str | None) -> list[StoredMessage]:
    """Returns the message with a broker's id, or those in ``topic`` with a producer's id. Raises NotFoundError."""
    if topic is not None:
        found = await admin.messages.by_unique_key(topic, message_id)
        if found:
            return found
    try:
        return [await _by_offset_id(admin, message_id)]
    except (UsageError, UnreachableError, NotFoundError) as error:
        await admin.cluster.info()  # raises UnreachableError when it is the name servers that can't be reached
        # Both kinds of id are hex digits: a producer's id, decoded as a broker's, names a random address.
        if topic is not None:
            raise NotFoundError(f"no message {message_id} in {topic}") from error
        raise NotFoundError(f"{error}; if a producer made this id, name its topic with --topic") from error


async def _by_offset_id(admin: Admin, message_id: str) -> StoredMessage:
    try:
        host, port, _ = decode_offset_id(message_id)
    except ValueError as error:
        raise UsageError(f"{message_id!r} is not an id that a broker made") from error
    known = {target.address: target.name for target in await admin.cluster.masters()}
    address = format_address(host, port)
    if address not in known:
        # An id must not make this command connect to a host that is not a broker.
        raise UnreachableError(f"id {message_id} names {address}, where no broker is registered")
    message = await admin.messages.by_offset_id(message_id)
    message.broker_name = known[address]
    return message


async def recall(topic: str, handle: str, namesrv: str) -> str:
    """Takes back a timer message; returns its id."""
    async with Producer(
        RECALL_GROUP, namesrv=";".join(split_addresses(namesrv)), credentials=request_credentials.get()
    ) as producer:
        return await producer.recall(topic, handle)


def recall_plan(topic: str, handle: str) -> str:
    """Returns which message a handle names and when it is due, without asking a server. Raises UsageError."""
    try:
        named = decode_handle(handle)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if named.topic != topic:
        raise UsageError(f"the handle is of a message to {named.topic!r}, not to {topic!r}: name its topic")
    due = local_time(named.deliver_ms)
    return f"would recall {named.unique_key}, due {due} on {named.broker_name}"


class _Committing:
    """A listener that always commits."""

    def execute(self, message: object, arg: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: object) -> TransactionState:
        return TransactionState.COMMIT


async def resend(
    admin: Admin, namesrv: str, message_ids: list[str], source: str, *, apply: bool
) -> list[dict[str, Any]]:
    """Sends messages of ``source`` to the topics that their transactions were for.

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
        addresses = split_addresses(namesrv)
        async with TransactionProducer(
            RESEND_GROUP, listener=_Committing(), namesrv=addresses, credentials=request_credentials.get()
        ) as producer:
            for message, target in found:
                kept = {name: value for name, value in message.properties.items() if name not in _OF_TRANSACTIONS}
                await producer.commit_copy(message, target, kept)
    return [{"message_id": message.message_id, "to": target, "sent": apply} for message, target in found]


def print_messages(messages: list[StoredMessage], output: MessageOutput, *, whole: bool) -> None:
    """Prints messages; ``whole``: text format shows every field instead of one line."""
    if whole and output in (MessageOutput.text, MessageOutput.table):
        for at, message in enumerate(messages):
            if at:
                print_line()
            _print_whole(message)
        return
    stream = message_stream(output, color=is_styled())
    for message in messages:
        sys.stdout.buffer.write(stream(message))
    sys.stdout.buffer.write(stream.end())
    sys.stdout.buffer.flush()


def _print_whole(message: StoredMessage) -> None:
    born = format_address(*message.born_address)
    print_fields(
        {
            "topic": message.topic,
            "queue": f"{message.broker_name}/{message.queue_id}",
            "offset": message.queue_offset,
            "message id": message.message_id,
            "offset message id": message.offset_message_id,
            "tag": printable(message.tags),
            "keys": printable(message.keys),
            "born": f"{local_time(message.born_timestamp_ms)} at {born}",
            "stored": f"{local_time(message.store_timestamp_ms)} at {format_address(*message.store_address)}",
            "reconsumed": message.reconsume_times,
            "size": f"{message.size_bytes} bytes stored, body {len(message.body)}",
        }
    )
    shown = {name: printable(value) for name, value in message.properties.items() if name not in (TAGS, KEYS, UNIQ_KEY)}
    if shown:
        print_line("properties")
        for name, value in sorted(shown.items()):
            print_line(f"  {printable(name)}={value}")
    print_line("body")
    print_line(f"  {shown_body(message)}")
