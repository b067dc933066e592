"""Tables that slaves copy and tools export: consumer offsets (43), delay progress (45), request modes (402)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.wire.admin_text import encode_table_in_steps
from pymq.wire.bodies_client import encode_body
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.delays import DelayService
    from pymq.broker.work.sliced_work import Steps


class TableHandlers:
    """Hands out the tables as they are persisted. Topics (21) and groups (201) are with their administration."""

    def __init__(self, runtime: Runtime, *, metadata: Metadata, delays: DelayService) -> None:
        self._sliced_work = runtime.sliced_work
        self._cursors = metadata.cursors
        self._delays = delays
        self._request_modes = metadata.request_modes

    def consumer_offsets(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Return every committed offset."""
        return self._sliced_work.answer(request, peer, self._consumer_offsets())

    def _consumer_offsets(self) -> Steps[Reply]:
        table = yield from self._cursors.table_in_steps()
        return Reply(body=(yield from encode_table_in_steps(table)))

    def delay_offsets(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return how far each delay level is delivered."""
        return Reply(body=encode_body(self._delays.as_table()))

    def request_modes(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return which groups pop and which pull, where an operator has said so."""
        return Reply(body=encode_body(self._request_modes.as_table()))
