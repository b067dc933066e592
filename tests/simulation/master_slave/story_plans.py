"""The plans of the clusters that stories run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.master_slave.plan import MIN_ENTRIES_MAX, MasterSlavePlan, drawn
from tests.simulation.network import Link
from tests.simulation.timeline import MS, SECOND


def usual_plan() -> MasterSlavePlan:
    """A master and a slave, one producer in a hurry; ASYNC_MASTER, so that no send waits for a separated slave."""
    plan = drawn(1)
    settings = plan.settings | {
        "brokerRole": "ASYNC_MASTER", "inSyncReplicas": 2, "flushDiskType": "ASYNC_FLUSH", "slaveSyncInterval": 300,
        "flushIntervalCommitLog": 200, "haSendHeartbeatInterval": 500, "haHousekeepingInterval": 5000,
        "haListenPort": 10912,
    }  # fmt: skip
    return replace(
        plan, slave_count=1, name_server_count=1, producer_count=1, consumer_count=1, settings=settings,
        copies_needed=1, is_sync_flush=False, has_priorities=False, epoch_entries_max=MIN_ENTRIES_MAX, tick_us=100 * MS,
        link=Link(500, 200, 0.0), pace_us=50 * MS,
        size_max_bytes=200, duration_us=180 * SECOND, kinds=(), quiet_us=150 * SECOND,
    )  # fmt: skip


def careless_plan() -> MasterSlavePlan:
    """The usual plan, but the master flushes nothing by itself."""
    plan = usual_plan()
    settings = {"flushIntervalCommitLog": 60_000, "flushCommitLogLeastPages": 1_000_000}
    return replace(plan, settings=plan.settings | settings)


def promising_plan() -> MasterSlavePlan:
    """The careless plan with a SYNC_MASTER, which answers for what its slave has."""
    plan = careless_plan()
    return replace(plan, settings=plan.settings | {"brokerRole": "SYNC_MASTER"}, copies_needed=2)


def syncing_plan() -> MasterSlavePlan:
    """The promising plan with SYNC_FLUSH: master and slave answer for what is on their disks."""
    plan = promising_plan()
    return replace(plan, settings=plan.settings | {"flushDiskType": "SYNC_FLUSH"}, is_sync_flush=True)


def pieces_plan() -> MasterSlavePlan:
    """The usual plan, but tables go to slaves in small pieces."""
    return replace(usual_plan(), has_pieces=True)


PLANS: dict[str, Callable[[], MasterSlavePlan]] = {
    "come back after many epochs": careless_plan,
    "commit to a slave what its master hides": syncing_plan,
    "delete a topic between two pieces": pieces_plan,
    "fail over between two pieces": pieces_plan,
    "fail over with what came last": promising_plan,
    "fail over with what came behind a copy": promising_plan,
    "lose the masters power": promising_plan,
    "lose power while the slave is dead": promising_plan,
}


def plan_of(story: str) -> MasterSlavePlan:
    """Return the plan of the story's cluster."""
    return PLANS.get(story, usual_plan)()
