"""Operators' requests to a consumer through its broker: running info (307), consume a message (309), status (223)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pymq.errors import CorruptRecordError, NotFoundError, Refusal
from pymq.model.ids import decode_offset_id
from pymq.model.message import MessageQueue
from pymq.model.names import WAITING_TOPICS, hidden_text
from pymq.model.record import decode_record
from pymq.wire.bodies_admin import ClientConsumerStatus, ConsumerStatus, decode_admin_body, encode_admin_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.command import request as make_request
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import ConsumeDirectlyHeader, ConsumerRunningInfoHeader, ConsumerStatusHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.clients import Client, ClientManager
    from pymq.store.store import MessageStore

ANSWER_TIMEOUT_MS = 10_000
# MQVersion V3_1_8_SNAPSHOT: older clients don't know these requests.
VERSION_MIN = 62
_CREDENTIALS = frozenset({"AccessKey", "Signature", "SecurityToken"})


class RelayHandlers:
    """Passes a request on to a member of a group, and its answer back."""

    def __init__(self, *, clients: ClientManager, store: MessageStore) -> None:
        self._clients = clients
        self._store = store

    def running_info(self, request: Command, header: ConsumerRunningInfoHeader, peer: Peer) -> None:
        """Ask a consumer what it does now."""
        client = self._client(header.consumer_group, header.client_id)
        self._pass_on(client, request, request.body, peer)

    def consume_directly(self, request: Command, header: ConsumeDirectlyHeader, peer: Peer) -> None:
        """Have a consumer consume one stored message now. The message's id holds its place in the log."""
        client = self._client(header.consumer_group, header.client_id)
        body = self._message(header.msg_id, request.check_found_topic) if header.msg_id else request.body
        self._pass_on(client, request, body, peer)

    def consumer_status(self, request: Command, header: ConsumerStatusHeader, peer: Peer) -> None:
        """Ask every member of a group, or the one named, for its offsets in a topic."""
        group = self._clients.consumer_group(header.group)
        members = [] if group is None else list(group.members.values())
        wanted = [client for client in members if header.client_addr in (None, "", client.client_id)]
        if not wanted:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]")
        answer, asked = ConsumerStatus(), request.envelope()
        missing = {client.client_id for client in wanted}

        def on_answer(client: Client, response: Command | None) -> None:
            if response is not None and response.code == ResponseCode.SUCCESS:
                answer.consumer_table[client.client_id] = _queue_offsets(response)
            missing.discard(client.client_id)
            if not missing:
                peer.answer(asked, Reply(body=encode_admin_body(answer)))

        question = {"topic": header.topic, "group": header.group}
        # One question for each client id: a client may be seen on two connections while it reconnects.
        for client in {client.client_id: client for client in wanted}.values():
            command = make_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, question)
            client.peer.ask(command, partial(on_answer, client), ANSWER_TIMEOUT_MS)

    def _client(self, group_name: str, client_id: str | None) -> Client:
        group = self._clients.consumer_group(group_name)
        client = None if group is None or client_id is None else group.find(client_id)
        if client is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online")
        if client.version < VERSION_MIN:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{group_name}> <{client_id}> has version {client.version}, too old for this request: "
                "it needs 3.1.8",
            )
        return client

    def _message(self, message_id: str, check_topic: Callable[[str], None]) -> bytes:
        try:
            record = bytes(self._store.record_at(decode_offset_id(message_id)[2]))
            name = decode_record(record).topic
        except (ValueError, NotFoundError, CorruptRecordError) as error:
            text = f"no message with the id {message_id[:60]!r} is here: {error}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text) from error
        check_topic(name)
        if name in WAITING_TOPICS:
            raise Refusal(ResponseCode.SYSTEM_ERROR, hidden_text(name))
        return record

    def _pass_on(self, client: Client, request: Command, body: bytes, peer: Peer) -> None:
        # The consumer must not get the operator's credentials.
        ext = {name: value for name, value in request.ext.items() if name not in _CREDENTIALS}
        asked = request.envelope()

        def on_answer(response: Command | None) -> None:
            if response is None:
                text = f"consumer <{client.client_id}> gave no answer within {ANSWER_TIMEOUT_MS} ms"
                peer.answer(asked, Reply(ResponseCode.CONSUME_MSG_TIMEOUT, text))
            else:
                peer.answer(asked, Reply(response.code, response.remark, response.ext, response.body))

        client.peer.ask(make_request(request.code, ext, body), on_answer, ANSWER_TIMEOUT_MS)


def _queue_offsets(response: Command) -> dict[MessageQueue, int]:
    try:
        return decode_admin_body(ClientConsumerStatus, response.body).message_queue_table
    except Refusal:
        return {}
