"""Lite topics in simulated clusters: each message is acknowledged or a dead letter. ``scripts/simulate --lites``."""

from __future__ import annotations

import pytest

from tests.simulation.master_slave.plan import hunting_plan
from tests.simulation.simulating import simulate

SEEDS = (8, 79)  # fail-overs, and full disks


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_lite_topics_survive_kills_and_fail_overs(seed: int) -> None:
    report = simulate(hunting_plan(seed, "lites"))
    assert not report.violations, report.violations
    done = report.operations
    assert done["acknowledgements of lite messages"] > 0
    assert done["lite subscriptions taken away"] > 0
    assert done["lite topics expired at the end"] > 0
