"""Inner batches in simulated clusters: a batch stays whole at its offsets. ``scripts/simulate --batches``."""

from __future__ import annotations

import pytest

from tests.simulation.master_slave.plan import hunting_plan
from tests.simulation.simulating import simulate

SEEDS = (2, 3)  # fail-overs, and other faults


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_batches_survive_kills_and_fail_overs(seed: int) -> None:
    report = simulate(hunting_plan(seed, "batches"))
    assert not report.violations, report.violations
    assert report.operations["batches stored"] > 0
    assert report.operations["messages of batches read"] > 0
