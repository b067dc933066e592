"""Priorities in simulated clusters: what waits goes by priority, and keeps it. ``scripts/simulate --priorities``."""

from __future__ import annotations

import pytest

from tests.simulation.master_slave.plan import hunting_plan
from tests.simulation.simulating import simulate

SEEDS = (2, 9)  # fail-overs, and a stream of messages that outruns the pops


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_priorities_survive_kills_and_fail_overs(seed: int) -> None:
    report = simulate(hunting_plan(seed, "priorities"))
    assert not report.violations, report.violations
    assert report.faults.total() > 0
    done = report.operations
    assert done["priority acknowledgements"] > 0
    assert done["pops by priority with a choice"] > 0
    assert done["pops that passed over waiting priorities"] > 0
    assert done["priorities kept by retries"] > 0
    assert done["priorities checked on brokers"] > done["messages with priorities stored"] > 0
