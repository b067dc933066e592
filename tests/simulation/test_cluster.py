"""What holds for a run of any kind of cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.cluster import Cluster
from tests.simulation.master_slave.story_plans import usual_plan
from tests.simulation.plan import Plan
from tests.simulation.raft.plan import hunting_plan
from tests.simulation.simulating import simulate

PLANS = pytest.mark.parametrize("plan", [usual_plan(), hunting_plan(1)], ids=["master and slave", "Raft group"])


async def break_a_promise(cluster: Cluster) -> None:
    cluster.history.violated("a promise is broken")


async def kill_all(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        cluster.history.incident(cluster.timeline.now_us, "kill", broker.name)
        broker.kill()


@pytest.mark.slow
@PLANS
def test_an_impatient_run_ends_with_the_first_broken_promise(plan: Plan) -> None:
    patient, impatient = (
        simulate(replace(plan, is_impatient=is_impatient), story=break_a_promise) for is_impatient in (False, True)
    )
    assert patient.violations == impatient.violations == ["a promise is broken"]
    assert impatient.simulated_us < patient.simulated_us


@pytest.mark.slow
@PLANS
def test_all_brokers_start_again_at_the_end(plan: Plan) -> None:
    report = simulate(plan, story=kill_all)
    assert not report.violations
    assert report.operations["sends acked"] > 0
