"""SEND_REPLY_MESSAGE (324, 325): pushes a reply to the client that waits for it (326), and stores it.

Java: ReplyMessageProcessor. The replier gets its answer once the requester has answered and the copy is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.handlers.send import SendHandlers, SendHeader, check_flags, sent_draft
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal, StoreUnavailableError
from pymq.model import properties as names
from pymq.model.hosts import unpack_address
from pymq.model.ids import encode_offset_id
from pymq.model.layout import SENT_PROPERTIES_MAX_BYTES
from pymq.model.properties import append_properties, encode_properties, find_property, sent_properties
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, decode_command, encode_command
from pymq.wire.command import request as make_request
from pymq.wire.dispatch import Peer
from pymq.wire.headers.send import PushReplyHeader, SendMessageAnswer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.metadata.clients import ClientManager
    from pymq.broker.stats.stats_manager import StatsManager

PUSH_TIMEOUT_MS = 10_000  # Java: Broker2Client.callClient
# The id in the answer for a reply without a stored copy; Java's clients need one.
NOT_STORED_ID = "0"
PUSH_TIME_SIZE_MAX_BYTES = 40  # PUSH_REPLY_TIME with its separators and a time in ms

# What an answer to a send says of a message that has its place in the log.
_STORED_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)


class ReplyHandlers:
    """Takes replies. A reply that no client waits for is refused with SYSTEM_ERROR, and stored all the same."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        sends: SendHandlers,
        clients: ClientManager,
        writer: Writer,
        stats: StatsManager,
    ) -> None:
        """``store_host``: this broker's packed address."""
        self._config = runtime.config
        self._clock = runtime.clock
        self._sends = sends
        self._clients = clients
        self._writer = writer
        self._stats = stats
        self._store_host = runtime.store_host
        self._store_address = unpack_address(runtime.store_host)

    def reply(self, request: Command, header: SendHeader, peer: Peer) -> None:
        """Push a reply to the client that its property REPLY_TO_CLIENT names, and store it.

        Every user may reply, but only one that may publish to the topic has a copy stored.
        """
        topic = self._sends.topic_for(header)
        if topic is None:
            self._sends.make_topic_first(self.reply, request, header, peer)
            return
        queue_id = self._sends.queue_for(header, topic)
        self._sends.check_body(request.body)
        check_flags(header.sys_flag)
        properties = _properties(header)
        outcome = _Outcome(request, peer, queue_id)
        may_store = request.sender is None or request.sender.may_publish(topic.topic_name)
        if self._config.store_reply_message_enable and may_store:
            self._store(request, header, peer, topic, queue_id, properties, outcome)
        else:
            outcome.stored(None)
        self._push(request, header, peer, properties, outcome.pushed)

    def _store(
        self,
        request: Command,
        header: SendHeader,
        peer: Peer,
        topic: TopicConfig,
        queue_id: int,
        properties: bytes,
        outcome: _Outcome,
    ) -> None:
        """Stage the copy. As in RocketMQ it keeps the sender's properties, and a failure is not the replier's."""
        try:
            draft = sent_draft(request, header, peer, properties)
            placed = self._writer.put(topic.topic_name, queue_id, draft, redirect_delay=False)
        except StoreUnavailableError:
            outcome.stored(None)
            return
        self._stats.message_put(topic.topic_name, 1, placed.size_bytes)
        answer = SendMessageAnswer(
            message_id=encode_offset_id(self._store_host, placed.physical_offset),
            queue_id=queue_id,
            queue_offset=placed.queue_offset,
        )
        self._writer.hold(outcome, encode_command(Reply(ext=answer).to_command(outcome.asked)), properties)

    def _push(
        self,
        request: Command,
        header: SendHeader,
        peer: Peer,
        properties: bytes,
        pushed: Callable[[str | None], None],
    ) -> None:
        """Send the reply to its client. ``pushed`` gets None when that took it, else why it did not."""
        client_id = find_property(properties, names.REPLY_TO_CLIENT.encode())
        if client_id is None:
            pushed("reply message properties[REPLY_TO_CLIENT] is null")
            return
        shown = client_id.decode("utf-8", "replace")
        requester = self._clients.producer_peer(shown)
        if requester is None:
            pushed(f"push reply message fail, channel of <{shown}> not found.")
            return
        if requester.is_behind:
            pushed(f"push reply message to <{shown}>fail. It does not read what it is sent")
            return
        now_ms = self._clock.now_ms()
        pushed_properties = append_properties(properties, encode_properties({names.PUSH_REPLY_TIME: str(now_ms)}))
        fields = PushReplyHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=pushed_properties.decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=peer.address,
            store_host=self._store_address,
            store_timestamp=now_ms,
        )

        def on_answer(response: Command | None) -> None:
            if response is not None and response.code == ResponseCode.SUCCESS:
                pushed(None)
            elif response is None:
                pushed(f"push reply message to <{shown}>fail. It gave no answer within {PUSH_TIMEOUT_MS} ms")
            else:
                pushed(f"push reply message to <{shown}>fail. It answered with code {response.code}")

        command = make_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, request.body)
        requester.ask(command, on_answer, PUSH_TIMEOUT_MS)


class _Outcome:
    """What became of one reply: answers the replier once both the push and the copy have ended.

    It stands in the writer for the replier's connection, so it learns there when the copy is safe.
    """

    def __init__(self, request: Command, peer: Peer, queue_id: int) -> None:
        self.asked = request.envelope()
        self._peer = peer
        self._not_stored = {"msgId": NOT_STORED_ID, "queueId": str(queue_id), "queueOffset": "0"}
        self._fields: dict[str, str] | None = None
        self._push: tuple[str | None] | None = None

    def write(self, frame: bytes) -> None:
        """Take the answer that the writer held: the copy is stored, or refused."""
        ready = decode_command(frame[4:])
        self.stored(dict(ready.ext) if ready.code in _STORED_CODES else None)

    def write_all(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.write(frame)

    def stored(self, fields: dict[str, str] | None) -> None:
        """Note the fields of the stored copy, None when there is none."""
        unstored = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", **self._not_stored}
        self._fields = unstored if fields is None else fields
        self._answer_if_ended()

    def pushed(self, problem: str | None) -> None:
        """Note the end of the push; ``problem`` says why the client did not take the reply."""
        self._push = (problem,)
        self._answer_if_ended()

    def _answer_if_ended(self) -> None:
        if self._fields is None or self._push is None:
            return
        (problem,) = self._push
        code = ResponseCode.SUCCESS if problem is None else ResponseCode.SYSTEM_ERROR
        self._peer.answer(self.asked, Reply(code, problem, self._fields))


def _properties(header: SendHeader) -> bytes:
    """Return the raw properties of a reply. Raises Refusal when PUSH_REPLY_TIME would not fit."""
    raw = sent_properties((header.properties or "").encode())
    limit = SENT_PROPERTIES_MAX_BYTES - PUSH_TIME_SIZE_MAX_BYTES
    if len(raw) > limit:
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the properties of the reply take {len(raw)} bytes, the limit is {limit}: shorten them",
        )
    return raw
