"""Whole brokers in Raft groups, simulated: a slice of what ``scripts/simulate --raft`` runs."""

from __future__ import annotations

import pytest

from tests.planting import Bug
from tests.simulation.mutations import caught_by
from tests.simulation.raft.plan import WEIGHTS, drawn, hunting_plan
from tests.simulation.raft.seeded_bugs import BUGS
from tests.simulation.simulating import simulate

BUG_COUNT_MIN = 8


def test_a_group_keeps_its_promises() -> None:
    report = simulate(hunting_plan(3))
    assert not report.violations
    assert report.faults.total() > 0
    assert report.operations["elections"] > 1
    assert report.operations["sends acked"] > 0
    assert report.operations["topic changes acked"] > 0


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    """By the seed that is known to do so; ``scripts/simulate --raft --mutations`` looks in others, too."""
    assert caught_by(bug, hunting_plan, 0) is not None


def test_there_are_many_seeded_bugs() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= BUG_COUNT_MIN


def test_plans_differ() -> None:
    plans = [drawn(seed) for seed in range(100)]
    assert {plan.node_count for plan in plans} == {3, 5}
    assert {plan.group_count for plan in plans} == {1, 2}
    assert {plan.is_sync_flush for plan in plans} == {True, False}
    assert {kind for plan in plans for kind in plan.kinds} == set(WEIGHTS)
