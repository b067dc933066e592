"""Find a message by either of its ids."""

from __future__ import annotations

from pymq.client.admin import Admin
from pymq.errors import NotFoundError, UnreachableError, UsageError
from pymq.model.hosts import format_address
from pymq.model.ids import decode_offset_id
from pymq.model.record import StoredMessage


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
