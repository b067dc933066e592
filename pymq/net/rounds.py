"""Rounds: shares the event loop's time among connections that pour in requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from pymq.net.turn_watch import TurnWatch

SLICE_S = 0.01  # for which one connection is served without others in between
ROUND_S = 0.02  # after so much work in a round, each connection that comes gets one step, and rests
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
        self._resting: deque[Resting] = deque()

    @property
    def resting_count(self) -> int:
        """The number of connections that rest."""
        return len(self._resting)

    def rest(self, connection: Resting) -> None:
        """Continues with ``connection`` in a later round, after those that rest already. Call it once for each rest."""
        self._resting.append(connection)
        if len(self._resting) == 1:
            self._call_soon(self._continue)

    def _continue(self) -> None:
        """Serves resting connections for ROUND_S."""
        resting = self._resting
        end_s = self._turns.now_s() + ROUND_S
        try:
            for _ in range(len(resting)):
                try:
                    resting[0].end_rest()
                finally:
                    resting.popleft()  # only now: while one is there, this method is scheduled, or runs
                if self._turns.now_s() >= end_s:
                    break
        finally:
            if resting:
                self._call_soon(self._continue)
