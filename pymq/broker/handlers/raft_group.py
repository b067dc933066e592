"""PYMQ_CHANGE_RAFT_GROUP (9130): an operator hands leadership over, or adds or removes a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from pymq.errors import Refusal
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_raft import RaftRequest
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.raft.report import OperatedGroup


class RaftGroupHandlers:
    """Reads the request; :mod:`pymq.broker.raft.requests` follows it."""

    def __init__(self, group: Callable[[], OperatedGroup | None]) -> None:
        self._group = group

    def change(self, command: Command, header: None, peer: Peer) -> Reply:
        """Answer with the group's state right after the change began."""
        try:
            request = decode_json(command.body, RaftRequest)
        except JsonError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"the request can't be read: {error}") from error
        group = self._group()
        if group is None:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                "this broker is in no Raft group: set enableDLegerCommitLog=true and dLegerPeers (pymq docs raft)",
            )
        from pymq.broker.raft.requests import follow  # noqa: PLC0415 - a plain group's broker does without

        return Reply(body=msgspec.json.encode(follow(group, request, peer.address)))
