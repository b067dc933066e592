"""ClosedDispatcher: what a broker answers while it starts or changes its role."""

from __future__ import annotations

from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher, Peer
from pymq.wire.reply import Reply


class ClosedDispatcher(Dispatcher):
    """Answers every request with SERVICE_NOT_AVAILABLE and ``why``. Clients try such a request again.

    The requests in ``served`` are answered all the same: those of a Raft group's members.
    """

    def __init__(self, why: str, served: Dispatcher | None = None) -> None:
        super().__init__([], "broker")
        self._why = why
        self._served = served

    def dispatch(self, peer: Peer, command: Command) -> Reply | None:
        if self._served is not None and command.code in self._served.routes:
            return self._served.dispatch(peer, command)
        return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, self._why)
