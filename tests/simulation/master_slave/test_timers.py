"""Timer messages in simulated clusters: each comes once it is due, and never before. ``scripts/simulate --timers``."""

from __future__ import annotations

import pytest

from tests.simulation.master_slave.plan import hunting_plan
from tests.simulation.simulating import simulate

SEEDS = (1, 31)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_timers_survive_kills_fail_overs_and_clock_jumps(seed: int) -> None:
    report = simulate(hunting_plan(seed, "timers"))
    assert not report.violations, report.violations
    assert report.operations["timers delivered"] > 0
    assert report.operations["recalls acked"] > 0
