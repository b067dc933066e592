"""Rounds: shares the event loop's time among connections that pour in requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from pymq.errors import ProtocolViolation
from pymq.net.turn_watch import TurnWatch
from pymq.wire.command import decode_command

SLICE_S = 0.01  # for which one connection is served without others in between
# After so much work in a round, each connection that comes gets one step, and rests; a heavy one rests at once. After
# twice as much, every one rests at once.
ROUND_S = 0.02
HEAVY_S = 0.005  # a read that took longer makes its connection heavy: others go first,
HEAVY_FACTOR = 1_000  # for so much longer, so that of up to so many such connections few are light at a time,
HEAVY_MAX_S = 20.0  # but not longer than this.
KIND_HEAVY_S = 1.0  # for which the kind of its request is heavy too. That counts for connections that are new.
KIND_FRAME_BYTES_MAX = 64 * 1024  # a longer request is not looked at
HEAVY_KINDS_MAX = 100
NEW = -1.0  # in place of a time: no request was served yet
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
        self._heavy_kinds: dict[int, float] = {}  # request code -> until when

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

    def note_heavy(self, frames: list[bytes], took_s: float, now_s: float) -> float:
        """Takes note that serving ``frames`` took more than HEAVY_S. Returns until when their connection is heavy."""
        code = _code(frames[0]) if frames else None
        if code is not None:
            if len(self._heavy_kinds) >= HEAVY_KINDS_MAX:
                self._heavy_kinds.clear()
            self._heavy_kinds[code] = now_s + KIND_HEAVY_S
        return now_s + min(took_s * HEAVY_FACTOR, HEAVY_MAX_S)

    def is_heavy(self, heavy_until_s: float, frames: Sequence[bytes]) -> bool:
        """Returns True when others go before a connection that waits with ``frames``.

        A connection is heavy until ``heavy_until_s``. A new one is when a request of its first one's kind was heavy a
        moment ago.
        """
        now_s = self._turns.now_s()
        if heavy_until_s == NEW:
            code = _code(frames[0]) if frames and self._heavy_kinds else None
            heavy_until_s = self._heavy_kinds.get(code, 0.0) if code is not None else 0.0
        return now_s < heavy_until_s

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


def _code(frame: bytes) -> int | None:
    """Returns the request code of a short frame."""
    if len(frame) > KIND_FRAME_BYTES_MAX:
        return None
    try:
        return decode_command(frame).code
    except ProtocolViolation:
        return None
