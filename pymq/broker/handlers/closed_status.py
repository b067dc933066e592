"""Request 9103 at a broker of a Raft group that changes its role, or waits for a leader: what its node says.

Then the group needs its operator most, and the broker's parts, which make the whole status, are closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pymq.broker import row_access as access
from pymq.broker.addresses import own_address
from pymq.broker.raft.report import group_state
from pymq.config.security import is_secured
from pymq.config.values import SLAVE
from pymq.errors import Refusal
from pymq.wire.bodies_replication import ReplicationStatus
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Route
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.raft.group import RaftGroup
    from pymq.config import BrokerConfig


def closed_status_routes(config: BrokerConfig, group: RaftGroup) -> list[Route]:
    """Return the row, none for a secured broker: it can't tell who asks while its users are closed as well."""
    if is_secured(config):
        return []
    status = ClosedStatusHandlers(config, group).status
    return [Route(RequestCode.PYMQ_GET_REPLICATION_STATUS, None, status, access.SEE_BROKER)]


class ClosedStatusHandlers:
    """The status without what the log and the slaves would add."""

    def __init__(self, config: BrokerConfig, group: RaftGroup) -> None:
        self._config = config
        self._group = group

    def status(self, command: Command, header: None, peer: Peer) -> Reply:
        config, group = self._config, self._group
        if group.driver is None:
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker starts: ask again in a moment")
        status = ReplicationStatus(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            broker_id=config.broker_id,
            role=SLAVE,
            address=own_address(config),
            segment_size_bytes=config.mapped_file_size_commit_log_bytes,
            log_end=group.node.log.end,
            confirm_offset=group.confirm_offset,
            raft=group_state(group),
        )
        return Reply(body=msgspec.json.encode(status))
