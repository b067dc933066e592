"""The meaning of a seed with a machine of workers: whole brokers under one supervisor, which share a topic."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from pymq.broker.replication.history import epoch_history
from tests.simulation.master_slave.plan import MasterSlavePlan
from tests.simulation.network import Link
from tests.simulation.plan import drawn_link
from tests.simulation.timeline import MS, SECOND

WORKER_COUNT = 4
# Of 25 seeds that scripts/simulate draws, one is a machine of workers: 4 %.
WORKERS_EVERY, WORKERS_TURN = 25, 2

# kind of fault -> how often it happens, relative to the others
WEIGHTS = {
    "kill a broker": 6,
    "kills in a row": 3,
    "kill the machine": 2,
    "stop the machine": 2,
    "power loss of the machine": 2,
    "reload": 1,
    "orderly restart": 2,
    "pause": 3,
    "kill a name server": 2,
    "partition": 3,
    "one-way partition": 2,
    "cut connections": 2,
    "half-open connections": 1,
    "slow network": 1,
    "clock jump": 2,
    "full disk": 1,
    "failing fsync": 1,
    "slow disk": 1,
}

# What hunts for seeded bugs, by the first word of a bug's suite.
HUNTED_IN = {
    "seed": ("kill a broker", "kills in a row", "orderly restart"),
    "power": ("power loss of the machine", "kill the machine"),
}


@dataclass(frozen=True, kw_only=True)
class WorkersPlan(MasterSlavePlan):
    """Everything drawn before the first event. Each worker is a master without slaves."""

    worker_count: int = WORKER_COUNT
    quiet_us: int = 300 * SECOND


def is_of_workers(seed: int) -> bool:
    """Return whether a seed of ``scripts/simulate`` is a machine of workers."""
    return seed % WORKERS_EVERY == WORKERS_TURN


def drawn(seed: int) -> WorkersPlan:
    """Return the plan of a seed."""
    chance = random.Random(seed ^ 0x60B5)
    is_sync_flush = chance.random() < 0.4
    settings: dict[str, Any] = {
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "SYNC_FLUSH" if is_sync_flush else "ASYNC_FLUSH",
        "flushIntervalCommitLog": chance.choice((200, 500)),
        "registerNameServerPeriod": 10_000,
    }
    return WorkersPlan(
        seed=seed,
        slave_count=0,
        copies_needed=1,
        epoch_entries_max=epoch_history.ENTRIES_MAX,
        name_server_count=chance.choice((1, 2)),
        producer_count=chance.choice((1, 2, 3)),
        consumer_count=1,
        settings=settings,
        is_sync_flush=is_sync_flush,
        link=drawn_link(chance),
        pace_us=chance.choice((100, 300, 1000)) * MS,
        size_max_bytes=chance.choice((100, 2000, 10_000)),
        duration_us=chance.choice((20, 40, 90)) * SECOND,
        gap_us=chance.choice((1000, 2000, 5000)) * MS,
        kinds=tuple(chance.sample(sorted(WEIGHTS), chance.randrange(3, len(WEIGHTS)))),
    )


def hunting_plan(seed: int, suite: str = "seed") -> WorkersPlan:
    """Return a short and dense plan, in which a bug shows soon. ``suite``: the first word of a bug's suite."""
    return replace(
        drawn(seed),
        producer_count=2,
        link=Link(500, 2000, 0.1),
        pace_us=200 * MS,
        size_max_bytes=500,
        duration_us=15 * SECOND,
        gap_us=2000 * MS,
        kinds=HUNTED_IN[suite],
        quiet_us=60 * SECOND,
        is_impatient=True,
    )
