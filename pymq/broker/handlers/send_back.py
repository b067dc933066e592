"""CONSUMER_SEND_MSG_BACK (36): a consumer could not handle a message and wants it again later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.messages.writer import NOT_WAITING
from pymq.wire.command import Command, encode_command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.send import ConsumerSendMsgBackHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.retries import Retries
    from pymq.broker.messages.writer import Writer


class SendBackHandlers:
    """Gives messages to Retries. The answer waits in the writer for the turn's commit."""

    def __init__(self, *, retries: Retries, writer: Writer) -> None:
        self._retries = retries
        self._writer = writer

    def send_back(self, request: Command, header: ConsumerSendMsgBackHeader, peer: Peer) -> Reply | None:
        """Stage the message for its next try, or as a dead letter."""
        if not self._retries.send_back(header, request.version, request.check_found_topic):
            return Reply()
        if not request.is_oneway:
            frame = encode_command(Reply().to_command(request))
            self._writer.hold(peer, frame, NOT_WAITING)  # type: ignore[arg-type]
        return None
