"""WriteFence: a master takes no writes for a while, so that a slave can copy everything and take over.

Meanwhile it refuses messages and changes of topics, groups and offsets by operators. It still takes consumers' commits,
because clients rarely wait for the answers; commits that miss the slave's copy are sent to the new master later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pymq.broker.metadata.cursors import CursorManager
from pymq.broker.metadata.pending_offsets import PendingOffsets
from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import FENCE_MS_MAX
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Handler, Peer

log = logging.getLogger(__name__)

_REFUSER = "write fence"


class WriteFence:
    """The fence of one broker. It ends by itself after a time."""

    def __init__(self, store: MessageStore, cursors: CursorManager, pending: PendingOffsets, clock: Clock) -> None:
        """``pending``: offsets that this broker sends to its master once it is a slave."""
        self._store = store
        self._cursors = cursors
        self._pending = pending
        self._clock = clock
        self._begun_at = 0  # the number of the last commit before it
        self._until_ms = 0
        self._last_number = 0
        self.is_on = False

    @property
    def number(self) -> int:
        """The number of the present fence, which no other master's and no earlier one has; 0 without one."""
        return self._last_number if self.is_on else 0

    def begin(self, duration_ms: int, why: str) -> None:
        """Take no writes for ``duration_ms`` from now on, at most FENCE_MS_MAX. Senders get ``why``."""
        self._until_ms = self._clock.monotonic_ms() + min(duration_ms, FENCE_MS_MAX)
        if not self.is_on:
            self._begun_at = self._cursors.change_count
            self._last_number = max(self._clock.now_ms(), self._last_number + 1)
        self.is_on = True
        self._store.refuse_writes(f"{why}: send again in a moment", by=_REFUSER)
        log.info("writes are refused: %s", why)

    def end(self) -> None:
        """Take writes again."""
        if self.is_on:
            self.is_on = False
            self._store.refuse_writes(None, by=_REFUSER)
            log.info("writes are accepted again")

    def tick(self) -> None:
        """End the fence when its time is over."""
        if self.is_on and self._clock.monotonic_ms() >= self._until_ms:
            log.warning("the write fence was not lifted in time, it ends by itself")
            self.end()

    def keep_commits(self) -> None:
        """Keep the commits since the fence began for the next master. Without a fence there are none to keep."""
        if self.is_on:
            try:
                for group, topic, queue_id, offset in self._cursors.committed_since(self._begun_at):
                    self._pending.note(group, topic, queue_id, offset)
            except Refusal as refusal:
                log.warning("not all commits since the write fence are kept for the next master: %s", refusal.remark)


def hand_over_refusal() -> Refusal:
    """Return the answer to requests for changes during a hand-over."""
    return Refusal(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "this master hands over to a slave and makes no changes: send it again in a moment, to the new master",
    )


def fenced(handler: Handler, is_fenced: Callable[[], bool]) -> Handler:
    """Return what answers as ``handler`` does, and refuses the request during a hand-over."""

    def handle(request: Command, header: Any, peer: Peer) -> Any:
        if is_fenced():
            raise hand_over_refusal()
        return handler(request, header, peer)

    return handle
