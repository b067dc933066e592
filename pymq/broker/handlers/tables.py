"""Tables that slaves copy and tools export: consumer offsets (43), delay progress (45), request modes (402)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.wire.bodies_client import encode_body
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Reply

if TYPE_CHECKING:
    from pymq.broker.messages.delays import DelayService
    from pymq.broker.metadata.cursors import CursorManager


class TableHandlers:
    """Hands out the tables as they are persisted. Topics (21) and groups (201) are with their administration."""

    def __init__(self, *, cursors: CursorManager, delays: DelayService) -> None:
        self._cursors = cursors
        self._delays = delays

    def consumer_offsets(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return every committed offset."""
        return Reply(body=encode_body(self._cursors.as_table()))

    def delay_offsets(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return how far each delay level is delivered."""
        return Reply(body=encode_body(self._delays.as_table()))

    def request_modes(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return an empty table: every group pulls, none pops."""
        return Reply(body=encode_body({"messageRequestModeMap": {}}))
