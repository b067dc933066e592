"""Some seeds, all stories and all seeded bugs; ``scripts/simulate`` runs other seeds."""

from __future__ import annotations

import pytest

from tests.planting import Bug
from tests.simulation.master_slave.plan import ERA_EVERY, drawn, hunting_plan
from tests.simulation.master_slave.seeded_bugs import BUGS
from tests.simulation.master_slave.stories import STORIES, tell
from tests.simulation.mutations import caught_by
from tests.simulation.simulating import simulate
from tests.simulation.tally import Tally

# The seeds are always the same: storms, and an era. They take a quarter of a minute.
SEEDS = (*(seed for seed in range(1, 11) if seed % ERA_EVERY), 20)
BUG_COUNT_MIN = 22
SEARCHED_SEEDS = 20  # tried after the story or seed that the bug names


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


@pytest.mark.parametrize("name", STORIES)
def test_a_story_has_no_violations(name: str) -> None:
    report = tell(name)
    assert not report.violations
    assert sum(report.faults.values()) > 0


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    found = caught_by(bug, hunting_plan, SEARCHED_SEEDS)
    assert found is not None, f"{bug} passed {bug.suites} and {SEARCHED_SEEDS} seeds"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted(bug: Bug) -> None:
    """A fast check, which fails first when the product changes and a seeded bug does not follow."""
    with bug.planted():
        pass


def test_there_are_many_seeded_bugs() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= BUG_COUNT_MIN
