"""Sends what FastStream publishes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import BatchCodecProto, CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.exceptions import IncorrectState
from faststream.response import PublishCommand, PublishType

from pymq.client import Message, Producer, SendResult, StoredMessage
from pymq.errors import NotFoundError, PymqError, RefusedError, RequestTimeoutError, UsageError
from pymq.model.names import topic_problem
from pymq.wire.codes import ResponseCode
from pymq_faststream.cluster import Cluster, explained
from pymq_faststream.message import CONTENT_TYPE, CORRELATION_ID, REPLY_TO, decode_single, parse_reply
from pymq_faststream.response import MessageOptions, PymqPublishCommand, PymqResponse

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.types import CustomCallable

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 3.0
SEND_TIMEOUT_S = 3.0
NOTHING = (b"null", "application/json")  # the body for None, because brokers refuse an empty one
_ALONE = ("delay_ms", "delay_level", "ordering_key")


class NoReplyError(RequestTimeoutError, TimeoutError):
    """No reply came in time. Other brokers of FastStream raise TimeoutError, so this is one."""


class PymqProducer(ProducerProto[PymqPublishCommand]):
    """Encodes messages and sends them through one :class:`pymq.client.Producer`."""

    is_fake = False

    def __init__(self, cluster: Cluster, parser: CustomCallable | None, decoder: CustomCallable | None) -> None:
        self._parser = ParserComposition(parser, parse_reply)
        self._decoder = ParserComposition(decoder, decode_single)
        self.codec: CodecProto = DefaultCodec()
        self.serializer: SerializerProto | None = None
        self._cluster = cluster
        self._client: Producer | None = None

    def connect(self, client: Producer, serializer: SerializerProto | None, codec: CodecProto | None) -> None:
        """Send through ``client`` from now on."""
        self._client = client
        self.encode_by(serializer, codec)

    def encode_by(self, serializer: SerializerProto | None, codec: CodecProto | None) -> None:
        """Encode bodies, and decode those of replies, by the broker's codec if it has one."""
        self.serializer = serializer
        if codec is not None:
            self.codec, self._decoder = codec, ParserComposition(codec.decode, decode_single)

    def disconnect(self) -> None:
        """Refuse to send from now on."""
        self._client = None

    @property
    def client(self) -> Producer:
        """The client that sends. Raises IncorrectState before the broker is connected."""
        if self._client is None:
            raise IncorrectState("the broker is not connected: use async with broker, or await broker.connect(), first")
        return self._client

    async def publish(self, cmd: PymqPublishCommand) -> SendResult | None:
        """Send one message, or the reply to one. None: nothing waits for the reply, or its topic can't be used."""
        message = await self.message(cmd, cmd.body, cmd.options)
        if cmd.request is not None:
            return await self._reply(cmd.request, message)
        if cmd.publish_type is PublishType.REPLY:
            return await self._reply_to_topic(cmd, message)
        return await self._send([message], cmd, [cmd.options])

    async def publish_batch(self, cmd: PymqPublishCommand) -> SendResult | None:
        """Send several messages; without delays and ordering keys in one request, all or none.

        Returns the result of the last request.
        """
        messages, options = await self.batch(cmd)
        return await self._send(messages, cmd, options) if messages else None

    async def request(self, cmd: PymqPublishCommand) -> StoredMessage:
        """Send a request and return the reply."""
        message = await self.message(cmd, cmd.body, cmd.options)
        if message.is_delayed or cmd.options.get("ordering_key"):
            raise UsageError("a request has neither delay nor ordering key: publish with reply_to instead")
        timeout_s = REQUEST_TIMEOUT_S if cmd.timeout_s is None else cmd.timeout_s
        try:
            return await self.client.request(message, timeout_s=timeout_s)
        except RequestTimeoutError as error:
            raise NoReplyError(str(error)) from error

    async def _send(
        self, messages: list[Message], cmd: PymqPublishCommand, options: list[MessageOptions]
    ) -> SendResult:
        try:
            return await self._send_once(messages, cmd, options)
        except PymqError as error:
            if isinstance(error, RefusedError) and _is_forbidden(error):
                raise explained(error, f"a publisher needs PUB on topic {cmd.destination}") from error
            if not _is_gone(error):
                raise
        await self._cluster.ensure_topic(cmd.destination)
        return await self._send_once(messages, cmd, options)

    async def _send_once(
        self, messages: list[Message], cmd: PymqPublishCommand, options: list[MessageOptions]
    ) -> SendResult:
        timeout_s = SEND_TIMEOUT_S if cmd.timeout_s is None else cmd.timeout_s
        if len(messages) > 1 and not any(each.get(name) for each in options for name in _ALONE):
            return await self.client.send_batch(messages, timeout_s=timeout_s)
        for message, each in zip(messages, options, strict=True):
            result = await self.client.send(message, timeout_s=timeout_s, ordering_key=each.get("ordering_key") or None)
        return result

    async def _reply(self, request: StoredMessage, message: Message) -> SendResult | None:
        try:
            return await self.client.reply(request, message)
        except RefusedError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:
                raise
            log.warning("nothing waits for the reply to %s any more: %s", request.message_id, error)
            return None

    async def _reply_to_topic(self, cmd: PymqPublishCommand, message: Message) -> SendResult | None:
        """Send to the topic that a message names in ``reply_to``. It may be a stranger's: no topic is made for it."""
        problem = topic_problem(cmd.destination)
        if problem is None:
            try:
                return await self._send_once([message], cmd, [cmd.options])
            except PymqError as error:
                if not (_is_gone(error) or _is_forbidden(error)):
                    raise
                problem = str(error)
        log.warning("no reply to %.127r, which a message names in reply_to: %s", cmd.destination, problem)
        return None

    async def message(self, cmd: PymqPublishCommand, body: Any, options: MessageOptions) -> Message:
        """Return the message for one body of a command."""
        return self._encoded(cmd, await self.codec.encode(body, self.serializer), body, options, {})

    async def batch(self, cmd: PymqPublishCommand) -> tuple[list[Message], list[MessageOptions]]:
        """Return the messages of a command, and the options of each."""
        parts = [each if isinstance(each, PymqResponse) else PymqResponse(each) for each in cmd.batch_bodies]
        bodies = [part.body for part in parts]
        if isinstance(self.codec, BatchCodecProto):
            encoded = await self.codec.encode_batch(bodies, self.serializer)
        else:
            encoded = [await self.codec.encode(body, self.serializer) for body in bodies]
        options: list[MessageOptions] = [{**cmd.options, **part.options} for part in parts]
        messages = []
        for part, each, one in zip(parts, encoded, options, strict=True):
            own = {**part.headers, **({CORRELATION_ID: part.correlation_id} if part.correlation_id else {})}
            messages.append(self._encoded(cmd, each, part.body, one, own))
        return messages, options

    @staticmethod
    def _encoded(
        cmd: PymqPublishCommand,
        encoded: tuple[bytes, str | None],
        value: Any,
        options: MessageOptions,
        own_headers: dict[str, Any],
    ) -> Message:
        body, content_type = NOTHING if value is None and not encoded[0] else encoded
        found = {
            CONTENT_TYPE: content_type,
            CORRELATION_ID: cmd.correlation_id,
            REPLY_TO: cmd.reply_to,
        }
        headers = {name: value for name, value in found.items() if value} | cmd.headers | own_headers
        return Message(
            cmd.destination,
            body,
            tags=options.get("tags", ""),
            keys=options.get("keys", ""),
            properties=headers,
            delay_ms=options.get("delay_ms", 0),
            delay_level=options.get("delay_level", 0),
        )


class ReplyPublisher(FakePublisher):
    """Publishes the result of a handler to the sender of a request, or to the topic ``reply_to``."""

    def __init__(self, producer: ProducerProto[Any], topic: str, request: StoredMessage | None) -> None:
        super().__init__(producer=producer)
        self._topic = topic
        self._request = request

    def patch_command(self, cmd: PublishCommand) -> PymqPublishCommand:
        """Return the command with its destination."""
        reply = PymqPublishCommand.from_cmd(super().patch_command(cmd))
        reply.destination = self._topic
        reply.request = self._request
        return reply


def _is_forbidden(error: PymqError) -> bool:
    return isinstance(error, RefusedError) and error.code == ResponseCode.NO_PERMISSION


def _is_gone(error: PymqError) -> bool:
    return isinstance(error, NotFoundError) or (
        isinstance(error, RefusedError) and error.code == ResponseCode.TOPIC_NOT_EXIST
    )
