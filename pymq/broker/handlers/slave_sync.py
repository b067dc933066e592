"""Tables that slaves copy and tools export: all consumer offsets (43), delay progress (45), request modes (402)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.wire.bodies_client import encode_body
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Permission, Reply, Route

if TYPE_CHECKING:
    from pymq.broker.cursors import CursorManager
    from pymq.broker.delays import DelayService


class SlaveSyncHandlers:
    """Hands out the tables as they are persisted. Topics (21) and groups (201) are with their administration."""

    def __init__(self, *, cursors: CursorManager, delays: DelayService) -> None:
        self._cursors = cursors
        self._delays = delays

    def routes(self) -> list[Route]:
        """This module's rows of the table."""
        inner = Permission.INNER
        return [
            Route(RequestCode.GET_ALL_CONSUMER_OFFSET, None, self.consumer_offsets, inner),
            Route(RequestCode.GET_ALL_DELAY_OFFSET, None, self.delay_offsets, inner),
            Route(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, None, self.request_modes, inner),
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
