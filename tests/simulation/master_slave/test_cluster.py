"""Some seeds and all stories; ``scripts/simulate`` runs other seeds."""

from __future__ import annotations

import pytest

from tests.simulation.master_slave.plan import ERA_EVERY, drawn, hunting_plan
from tests.simulation.master_slave.stories import STORIES, tell
from tests.simulation.simulating import simulate
from tests.simulation.tally import Tally

# The seeds are always the same: storms, and an era. They take a quarter of a minute.
SEEDS = (*(seed for seed in range(1, 11) if seed % ERA_EVERY), 20)


@pytest.mark.slow
def test_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    for seed in SEEDS:
        report = simulate(drawn(seed))
        tally.add(report)
        assert not report.violations, f"scripts/simulate --seed {seed} --trace: {report.violations}"
    with capsys.disabled():
        print(f"\n{tally}")
    assert tally.fault_count > 0
    assert tally.operations["sends acked"] > 0


def test_a_seed_is_always_the_same_run() -> None:
    first, second = (simulate(hunting_plan(3), tracing=True) for _ in range(2))
    assert first.trace == second.trace
    assert (first.event_count, first.faults, first.operations) == (second.event_count, second.faults, second.operations)


def test_plans_differ() -> None:
    plans = [drawn(seed) for seed in range(200)]
    assert {plan.slave_count for plan in plans} == {1, 2, 3}
    assert {plan.copies_needed for plan in plans} == {1, 2, 3}
    assert {plan.is_sync_flush for plan in plans} == {True, False}
    assert drawn(7) == drawn(7)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_story_has_no_violations(name: str) -> None:
    report = tell(name)
    assert not report.violations
    assert sum(report.faults.values()) > 0
