"""Rounds: shares the event loop's time among connections that pour in requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from pymq.net.turn_watch import TurnWatch

SLICE_S = 0.01  # for which one connection is served without others in between
# After so much work in a round, each connection that comes gets one step, and rests; a heavy one rests at once. After
# twice as much, every one rests at once.
ROUND_S = 0.02
HEAVY_S = 0.005  # a read that took longer makes its connection heavy:
HEAVY_FOR_S = 1.0  # others go first for this time
STEP_FRAMES = 8  # served on the fast path between two looks at the time


class Resting(Protocol):
    """A connection that is neither read nor served."""

    def end_rest(self) -> None:
        """Continues for a slice of time. It may rest again."""
        ...


class Rounds:
    """Continues resting connections in their order, between the event loop's looks at others."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], None], turns: TurnWatch) -> None:
        """``call_soon`` runs a function in the loop's next round; ``turns`` has the time."""
        self.read_s = 0.0  # the time that reads have taken in this round
        self._call_soon = call_soon
        self._turns = turns
        self._light: deque[Resting] = deque()
        self._heavy: deque[Resting] = deque()
        self._is_scheduled = False

    @property
    def resting_count(self) -> int:
        """The number of connections that rest."""
        return len(self._light) + len(self._heavy)

    def rest(self, connection: Resting, *, is_heavy: bool) -> None:
        """Continues with ``connection`` in a later round, after those that rest already. Call it once for each rest.

        Heavy connections come after the others.
        """
        (self._heavy if is_heavy else self._light).append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._continue)

    def _continue(self) -> None:
        """Serves resting connections for ROUND_S; one of the heavy ones in any case."""
        self._is_scheduled = False
        end_s = self._turns.now_s() + ROUND_S
        try:
            for queue in (self._light, self._heavy):
                for number in range(len(queue)):
                    if self._turns.now_s() >= end_s and (number or queue is self._light):
                        break
                    queue.popleft().end_rest()
        finally:
            if self._light or self._heavy:
                self._schedule()
