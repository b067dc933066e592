"""The state of replication: PyMQ's own form (9103) and RocketMQ's.

RocketMQ has the slaves (907, ``mqadmin haStatus``) and the epochs (1007, ``mqadmin getBrokerEpoch``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from pymq.errors import Refusal
from pymq.model.fastjson import JsonError
from pymq.model.hosts import parse_address
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_admin import encode_admin_body
from pymq.wire.bodies_replication import StatusRequest
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.report.replication_status import StatusReport


class ReplicationStatusHandlers:
    """Shows the state of replication."""

    def __init__(self, report: StatusReport, on_master: Callable[[str], None]) -> None:
        """``on_master`` gets the address of another master of this name when it asks for the status."""
        self._report = report
        self._on_master = on_master

    def status(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return role, log, epoch history, slaves or the connection to the master, and their problems."""
        if request.body:
            self._note(request.body)
        return Reply(body=msgspec.json.encode(self._report.status()))

    def _note(self, body: bytes) -> None:
        try:
            master = decode_json(body, StatusRequest).master
            if master:
                parse_address(master)
                self._on_master(master)
        except (JsonError, ValueError) as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"the sender can't be read: {error}") from error

    def ha_status(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return slaves, or the connection to the master, in RocketMQ's form."""
        return Reply(body=encode_admin_body(self._report.ha_status()))

    def epochs(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return the epoch history in RocketMQ's form. Java: only brokers under a controller have one."""
        return Reply(body=encode_admin_body(self._report.epoch_cache()))
