"""PYMQ_CHANGE_ROLE (9104): an operator makes a slave the master, or prepares a broker for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pymq.errors import Refusal
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_replication import RoleRequest
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.replication.roles.promotion import RoleRequests


class RoleChangeHandlers:
    """Reads the request; :class:`RoleRequests` follows it."""

    def __init__(self, requests: RoleRequests) -> None:
        self._requests = requests

    def change_role(self, command: Command, header: None, peer: Peer) -> Reply:
        """Answer with the log's end. The role changes after the answer."""
        try:
            request = decode_json(command.body, RoleRequest)
        except JsonError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"the request can't be read: {error}") from error
        return Reply(body=msgspec.json.encode(self._requests.follow(request, peer.address)))
