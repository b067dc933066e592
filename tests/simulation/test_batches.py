"""Inner batches in simulated clusters: a batch stays whole at its offsets. ``scripts/simulate --batches``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.cluster import simulate
from tests.simulation.mutations import hunting_plan

SEEDS = (2, 3)  # fail-overs, and other faults


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_survive_kills_and_fail_overs(seed: int) -> None:
    report = simulate(seed, plan=replace(hunting_plan(seed), has_batches=True))
    assert not report.violations, report.violations
    assert report.operations["batches stored"] > 0
    assert report.operations["messages of batches read"] > 0
