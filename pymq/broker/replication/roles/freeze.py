"""Freeze: a master that takes no writes for a while, so that a slave can get everything and take over."""

from __future__ import annotations

import logging

from pymq.clock import Clock
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import FREEZE_MS_MAX

log = logging.getLogger(__name__)

_REFUSER = "freeze"


class Freeze:
    """Of one store. It ends by itself."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._until_ms = 0
        self.is_on = False

    def begin(self, duration_ms: int, why: str) -> None:
        """Takes no writes for ``duration_ms``, at most FREEZE_MS_MAX, counted from now. ``why`` is told to senders."""
        self._until_ms = self._clock.monotonic_ms() + min(duration_ms, FREEZE_MS_MAX)
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
