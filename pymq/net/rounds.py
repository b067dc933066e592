"""Rounds: shares the event loop's time among connections that pour in requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pymq.errors import ProtocolViolation
from pymq.net.turn_watch import TurnWatch
from pymq.wire.command import decode_command

SLICE_S = 0.01  # for which one connection is served without others in between
# After so much work in a round, each connection that comes gets one step, and rests; a heavy one rests at once. After
# twice as much, every one rests at once.
ROUND_S = 0.02
HEAVY_S = 0.005  # a read that took more CPU time makes its connection heavy: others go first,
HEAVY_FACTOR = 1_000  # for so much longer, so that of up to so many such connections few are light at a time,
HEAVY_MAX_S = 20.0  # but not longer than this.
# What the system's part of a read costs, beside the time that :meth:`Connection.data_received` measures: copies, pages
# for them, and packets that the peer sends when it learns of the room. Measured on loopback.
READ_S_PER_BYTE = 0.5e-9
# Connections in the midst of a large frame take turns, so that a round reads so much of such frames, and not a piece
# from each of thousands.
PIECE_BYTES_MIN = 16 * 1024  # a read of so much, without a whole frame, is a piece
PIECE_BYTES = 64 * 1024  # of a connection whose next piece may have any size
PIECES_BYTES_MAX = 4 * 1024 * 1024
KIND_HEAVY_S = 1.0  # for which the kind of its request is heavy too. That counts for connections that are new.
KIND_FRAME_BYTES_MAX = 64 * 1024  # a longer request is not looked at
HEAVY_KINDS_MAX = 100
NEW = -1.0  # in place of a time: no request was served yet
STEP_FRAMES = 8  # served on the fast path between two looks at the time
# A connection is prompt when its last answers were this small together, and so few requests of it wait. So many prompt
# ones go before all others in a round, and need not wait until the memory of closed connections is free. The first one
# that gets a larger answer ends that: a round makes one such answer more than the memory budget has room for.
PROMPT_ANSWERS_BYTES_MAX = 32 * 1024
PROMPT_FRAMES_MAX = 8
PROMPT_MAX = 8


class Resting(Protocol):
    """A connection that is neither read nor served."""

    @property
    def is_prompt(self) -> bool:
        """See :func:`is_prompt`."""
        ...

    def end_rest(self, *, waits_for_memory: bool = True) -> None:
        """Continue for a slice of time. It may rest again, as it does while memory is to become free."""
        ...

    def rest_in_frame(self) -> None:
        """Rest if the peer is in the midst of a frame, or has sent none so far."""
        ...


class Rounds:
    """Continues resting connections in their order, between the event loop's looks at others."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], None], turns: TurnWatch) -> None:
        """``call_soon`` runs a function in the loop's next round; ``turns`` has the time."""
        self.read_s = 0.0  # the time that reads have taken in this round, with the system's part
        self._call_soon = call_soon
        self._turns = turns
        self._prompt: deque[Resting] = deque()
        self._light: deque[Resting] = deque()
        self._heavy: deque[Resting] = deque()
        self._in_pieces: deque[tuple[Resting, int]] = deque()  # each with the bytes of its last read
        self._is_scheduled = False
        self._has_ended_reads = False
        self._heavy_kinds: dict[int, float] = {}  # request code -> until when

    @property
    def resting_count(self) -> int:
        """The number of connections that rest."""
        return len(self._prompt) + len(self._light) + len(self._heavy) + len(self._in_pieces)

    def rest(self, connection: Resting, *, is_heavy: bool, piece_bytes: int = 0) -> None:
        """Continue with ``connection`` in a later round, after all that rest already. Call it once for each rest.

        Prompt connections come before the others, heavy ones after them, and then those whose last read was a piece of
        a frame: ``piece_bytes``, 0 when frames wait.
        """
        if piece_bytes >= PIECE_BYTES_MIN:
            self._in_pieces.append((connection, piece_bytes))
        elif is_heavy:
            self._heavy.append(connection)
        elif len(self._prompt) < PROMPT_MAX and connection.is_prompt:
            self._prompt.append(connection)
        else:
            self._light.append(connection)
        self._schedule()

    def end_reads(self, connections: Iterable[Resting]) -> None:
        """Have connections in the midst of a frame rest, once a round: the loop reads from all with new bytes.

        A look at thousands of them takes some ms, the reads of their pieces hundreds.
        """
        if not self._has_ended_reads:
            self._has_ended_reads = True
            for connection in connections:
                connection.rest_in_frame()

    def note_work(self, frames: list[bytes], took_s: float, begun_s: float, address: str) -> float:
        """Take note of a time above HEAVY_S that serving ``frames`` of ``address`` took, from ``begun_s`` on.

        Returns until when their connection is heavy, 0.0 when they took little CPU time: others had the CPU meanwhile.
        """
        cpu_s = self._turns.cpu_taken_s(took_s)
        if took_s > self._turns.unnoted_s:
            self._turns.note_frames(begun_s, frames, address)
        if cpu_s <= HEAVY_S:
            return 0.0
        code = _code(frames[0]) if frames else None
        if code is not None:
            if len(self._heavy_kinds) >= HEAVY_KINDS_MAX:
                self._heavy_kinds.clear()
            self._heavy_kinds[code] = begun_s + KIND_HEAVY_S
        return begun_s + min(cpu_s * HEAVY_FACTOR, HEAVY_MAX_S)

    def is_heavy(self, heavy_until_s: float, frames: Sequence[bytes]) -> bool:
        """Return True when others go before a connection that waits with ``frames``.

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
        """Serve resting connections for ROUND_S; one of each kind in any case."""
        self._is_scheduled = self._has_ended_reads = False
        self.read_s = 0.0
        end_s = self._turns.now_s() + ROUND_S
        try:
            self._continue_prompt(end_s)
            for queue in (self._light, self._heavy):
                for number in range(len(queue)):
                    if number and self._turns.now_s() >= end_s:
                        break
                    queue.popleft().end_rest()
            self._continue_pieces(end_s)
        finally:
            if self.resting_count:
                self._schedule()

    def _continue_prompt(self, end_s: float) -> None:
        """Serve the prompt connections until one of them gets a large answer."""
        for number in range(len(self._prompt)):
            if number and self._turns.now_s() >= end_s:
                break
            connection = self._prompt.popleft()
            connection.end_rest(waits_for_memory=False)
            if not connection.is_prompt:
                break

    def _continue_pieces(self, end_s: float) -> None:
        """Have the next pieces of frames read, PIECES_BYTES_MAX together if they are as large as the last ones."""
        left_bytes = PIECES_BYTES_MAX
        for _ in range(len(self._in_pieces)):
            connection, piece_bytes = self._in_pieces.popleft()
            connection.end_rest()
            left_bytes -= piece_bytes
            if left_bytes <= 0 or self._turns.now_s() >= end_s:
                break


def is_prompt(answers_bytes: int, waiting_count: int) -> bool:
    """Return True for a connection whose last answers were small together, and of which few requests wait."""
    return answers_bytes <= PROMPT_ANSWERS_BYTES_MAX and waiting_count <= PROMPT_FRAMES_MAX


def _code(frame: bytes) -> int | None:
    """Return the request code of a short frame."""
    if len(frame) > KIND_FRAME_BYTES_MAX:
        return None
    try:
        return decode_command(frame).code
    except ProtocolViolation:
        return None
