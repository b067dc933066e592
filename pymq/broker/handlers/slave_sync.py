"""Tables that slaves copy and tools export: all consumer offsets (43), delay progress (45), request modes (402); and
for PyMQ's own slaves whatever differs from what they have (9102)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.errors import Refusal
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_replication import MetadataVersions
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Permission, Reply, Route

if TYPE_CHECKING:
    from pymq.broker.messages.delays import DelayService
    from pymq.broker.metadata.cursors import CursorManager
    from pymq.broker.replication.master.table_requests import TableRequests
    from pymq.broker.replication.roles.role import Role


class SlaveSyncHandlers:
    """Hands out the tables as they are persisted. Topics (21) and groups (201) are with their administration."""

    def __init__(
        self,
        *,
        cursors: CursorManager,
        delays: DelayService,
        role: Role,
        copies: TableRequests,
    ) -> None:
        self._cursors = cursors
        self._delays = delays
        self._role = role
        self._copies = copies

    def routes(self) -> list[Route]:
        """This module's rows of the table."""
        inner = Permission.INNER
        return [
            Route(RequestCode.GET_ALL_CONSUMER_OFFSET, None, self.consumer_offsets, inner),
            Route(RequestCode.GET_ALL_DELAY_OFFSET, None, self.delay_offsets, inner),
            Route(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, None, self.request_modes, inner),
            Route(RequestCode.PYMQ_COPY_METADATA, None, self.copy_metadata, inner),
        ]

    def consumer_offsets(self, request: Command, header: None, peer: Peer) -> Reply:
        """Every committed offset."""
        return Reply(body=encode_body(self._cursors.as_table()))

    def delay_offsets(self, request: Command, header: None, peer: Peer) -> Reply:
        """How far each delay level is delivered."""
        return Reply(body=encode_body(self._delays.as_table()))

    def request_modes(self, request: Command, header: None, peer: Peer) -> Reply:
        """Always empty: every group pulls, none pops."""
        return Reply(body=encode_body({"messageRequestModeMap": {}}))

    def copy_metadata(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """The tables whose versions are not the ones the slave has, now or once there is one."""
        if not self._role.is_master:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"this broker is a slave itself (id {self._role.broker_id}): ask the master of its name",
            )
        try:
            asked = decode_json(request.body, MetadataVersions)
        except JsonError as error:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"the body is no table of versions: {error}; send the names and versions"
            ) from error
        return self._copies.ask(asked.slave, asked.versions, asked.wait_ms, request, peer)
