"""Memory budget: how much a console holds at most for those who look, and what each of its parts gets of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pymq.client.admin.connection import AnswerLimits
from pymq.console.asking.room import KEPT_BYTES_MAX
from pymq.console.history.rings import SERIES_MAX
from pymq.console.web.streams import STREAM_COUNT_MAX, STREAMS_OF_OWNER_MAX, Streams
from pymq.errors import UsageError
from pymq.net.machine import memory_bytes
from pymq.net.memory_budget import LIMIT_DEFAULT_BYTES
from pymq.units import format_bytes

MIB: Final = 1024 * 1024
BUDGET_DEFAULT_BYTES: Final = LIMIT_DEFAULT_BYTES
BUDGET_MIN_BYTES: Final = 32 * MIB
BUDGET_MAX_BYTES: Final = 64 * 1024 * MIB
MACHINE_SHARE: Final = 4  # a budget is at most this part of the machine's memory: a quarter
# A broker's answer about 20,000 topics has 4 MiB, and takes 22 MiB parsed.
FRAME_BYTES_MAX: Final = 8 * MIB
PARSED_BYTES_MAX: Final = 48 * MIB


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Limits that grow with a budget. With :data:`BUDGET_DEFAULT_BYTES` each has the value that its module names."""

    total_bytes: int = BUDGET_DEFAULT_BYTES

    def __post_init__(self) -> None:
        if not BUDGET_MIN_BYTES <= self.total_bytes <= BUDGET_MAX_BYTES:
            raise UsageError(
                f"a memory budget of {format_bytes(self.total_bytes)} is not between {format_bytes(BUDGET_MIN_BYTES)} "
                f"and {format_bytes(BUDGET_MAX_BYTES)}: give another one"
            )

    @classmethod
    def of_machine(cls, total_bytes: int, machine_bytes: int | None = None) -> MemoryBudget:
        """Return a budget of at most a quarter of the machine's memory. Raises UsageError for one out of range."""
        wanted = cls(total_bytes)
        share_bytes = (memory_bytes() if machine_bytes is None else machine_bytes) // MACHINE_SHARE
        return cls(max(BUDGET_MIN_BYTES, min(wanted.total_bytes, share_bytes)))

    @property
    def series_max(self) -> int:
        """The number of series of the last hour: a quarter of the budget, 3.3 KB each."""
        return self._scaled(SERIES_MAX)

    @property
    def kept_bytes_max(self) -> int:
        """The size of the kept answers of all persons: half of the budget."""
        return self._scaled(KEPT_BYTES_MAX)

    @property
    def answers(self) -> AnswerLimits:
        """How large an answer of a server may be."""
        return AnswerLimits(self._scaled(FRAME_BYTES_MAX), self._scaled(PARSED_BYTES_MAX))

    def streams(self) -> Streams:
        """Return the room for live pages."""
        return Streams(self._scaled(STREAMS_OF_OWNER_MAX), self._scaled(STREAM_COUNT_MAX))

    def _scaled(self, limit: int) -> int:
        return limit * self.total_bytes // BUDGET_DEFAULT_BYTES
