"""Machines of workers, simulated: a slice of what ``scripts/simulate --workers`` runs."""

from __future__ import annotations

import pytest

from tests.simulation import __main__ as program
from tests.simulation.master_slave.plan import MasterSlavePlan
from tests.simulation.simulating import simulate
from tests.simulation.tally import Tally
from tests.simulation.workers.cluster import HOST, Workers
from tests.simulation.workers.liveness import LOOK_US, SEND_WAIT_US_MAX
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
def test_a_worker_that_answers_nothing_though_it_is_well_is_noticed() -> None:
    async def silence(cluster: Workers) -> None:
        cluster.network.cuts |= {(cluster.probes["broker-a-1"].process.host, HOST)}
        await cluster.operator.sleep(SEND_WAIT_US_MAX + 2 * LOOK_US)
        cluster.network.heal(set(cluster.network.cuts))

    report = simulate(hunting_plan(1), story=silence)
    assert len(report.violations) == 1 and report.violations[0].startswith("no send to broker-a-1 for")


@pytest.mark.slow
def test_seeds() -> None:
    tally = Tally()
    for seed in range(1, 4):
        report = simulate(drawn(seed))
        tally.add(report)
        assert not report.violations, f"scripts/simulate --workers --seed {seed} --trace: {report.violations}"
    assert "3 seeds with a machine of workers" in str(tally)
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
