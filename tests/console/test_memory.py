"""The memory budget: its edges, and what follows from it."""

from __future__ import annotations

import pytest

from pymq.console.asking.room import KEPT_BYTES_MAX
from pymq.console.history.rings import SERIES_MAX
from pymq.console.memory import (
    BUDGET_DEFAULT_BYTES,
    BUDGET_MAX_BYTES,
    BUDGET_MIN_BYTES,
    FRAME_BYTES_MAX,
    MACHINE_SHARE,
    PARSED_BYTES_MAX,
    MemoryBudget,
)
from pymq.console.web.streams import STREAMS_OF_OWNER_MAX, TooManyStreams
from pymq.errors import UsageError


def test_the_default_gives_each_limit_its_own_value() -> None:
    budget = MemoryBudget()
    assert budget.total_bytes == BUDGET_DEFAULT_BYTES
    assert (budget.series_max, budget.kept_bytes_max) == (SERIES_MAX, KEPT_BYTES_MAX)
    assert (budget.answers.frame_bytes_max, budget.answers.parsed_bytes_max) == (FRAME_BYTES_MAX, PARSED_BYTES_MAX)
    assert _room_of_one(budget) == STREAMS_OF_OWNER_MAX


def test_limits_shrink_and_grow_with_the_budget() -> None:
    least, twice = MemoryBudget(BUDGET_MIN_BYTES), MemoryBudget(2 * BUDGET_DEFAULT_BYTES)
    assert (least.series_max, least.kept_bytes_max, _room_of_one(least)) == (2_500, KEPT_BYTES_MAX // 8, 2)
    assert least.answers.frame_bytes_max == FRAME_BYTES_MAX // 8
    assert (twice.series_max, twice.answers.parsed_bytes_max) == (2 * SERIES_MAX, 2 * PARSED_BYTES_MAX)


@pytest.mark.parametrize("total_bytes", [BUDGET_MIN_BYTES - 1, BUDGET_MAX_BYTES + 1, 0, -1])
def test_a_budget_out_of_range_is_refused(total_bytes: int) -> None:
    with pytest.raises(UsageError, match="not between"):
        MemoryBudget.of_machine(total_bytes)
    assert MemoryBudget(BUDGET_MIN_BYTES) and MemoryBudget(BUDGET_MAX_BYTES)


def test_a_machine_gives_a_quarter_of_its_memory_and_never_less_than_the_least() -> None:
    small = MACHINE_SHARE * BUDGET_MIN_BYTES * 2
    assert MemoryBudget.of_machine(BUDGET_DEFAULT_BYTES, small).total_bytes == 2 * BUDGET_MIN_BYTES
    assert MemoryBudget.of_machine(BUDGET_DEFAULT_BYTES, 1).total_bytes == BUDGET_MIN_BYTES
    assert MemoryBudget.of_machine(BUDGET_MIN_BYTES, 2**50).total_bytes == BUDGET_MIN_BYTES
    assert MemoryBudget.of_machine(BUDGET_MIN_BYTES).total_bytes == BUDGET_MIN_BYTES


def _room_of_one(budget: MemoryBudget) -> int:
    """Return how many live pages one person may open."""
    streams = budget.streams()
    with pytest.raises(TooManyStreams):
        for _ in range(1_000):
            streams.open("ann")
    return len(streams)
