"""Find a message by either of its ids, or by its place."""

from __future__ import annotations

import re
from typing import Final

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.client.subscription_options import SubscriptionOptions
from pymq.errors import NotFoundError, UnreachableError, UsageError
from pymq.model.hosts import format_address
from pymq.model.ids import decode_offset_id
from pymq.model.message import PullResult
from pymq.model.record import StoredMessage
from pymq.operations.message.reading import Pull, batch_of

_PLACE: Final = re.compile(r"(.+):([0-9]{1,10}):([0-9]{1,19})", re.DOTALL)


def place_id(broker: str, queue_id: int, offset: int) -> str:
    """Return a message's place in its topic as a text, ``broker-a:0:17``, which serves as an id."""
    return f"{broker}:{queue_id}:{offset}"


def parse_place(topic: str, text: str) -> tuple[MessageQueue, int] | None:
    """Return the queue and the offset of :func:`place_id`, None for another text."""
    found = _PLACE.fullmatch(text)
    return None if found is None else (MessageQueue(topic, found[1], int(found[2])), int(found[3]))


async def find_at(pull: Pull, queue: MessageQueue, offset: int) -> StoredMessage:
    """Return the message at a place. Raises NotFoundError for one that is no longer, or not yet, stored."""

    def take(result: PullResult) -> StoredMessage | None:
        return next((one for one in batch_of(result, offset).messages if one.queue_offset == offset), None)

    found: StoredMessage | None = await pull(queue, offset, 1, SubscriptionOptions(), take)
    if found is None:
        where = f"{queue.broker_name} queue {queue.queue_id} of {queue.topic}"
        raise NotFoundError(f"no message is stored at offset {offset} of {where}: it was deleted, or is not there yet")
    return found


async def find_by_id(admin: Admin, message_id: str, topic: str | None) -> list[StoredMessage]:
    """Return the message with a broker's id, or those in ``topic`` with a producer's id. Raises NotFoundError."""
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
