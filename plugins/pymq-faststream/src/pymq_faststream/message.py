"""Messages as handlers see them, and how stored messages become such."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from faststream.message import AckStatus, StreamMessage, decode_message

from pymq.model import properties as names
from pymq.model.record import StoredMessage

CONTENT_TYPE = "content-type"
CORRELATION_ID = "correlation_id"
REPLY_TO = "reply_to"

Raw = StoredMessage | tuple[StoredMessage, ...]  # one message, or those of a batch
Settle = Callable[[AckStatus], Awaitable[None]]

# Where acknowledgements of the messages go that are parsed now.
SETTLE: ContextVar[Settle | None] = ContextVar("pymq_faststream_settle", default=None)

_NO_HEADERS = names.RESERVED | {names.SHARDING_KEY, names.RESEND}


class PymqMessage(StreamMessage[Raw]):
    """A message, or a batch, of which these properties describe the first message."""

    def __init__(self, *args: Any, settle: Settle | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._settle = settle

    @property
    def first(self) -> StoredMessage:
        """The message as it is stored; the first one of a batch."""
        return first_of(self.raw_message)

    @property
    def topic(self) -> str:
        """The topic that it was sent to."""
        return self.first.topic

    @property
    def tags(self) -> str:
        """Its tag."""
        return self.first.tags

    @property
    def keys(self) -> list[str]:
        """Its keys."""
        return self.first.keys.split()

    @property
    def retry_count(self) -> int:
        """How many times it came before, because a handler failed on it."""
        return self.first.reconsume_times

    async def ack(self) -> None:
        """Say that the message is done."""
        await self._settled(AckStatus.ACKED)
        await super().ack()

    async def nack(self) -> None:
        """Let the message come again later; after the last retry it becomes a dead letter."""
        await self._settled(AckStatus.NACKED)
        await super().nack()

    async def reject(self) -> None:
        """Make the message a dead letter: no retry can help."""
        await self._settled(AckStatus.REJECTED)
        await super().reject()

    async def _settled(self, status: AckStatus) -> None:
        if self.committed is None and self._settle is not None:
            await self._settle(status)


def first_of(raw: Raw) -> StoredMessage:
    """Return the first message of a batch, or the only one."""
    return raw[0] if isinstance(raw, tuple) else raw


def headers_of(raw: StoredMessage) -> dict[str, str]:
    """Return the properties that an application set."""
    return {name: value for name, value in raw.properties.items() if name not in _NO_HEADERS}


def is_request(raw: StoredMessage) -> bool:
    """Return True for a message whose sender waits for a reply, with all that a reply needs."""
    return {names.REPLY_TO_CLIENT, names.CORRELATION_ID, names.CLUSTER} <= raw.properties.keys()


async def parse_message(raw: StoredMessage) -> PymqMessage:
    """Return a stored message in FastStream's form."""
    return _parsed(raw, raw, raw.content())


async def parse_reply(raw: StoredMessage) -> PymqMessage:
    """Return a reply in FastStream's form. Acknowledging it does nothing to a message that is being handled."""
    token = SETTLE.set(None)
    try:
        return await parse_message(raw)
    finally:
        SETTLE.reset(token)


async def parse_batch(raw: tuple[StoredMessage, ...]) -> PymqMessage:
    """Return a batch in FastStream's form. Its headers are those of the first message."""
    parsed = _parsed(raw, raw[0], [each.content() for each in raw])
    parsed.batch_headers = [headers_of(each) for each in raw]
    return parsed


def _parsed(raw: Raw, first: StoredMessage, body: Any) -> PymqMessage:
    headers = headers_of(first)
    requester = first.properties[names.REPLY_TO_CLIENT] if is_request(first) else ""
    return PymqMessage(
        raw,
        body,
        headers=headers,
        reply_to=requester or headers.get(REPLY_TO, ""),
        content_type=headers.get(CONTENT_TYPE),
        correlation_id=headers.get(CORRELATION_ID) or first.message_id,
        message_id=first.message_id,
        settle=SETTLE.get(),
    )


async def decode_single(message: StreamMessage[Any]) -> Any:
    """Return the body by its content type."""
    return decode_message(message)


async def decode_batch(message: StreamMessage[Any]) -> list[Any]:
    """Return the bodies, each by its content type. FastStream knows batch decoders by this name."""
    return [decode_message(await parse_message(each)) for each in message.raw_message]
