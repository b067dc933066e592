"""The meaning of a seed with Raft groups: how many nodes and groups, what clients do, and which faults come."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.simulation.network import Link
from tests.simulation.plan import Plan, drawn_link
from tests.simulation.timeline import MS, SECOND

SYNC_EVERY = 2  # seeds: every second one has SYNC_FLUSH
LITES_EVERY = PRIORITIES_EVERY = 4

# kind of fault -> how often it happens, relative to the others
WEIGHTS = {
    "kill a broker": 4,
    "kill the leader": 4,
    "power loss of a broker": 3,
    "power loss of the leader": 2,
    "power loss of all": 1,
    "orderly restart": 2,
    "pause": 3,
    "pause the leader": 3,
    "kill a name server": 1,
    "partition": 4,
    "one-way partition": 4,
    "flapping link": 3,
    "cut connections": 4,
    "half-open connections": 2,
    "slow network": 2,
    "clock jump": 2,
    "full disk": 2,
    "failing fsync": 2,
    "slow disk": 2,
    "emptied disk": 2,
    "lying disk": 2,
    "transfer": 3,
    "remove a member": 2,
    "isolate the leader": 4,
}


# What hunts for seeded bugs: most of these faults, or the ones that the first word of a bug's suite names.
HUNTED = ("kill the leader", "isolate the leader", "emptied disk", "power loss of a broker", "kill a broker")
HUNTED_IN = {
    "seed": HUNTED, "lites": HUNTED, "priorities": HUNTED,
    "lying": (*HUNTED, "lying disk"), "fsync": ("failing fsync",),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RaftPlan(Plan):
    """Everything drawn before the first event."""

    group_count: int
    node_count: int
    has_lites: bool = False  # see master_slave/lites.py
    has_priorities: bool = False  # see master_slave/priorities.py
    quiet_us: int = 180 * SECOND


def drawn(seed: int) -> RaftPlan:
    """Return the plan of a seed."""
    chance = random.Random(seed ^ 0x2AF7)
    is_sync_flush = seed % SYNC_EVERY == 0
    node_count = 5 if chance.random() < 0.2 else 3
    return RaftPlan(
        seed=seed,
        group_count=2 if chance.random() < 0.15 else 1,
        node_count=node_count,
        name_server_count=chance.choice((1, 2)),
        producer_count=chance.choice((1, 2, 3)),
        consumer_count=chance.choice((1, 2)),
        settings={
            "flushDiskType": "SYNC_FLUSH" if is_sync_flush else "ASYNC_FLUSH",
            "flushIntervalCommitLog": chance.choice((200, 500)),
            "registerNameServerPeriod": 10_000,
        },
        is_sync_flush=is_sync_flush,
        link=drawn_link(chance),
        pace_us=chance.choice((100, 300, 1000)) * MS,
        size_max_bytes=chance.choice((100, 2000, 10_000)),
        duration_us=chance.choice((15, 25, 40)) * SECOND,
        gap_us=chance.choice((500, 1000, 2000, 5000)) * MS,
        kinds=tuple(chance.sample(sorted(WEIGHTS), chance.randrange(4, len(WEIGHTS)))),
        has_lites=seed % LITES_EVERY == 3,
        has_priorities=seed % PRIORITIES_EVERY == 1,
    )


def hunting_plan(seed: int, suite: str = "seed") -> RaftPlan:
    """Return a short and dense plan, in which a bug shows soon. ``suite``: the first word of a bug's suite."""
    return replace(
        drawn(seed),
        group_count=1,
        node_count=3,
        producer_count=2,
        consumer_count=1,
        link=Link(500, 2000, 0.1),
        pace_us=100 * MS,
        size_max_bytes=500,
        duration_us=12 * SECOND,
        gap_us=1500 * MS,
        kinds=HUNTED_IN[suite],
        has_lites=suite == "lites",
        has_priorities=suite == "priorities",
        quiet_us=60 * SECOND,
        is_impatient=True,
    )
