"""Freeze: a master that takes no writes for a while, so that a slave can get everything and take over.

Messages are refused meanwhile, and what operators change of topics, groups and offsets. Consumers' commits are taken,
for clients seldom wait for an answer to them: those that came too late for the slave's copy are brought to it later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from pymq.broker.metadata.cursors import CursorManager
from pymq.broker.replication.slave.pending_offsets import PendingOffsets
from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import FENCE_MS_MAX
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Route

log = logging.getLogger(__name__)

_REFUSER = "write fence"


class WriteFence:
    """Of one broker's store and offsets. It ends by itself."""

    def __init__(self, store: MessageStore, cursors: CursorManager, pending: PendingOffsets, clock: Clock) -> None:
        """``pending``: what this broker brings to its master as soon as it is a slave."""
        self._store = store
        self._cursors = cursors
        self._pending = pending
        self._clock = clock
        self._begun_at = 0  # the number of the last commit before it
        self._until_ms = 0
        self.is_on = False

    def begin(self, duration_ms: int, why: str) -> None:
        """Takes no writes for ``duration_ms``, at most FENCE_MS_MAX, counted from now. ``why`` is told to senders."""
        self._until_ms = self._clock.monotonic_ms() + min(duration_ms, FENCE_MS_MAX)
        if not self.is_on:
            self._begun_at = self._cursors.change_count
        self.is_on = True
        self._store.refuse_writes(f"{why}: send again in a moment", by=_REFUSER)
        log.info("no writes are taken: %s", why)

    def end(self) -> None:
        """Takes writes again."""
        if self.is_on:
            self.is_on = False
            self._store.refuse_writes(None, by=_REFUSER)
            log.info("writes are taken again")

    def tick(self) -> None:
        """Ends it when its time is over."""
        if self.is_on and self._clock.monotonic_ms() >= self._until_ms:
            log.warning("the freeze was not taken back in time, it ends by itself")
            self.end()

    def keep_commits(self) -> None:
        """Has the commits since it began wait for the next master; when it is over they are this broker's alone."""
        if self.is_on:
            try:
                for group, topic, queue_id, offset in self._cursors.committed_since(self._begun_at):
                    self._pending.note(group, topic, queue_id, offset)
            except Refusal as refusal:
                log.warning("not all commits of the last moment are kept for the next master: %s", refusal.remark)


def routes_with_fence(routes: Iterable[Route], codes: Collection[int], is_fenced: Callable[[], bool]) -> list[Route]:
    """The table of a master: requests of these ``codes`` are refused while it hands over."""
    return [_resting(route, is_fenced) if route.code in codes else route for route in routes]


def _resting(route: Route, is_fenced: Callable[[], bool]) -> Route:
    def handle(request: Command, header: Any, peer: Peer) -> Any:
        if is_fenced():
            raise Refusal(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "this master hands over to a slave and changes nothing now: send it again in a moment, to the new one",
            )
        return route.handler(request, header, peer)

    return route._replace(handler=handle)
