"""Timer messages in simulated clusters: each comes once it is due, and never before. ``scripts/simulate --timers``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.cluster import simulate
from tests.simulation.mutations import hunting_plan

SEEDS = (1, 31)


@pytest.mark.parametrize("seed", SEEDS)
def test_timers_survive_kills_fail_overs_and_clock_jumps(seed: int) -> None:
    report = simulate(seed, plan=replace(hunting_plan(seed), has_timers=True))
    assert not report.violations, report.violations
    assert report.operations["timers delivered"] > 0
    assert report.operations["recalls acked"] > 0
