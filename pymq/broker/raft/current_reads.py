"""CurrentReads: what a leader answers only once it knows that it still leads (read index, dissertation §6.4).

A leader that was paused, or that no follower reaches, learns late that another one leads. Its tables are old then. So
requests for a consumer's offset or a queue's end wait until a majority has answered a heartbeat that was sent after
them: both begin a consumer's work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymq.broker.metadata.late import answer_when_saved
from pymq.broker.metadata.table_saver import Saved
from pymq.broker.raft.driver import RaftDriver
from pymq.errors import StoreUnavailableError
from pymq.raft.core import ReadAnswer
from pymq.wire.command import Command
from pymq.wire.dispatch import Handler, Peer


class CurrentReads:
    """The reads that wait. ``driver`` returns the node's; :meth:`answered` gets its answers."""

    def __init__(self, driver: Callable[[], RaftDriver]) -> None:
        self._driver = driver
        self._count = 0
        self._waiting: dict[int, Saved] = {}

    def when_current(self, done: Saved) -> None:
        """Call ``done`` with None once this node is known to lead still, else with a StoreUnavailableError."""
        self._count += 1
        self._waiting[self._count] = done
        self._driver().read_index(self._count)

    def answered(self, answer: ReadAnswer) -> None:
        """Take the node's answer."""
        done = self._waiting.pop(answer.request_id, None)
        if done is not None:
            done(_not_known() if answer.confirm_offset is None else None)

    def refuse_all(self) -> None:
        """Refuse what waits: what it would read is about to be closed."""
        waiting, self._waiting = self._waiting, {}
        for done in waiting.values():
            done(_not_known())


def _not_known() -> StoreUnavailableError:
    return StoreUnavailableError(
        "it is not known whether this broker still leads its Raft group: ask again in a moment, the name servers know "
        "the leader"
    )


def current(handler: Handler, reads: CurrentReads) -> Handler:
    """Return what answers as ``handler`` does, once the leader knows that it still leads."""

    def handle(request: Command, header: Any, peer: Peer) -> None:
        reads.when_current(answer_when_saved(request, peer, lambda: handler(request, header, peer)))

    return handle
