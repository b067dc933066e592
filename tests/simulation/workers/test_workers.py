"""Machines of workers, simulated: a slice of what ``scripts/simulate --workers`` runs."""

from __future__ import annotations

import pytest

from tests.simulation import __main__ as program
from tests.simulation.master_slave.plan import MasterSlavePlan
from tests.simulation.simulating import simulate
from tests.simulation.tally import Tally
from tests.simulation.workers.plan import WEIGHTS, WORKERS_EVERY, WorkersPlan, drawn, hunting_plan


@pytest.mark.slow
def test_workers_keep_their_promises_while_some_of_them_are_down() -> None:
    report = simulate(hunting_plan(1))
    assert not report.violations
    assert report.faults["kills in a row"] > 0
    assert report.operations["workers left down"] > 0
    assert report.operations["starts of workers"] > 8
    assert report.operations["sends acked"] > 0


@pytest.mark.slow
def test_seeds() -> None:
    tally = Tally()
    for seed in range(1, 4):
        report = simulate(drawn(seed))
        tally.add(report)
        assert not report.violations, f"scripts/simulate --workers --seed {seed} --trace: {report.violations}"
    assert "3 machines with workers" in str(tally)
    assert tally.faults["power loss of the machine"] + tally.faults["kill the machine"] > 0


def test_plans_differ() -> None:
    plans = [drawn(seed) for seed in range(200)]
    assert {plan.is_sync_flush for plan in plans} == {True, False}
    assert {kind for plan in plans for kind in plan.kinds} == set(WEIGHTS)
    assert drawn(7) == drawn(7)


def test_one_seed_of_twenty_five_is_a_machine_of_workers() -> None:
    plans = [program._plan(seed, []) for seed in range(1, 1 + 4 * WORKERS_EVERY)]
    of_workers = [plan for plan in plans if isinstance(plan, WorkersPlan)]
    assert len(of_workers) == 4 and {plan.worker_count for plan in of_workers} == {4}
    assert all(isinstance(plan, MasterSlavePlan) for plan in plans)
