"""Whole brokers in Raft groups, simulated: a slice of what ``scripts/simulate --raft`` runs."""

from __future__ import annotations

import pytest

from tests.simulation.raft.plan import WEIGHTS, drawn, hunting_plan
from tests.simulation.simulating import simulate


@pytest.mark.slow
def test_a_group_keeps_its_promises() -> None:
    report = simulate(hunting_plan(3))
    assert not report.violations
    assert report.faults.total() > 0
    assert report.operations["elections"] > 1
    assert report.operations["sends acked"] > 0
    assert report.operations["topic changes acked"] > 0


@pytest.mark.slow
def test_a_group_that_elects_leaders_goes_on_with_lite_topics() -> None:
    report = simulate(hunting_plan(3, "lites"))
    assert not report.violations
    assert report.operations["elections"] > 1
    assert report.operations["acknowledgements of lite messages"] > 0
    assert report.operations["lite topics expired at the end"] > 0


@pytest.mark.slow
def test_a_group_that_elects_leaders_goes_on_by_priority() -> None:
    report = simulate(hunting_plan(3, "priorities"))
    assert not report.violations
    assert report.operations["elections"] > 1
    assert report.operations["pops by priority with a choice"] > 0
    assert report.operations["priorities kept by retries"] > 0


def test_plans_differ() -> None:
    plans = [drawn(seed) for seed in range(100)]
    assert {plan.node_count for plan in plans} == {3, 5}
    assert {plan.group_count for plan in plans} == {1, 2}
    assert {plan.is_sync_flush for plan in plans} == {True, False}
    assert {kind for plan in plans for kind in plan.kinds} == set(WEIGHTS)
