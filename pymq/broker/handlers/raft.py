"""The requests of a Raft group's members: messages (9120), log bytes (9121), and what a node is (9122)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.errors import Refusal
from pymq.model.fastjson import JsonError
from pymq.model.hosts import parse_address
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_raft import ReportRequest
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.raft.group import RaftGroup
    from pymq.broker.raft.waiting import WaitingMember


class RaftHandlers:
    """Hands messages to the group, which takes them at the end of the turn."""

    def __init__(self, group: RaftGroup | None, broker_name: str, waiting: WaitingMember | None = None) -> None:
        """``group`` is None for a broker of a plain group, which may be ``waiting`` for the founding of another one."""
        self._group = group
        self._waiting = waiting
        self._broker_name = broker_name

    def message(self, command: Command, header: None, peer: Peer) -> Reply:
        """Take a message. Its sender waits for no answer, and gets none but to a broken request."""
        self._in_group().reception.take_message(command.body, parse_address(peer.address)[0])
        return Reply()

    def log_bytes(self, command: Command, header: None, peer: Peer) -> Reply:
        """Take a message with bytes of the log. Raises ProtocolViolation for bytes that are not whole records."""
        self._in_group().reception.take_bytes(command.body, parse_address(peer.address)[0])
        return Reply()

    def node(self, command: Command, header: None, peer: Peer) -> Reply:
        """Answer what this node is, for the founding of its group, with a proof that it is a member."""
        member = self._waiting or self._in_group()
        from pymq.broker.raft.answer_proof import REPORT  # noqa: PLC0415 - a plain group's broker does without
        from pymq.broker.raft.founders import encode_report  # noqa: PLC0415

        try:
            challenge = decode_json(command.body, ReportRequest).challenge
        except JsonError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"a request for a report: {error}") from error
        return member.answer_proof.reply(challenge, REPORT, encode_report(member.node_report()))

    def _in_group(self) -> RaftGroup:
        if self._group is None:
            raise Refusal(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"this broker ({self._broker_name}) is in no Raft group: start it with enableDLegerCommitLog=true, or "
                "take it out of dLegerPeers on the others",
            )
        return self._group
