"""ConnectionAccount: what one connection's calls hold, as the process's memory budget counts it."""

from __future__ import annotations

from collections.abc import Callable

from pymq.net.memory_budget import GRPC_CALLS, MemoryBudget

COUNTED_BYTES = 64 * 1024  # the budget hears of changes by so much


class ConnectionAccount:
    """Sizes in bytes. Over the budget, counting more closes connections."""

    __slots__ = ("_budget", "_buffered", "counted", "held", "kept", "waiting")

    def __init__(self, budget: MemoryBudget, buffered: Callable[[], int]) -> None:
        """``buffered`` measures the connection's buffers."""
        self.held = 0  # of requests that are not whole, or not taken
        self.kept = 0  # for calls until their end
        self.waiting = 0  # of whole requests that wait for others to be served: a part of ``held``
        self._budget = budget
        self._buffered = buffered
        self.counted = 0  # by the budget

    def measure(self) -> int:
        """Measure, count and return what is held."""
        size_bytes = self.held + self.kept + self._buffered()
        self._budget.hold(GRPC_CALLS, size_bytes - self.counted)
        self.counted = size_bytes
        return size_bytes

    def note(self) -> None:
        """Count what is held, if it has changed by much."""
        change = self.held + self.kept - self.counted
        if not -COUNTED_BYTES < change < COUNTED_BYTES:
            self.measure()
            if change > 0 and self._budget.is_over:
                self._budget.relieve()
