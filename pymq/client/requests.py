"""Request and reply: requests that wait for a reply, and the reply to a message that was sent as a request.

RocketMQ's way: the request is an ordinary message with a correlation id; the reply goes to the reply topic of the
cluster, and the broker that gets it pushes it to the requester's connection (326).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from pymq.clock import Clock
from pymq.errors import ClosedError, Refusal, RequestTimeoutError, UsageError
from pymq.model import properties as names
from pymq.model.hosts import pack_host, parse_address
from pymq.model.message import Message
from pymq.model.names import reply_topic
from pymq.model.properties import append_properties, encode_properties
from pymq.model.record import StoredMessage, body_crc
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.send import PushReplyHeader
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 3.0
_COPIED = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.REQUEST_TTL)


class OpenRequests:
    """The requests of one producer that wait for their replies; :meth:`handle` is the connection's ``on_request``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[StoredMessage]] = {}  # by correlation id

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, correlation_id: str) -> asyncio.Future[StoredMessage]:
        """Return a future of the reply. Call :meth:`close` once it is no longer awaited."""
        future: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    def close(self, correlation_id: str) -> None:
        """Forget a request: a later reply is dropped."""
        self._waiting.pop(correlation_id, None)

    def end(self) -> None:
        """Fail all requests, because their producer stops."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ClosedError("the reply is no longer awaited: the producer was stopped"))

    def handle(self, command: Command, address: str) -> Reply:
        """Answer a broker's request. A reply that no request waits for is taken and dropped, as Java's client does."""
        if command.code != RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            text = f" request type {command.code} not supported by this producer"
            return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)
        reply = _pushed_message(command, self._clock.now_ms())
        correlation_id = reply.properties.get(names.CORRELATION_ID, "")
        future = self._waiting.get(correlation_id)
        if future is None or future.done():
            log.info("%s sent a reply to the request %.60s, which waits no longer: dropped", address, correlation_id)
        else:
            future.set_result(reply)
        return Reply()


def _pushed_message(command: Command, now_ms: int) -> StoredMessage:
    """Return the reply as a message. It has no place in a log: its offsets are 0. Raises Refusal for bad fields."""
    header = decode_header(PushReplyHeader, command.ext)
    arrived = encode_properties({names.ARRIVE_TIME: str(now_ms)})
    return StoredMessage(
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=0,
        physical_offset=0,
        size_bytes=len(command.body),
        body=command.body,
        raw_properties=append_properties((header.properties or "").encode(), arrived),
        flag=header.flag,
        sys_flag=header.sys_flag,
        body_crc=body_crc(command.body),
        born_timestamp_ms=header.born_timestamp,
        born_host=_packed(header.born_host),
        store_timestamp_ms=header.store_timestamp,
        store_host=_packed(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_transaction_offset=0,
    )


def _packed(address: str) -> bytes:
    # Java writes a slash in front of an address without a name.
    try:
        return pack_host(*parse_address(address.rpartition("/")[2]))
    except ValueError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the reply's host {address[:60]!r} is no address") from error


def request_message(message: Message, client_id: str, correlation_id: str, timeout_s: float) -> Message:
    """Return ``message`` as a request, with what a replier needs to answer it. Raises UsageError for a set name."""
    added = {
        names.CORRELATION_ID: correlation_id,
        names.REPLY_TO_CLIENT: client_id,
        names.REQUEST_TTL: str(max(1, int(timeout_s * 1000))),
    }
    for name in added:
        if name in message.properties:
            raise UsageError(f"the property {name} is set by request() itself: remove it")
    return _with_properties(message, added)


def reply_message(request: StoredMessage, reply: Message | bytes | str) -> Message:
    """Return the reply to ``request`` as a message to its cluster's reply topic. Raises UsageError if it is none."""
    asked = request.properties
    missing = [name for name in (names.CLUSTER, *_COPIED[:2]) if not asked.get(name)]
    if missing:
        raise UsageError(
            f"the message {request.message_id} has no property {' and no '.join(missing)}, so it is no request: "
            "send it with request()"
        )
    added = {name: asked[name] for name in _COPIED if name in asked} | {names.MESSAGE_TYPE: names.REPLY_MESSAGE_TYPE}
    topic = reply_topic(asked[names.CLUSTER])
    if not isinstance(reply, Message):
        return Message(topic, reply, properties=added)
    if reply.is_delayed:
        raise UsageError("a reply is not delayed: leave delay_level, delay_ms and deliver_at_ms at 0")
    message = _with_properties(reply, added)
    message.topic = topic
    return message


def _with_properties(message: Message, added: Mapping[str, str]) -> Message:
    return Message(
        message.topic,
        message.body,
        message.tags,
        message.keys,
        {**message.properties, **added},
        message.flag,
        message.delay_level,
        message.wait_store,
    )


def no_reply(topic: str, timeout_s: float, *, is_sent: bool) -> RequestTimeoutError:
    """Return the error of a request without a reply in time."""
    what = "sent, so check that a consumer of the topic replies," if is_sent else "not sent: reach the brokers,"
    return RequestTimeoutError(
        f"no reply to the request on topic {topic} within {timeout_s:g} s: it was {what} or allow more time"
    )
