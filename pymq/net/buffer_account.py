"""BufferAccount: what one connection's buffers hold, as the process's budget counts it."""

from __future__ import annotations

import asyncio

from pymq.net.memory_budget import UNFINISHED_FRAMES, UNREAD_ANSWERS, WAITING_FRAMES, MemoryBudget

# A peer that takes less than this while a stall is measured reads nothing.
READ_BYTES_MIN = 16 * 1024
LOOK_MS_MAX = 1000  # between two looks; a server that looks later has not had the time to write either


class BufferAccount:
    """The sizes that were counted last, in bytes. Over the budget, counting more closes connections."""

    __slots__ = ("_budget", "_largest_write", "_stall", "_unread_kind", "_written", "unfinished", "unread", "waiting")

    def __init__(self, budget: MemoryBudget, unread_kind: str = UNREAD_ANSWERS) -> None:
        """``unread_kind``: what the budget calls bytes that the peer has not read."""
        self._budget = budget
        self._unread_kind = unread_kind
        self.unfinished = 0
        self.waiting = 0
        self.unread = 0
        self._largest_write = 0  # since the peer had read everything
        self._written = 0  # of all writes that were counted
        # While the peer reads nothing: what it had taken in all, when that was seen last, and for how long (ms).
        self._stall: tuple[int, int, int] | None = None

    @property
    def size_bytes(self) -> int:
        """What all buffers hold."""
        return self.unfinished + self.waiting + self.unread

    def note_unfinished(self, size_bytes: int) -> None:
        """Count the received part of a frame."""
        grows = size_bytes > self.unfinished
        self._budget.hold(UNFINISHED_FRAMES, size_bytes - self.unfinished)
        self.unfinished = size_bytes
        if grows and self._budget.is_over:
            self._budget.relieve()

    def note_waiting(self, frames: list[bytes]) -> None:
        """Count frames that wait; with none, that no frame waits any more."""
        size_bytes = sum(map(len, frames)) if frames else -self.waiting
        self._budget.hold(WAITING_FRAMES, size_bytes)
        self.waiting += size_bytes
        if size_bytes > 0 and self._budget.is_over:
            self._budget.relieve()

    def note_write(self, unread_before: int, size_bytes: int) -> None:
        """Count answers that the transport has got to write."""
        self._written += size_bytes
        self._largest_write = max(self._largest_write, size_bytes) if unread_before else size_bytes
        self._count_unread(unread_before + size_bytes)
        if self._budget.is_over:
            self._budget.relieve()

    def measure_unread(self, transport: asyncio.WriteTransport) -> None:
        """Count what the peer has not read yet."""
        if self.unread:
            unread = transport.get_write_buffer_size()
            if unread:  # a write of which the peer has taken a part stays in memory whole
                unread = min(unread + self._largest_write, self.unread)
            self._count_unread(unread)

    def has_stalled(self, left_bytes: int, now_ms: int, for_ms: int) -> bool:
        """Return True when the memory budget has no room, and the peer has read nothing for so long.

        ``left_bytes``: see :func:`~pymq.net.writing.left_to_send`. Of the time between two looks at most LOOK_MS_MAX
        counts.
        """
        taken = self._written - left_bytes
        if self._stall is None or not left_bytes or taken - self._stall[0] >= READ_BYTES_MIN:
            self._stall = (taken, now_ms, 0) if left_bytes else None
            return False
        taken_before, seen_ms, stalled_ms = self._stall
        stalled_ms += min(now_ms - seen_ms, LOOK_MS_MAX)
        self._stall = (taken_before, now_ms, stalled_ms)
        return stalled_ms >= for_ms and not self._budget.has_room()

    def release(self) -> None:
        """Count nothing any more."""
        self._budget.hold(UNFINISHED_FRAMES, -self.unfinished)
        self._budget.hold(WAITING_FRAMES, -self.waiting)
        self._budget.hold(self._unread_kind, -self.unread)
        self.unfinished = self.waiting = self.unread = 0

    def _count_unread(self, size_bytes: int) -> None:
        if size_bytes != self.unread:
            self._budget.hold(self._unread_kind, size_bytes - self.unread)
            self.unread = size_bytes
