"""LoggedCursors: the offsets of a Raft group's leader. Changed offsets become a record once a second.

An answered commit must outlive its leader. So a request that is answered has its record written at once, together with
all that changed since the last one, and its answer waits until that is confirmed. Clients send most commits one-way,
or with a pull; those wait for the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymq.broker.metadata.cursors import CursorManager, MaxOffset
from pymq.broker.raft.logged_tables import LoggedTable
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import Refusal, StoreError
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Handler, Peer
from pymq.wire.reply import Reply

# Gets None once the offsets are confirmed; else why that is not known.
Confirmed = Callable[[StoreError | OSError | None], None]


class LoggedCursors(CursorManager):
    """Writes what changed since its last record; all offsets where that is not known."""

    def __init__(self, table: LoggedTable, *, clock: Clock, config: BrokerConfig, max_offset: MaxOffset) -> None:
        super().__init__(table, clock=clock, config=config, max_offset=max_offset)
        self._logged = table
        table.flush = self._log
        self._logged_count = 0  # the number of the last change that is in a record, confirmed or not
        self._waiting: list[Confirmed] = []
        self._is_whole_needed = False  # a record did not get into the log, or offsets changed without a number

    def when_logged(self, confirmed: Confirmed) -> None:
        """Call ``confirmed`` once all offsets as they are now are confirmed."""
        self._waiting.append(confirmed)
        self._log()

    def tick(self) -> None:
        """Write what changed, once a second."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_save_ms:
            self._next_save_ms = now_ms + self._save_interval_ms()
            if self._dirty:
                self._log()

    def _log(self) -> None:
        if self._logged.is_busy:
            return  # what waits shares the next record
        waiting, self._waiting = self._waiting, []
        if not self._dirty:
            for confirmed in waiting:
                confirmed(None)
            return
        self._dirty = False
        self.data_version = self._version_to_save()
        part = self._part()
        self._logged_count, self._is_whole_needed = self.change_count, False

        def saved(error: StoreError | OSError | None) -> None:
            if error is not None:
                self._dirty = self._is_whole_needed = True
            for confirmed in waiting:
                confirmed(error)
            if self._waiting:
                self._log()

        if part is None:
            self._logged.save_soon(self.as_table, saved)
        else:
            self._logged.save_part_soon(part, saved)

    def _part(self) -> dict[str, Any] | None:
        """Return the offsets that changed since the last record; None where all must be written."""
        if self._is_whole_needed or self._logged.is_whole_needed or self.change_count == self._logged_count:
            return None
        return self.changes_since(self._logged_count)


def refusing_commits(handler: Handler, text: Callable[[str], str]) -> Handler:
    """Return what a follower answers: a commit that wants an answer is refused, only a leader's outlives a failure.

    ``text`` makes the remark. A commit without an answer promises nothing.
    """

    def handle(request: Command, header: Any, peer: Peer) -> Any:
        if not request.is_oneway:
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, text("keeps no offsets of consumers"))
        return handler(request, header, peer)

    return handle


def confirming(handler: Handler, cursors: LoggedCursors) -> Handler:
    """Return what answers as a leader's ``handler`` does, once the offsets that it changed are confirmed."""

    def handle(request: Command, header: Any, peer: Peer) -> Any:
        held = _HoldingPeer(peer, cursors)
        reply = handler(request, header, held)
        if reply is None or request.is_oneway or reply.code != ResponseCode.SUCCESS:
            return reply
        held.answer(request.envelope(), reply)
        return None

    return handle


class _HoldingPeer:
    """A peer whose late answer waits until the offsets are confirmed. All else is the peer's own."""

    def __init__(self, peer: Peer, cursors: LoggedCursors) -> None:
        self._peer = peer
        self._cursors = cursors

    def answer(self, request: Command, reply: Reply) -> None:
        if reply.code != ResponseCode.SUCCESS:
            self._peer.answer(request, reply)
            return

        def confirmed(error: StoreError | OSError | None) -> None:
            refused = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, f"it is not known whether the offsets stay: {error}")
            self._peer.answer(request, reply if error is None else refused)

        self._cursors.when_logged(confirmed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)
