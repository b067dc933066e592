"""The answer to a request whose change is to be saved first."""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.metadata.table_saver import Saved
from pymq.errors import PymqError, StoreError
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Reply, error_reply


def answer_when_saved(request: Command, peer: Peer, finish: Callable[[], Reply | None]) -> Saved:
    """Answers what ``finish`` returns, called once the change is saved, or why it could not be saved or finished.

    ``finish`` returns None when it has the answer sent itself.
    """

    def saved(error: StoreError | OSError | None) -> None:
        try:
            if error is not None:
                raise error
            reply = finish()
        except PymqError as problem:
            reply = error_reply(problem)
        except OSError as problem:
            reply = Reply(ResponseCode.SYSTEM_ERROR, str(problem))
        if reply is not None:
            peer.answer(request, reply)

    return saved
