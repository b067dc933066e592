"""ClosedDispatcher: what a broker answers while it starts or changes its role."""

from __future__ import annotations

from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher, Peer
from pymq.wire.reply import Reply


class ClosedDispatcher(Dispatcher):
    """Answers every request with SERVICE_NOT_AVAILABLE and ``why``. Clients try such a request again."""

    def __init__(self, why: str) -> None:
        super().__init__([], "broker")
        self._why = why

    def dispatch(self, peer: Peer, command: Command) -> Reply | None:
        return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, self._why)
