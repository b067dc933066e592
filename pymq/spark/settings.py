"""Settings that reads, writes and imports share: the time without a broker, losses, strange bodies, sizes of tasks."""

from __future__ import annotations

from typing import Literal

# Seconds. A broker's restart or fail-over ends within it.
RETRY_BUDGET_S = 60.0

DataLoss = Literal["fail", "report"]
BodyErrors = Literal["fail", "replace"]
DATA_LOSS_MODES: tuple[DataLoss, ...] = ("fail", "report")
BODY_ERROR_MODES: tuple[BodyErrors, ...] = ("fail", "replace")

ROWS_PER_TASK = 2_000_000
ROWS_PER_TASK_MIN = 100_000


def rows_of_a_task(planned_rows: int, cores: int) -> int:
    """Return the most rows of a task that leave each core about two tasks, within limits."""
    return min(ROWS_PER_TASK, max(ROWS_PER_TASK_MIN, -(-planned_rows // (2 * cores))))
