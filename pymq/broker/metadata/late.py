"""Answers to requests that change a table: they come once the change is saved."""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.metadata.table_saver import Saved
from pymq.errors import PymqError, StoreError
from pymq.model.tables import DataVersion
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, error_reply
from pymq.wire.headers.admin import VERSION_FIELD
from pymq.wire.reply import Reply

WhenRegistered = Callable[[Callable[[], None]], None]
"""Calls a callback when the name servers know the present topics, or could not be reached."""


def answer_when_saved(request: Command, peer: Peer, finish: Callable[[], Reply | None]) -> Saved:
    """Return a callback for the save of a change. It answers with what ``finish`` returns, or why the save failed.

    ``finish`` runs once the change is saved. It returns None when it sends the answer itself.
    """
    asked = request.envelope()

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
            peer.answer(asked, reply)

    return saved


def answer_when_registered(
    request: Command, peer: Peer, when_registered: WhenRegistered, finish: Callable[[], Reply | None]
) -> Saved:
    """Return a callback as :func:`answer_when_saved`, whose ``finish`` runs once name servers know the change too."""
    registered = answer_when_saved(request, peer, finish)
    return answer_when_saved(request, peer, lambda: when_registered(lambda: registered(None)))


def version_ext(version: DataVersion) -> dict[str, str]:
    """Return the field of an answer that tells PyMQ's admin client a table's version."""
    return {VERSION_FIELD: str(version.counter)}
