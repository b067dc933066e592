"""How replication stands: PyMQ's own picture (9103) and RocketMQ's (907, ``mqadmin haStatus``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pymq.wire.bodies_admin import encode_admin_body
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Permission, Reply, Route

if TYPE_CHECKING:
    from pymq.broker.replication.status import StatusReport


class ReplicationStatusHandlers:
    """Shows; changes nothing."""

    def __init__(self, report: StatusReport) -> None:
        self._report = report

    def routes(self) -> list[Route]:
        """This module's rows of the table."""
        admin = Permission.ADMIN
        return [
            Route(RequestCode.PYMQ_GET_REPLICATION_STATUS, None, self.status, admin),
            Route(RequestCode.GET_BROKER_HA_STATUS, None, self.ha_status, admin),
        ]

    def status(self, request: Command, header: None, peer: Peer) -> Reply:
        """Role, log, lineage, slaves or link, and what is wrong with them."""
        return Reply(body=msgspec.json.encode(self._report.status()))

    def ha_status(self, request: Command, header: None, peer: Peer) -> Reply:
        """The same in RocketMQ's shape."""
        return Reply(body=encode_admin_body(self._report.ha_status()))
