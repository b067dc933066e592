"""The meaning of a seed: how the cluster is made, what its clients do, and what happens to it.

Most seeds are *storms*: minutes with a fault every few seconds and clients in a hurry. Every fifth is an *era*: hours
of a cluster's life with a message now and then and a fault a minute. Eras show what needs time: registrations, tokens
and connections that grow old, many epochs, pending offsets, files that come and go.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from pymq.broker.replication.history import epoch_history
from tests.simulation.plan import Plan, drawn_link
from tests.simulation.timeline import MS, SECOND

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
ERA_EVERY = 5  # seeds
LIAR_EVERY = 3  # seeds
DEALS_EVERY = 4  # seeds
LOG_BYTES_MAX = 48 * 1024 * 1024  # that one plan's producers write, about: each broker keeps it twice in memory
POPPER_EVERY = 4  # seeds
PIECES_EVERY = 4
LITES_EVERY = 8
PRIORITIES_EVERY = 8
PROOFS_EVERY = 5
MIN_ENTRIES_MAX = 5  # a shorter epoch history can't be merged

# kind of fault -> how often it happens, relative to the others
WEIGHTS = {
    "kill a broker": 4,
    "kill the master": 4,
    "power loss of a broker": 2,
    "power loss of the master": 2,
    "orderly restart": 2,
    "pause": 3,
    "kill a name server": 2,
    "partition": 4,
    "one-way partition": 3,
    "cut connections": 5,
    "half-open connections": 2,
    "slow network": 2,
    "clock jump": 2,
    "full disk": 2,
    "failing fsync": 1,
    "slow disk": 2,
    "hand over": 3,
    "fail over": 3,
    "forced fail over": 1,
    "topic change": 1,
}


# What a bug's suite, by its first word, adds to a hunting plan.
ADDED_IN: dict[str, dict[str, Any]] = {
    "seed": {},
    "liar": {"has_liar": True},
    "deal": {"dealer_count": 2},
    "timers": {"has_timers": True},
    "pops": {"has_popper": True},
    "batches": {"has_batches": True},
    "lites": {"has_lites": True},
    "priorities": {"has_priorities": True},
    "pieces": {"has_pieces": True},
    "proofs": {"has_proofs": True},
}
NOTHING_ADDED: dict[str, Any] = {
    "has_liar": False, "dealer_count": 0, "has_timers": False, "has_popper": False, "has_batches": False,
    "has_lites": False, "has_priorities": False, "has_pieces": False, "has_proofs": False,
}  # fmt: skip
FAIL_OVERS = (
    "kill the master", "power loss of the master", "fail over", "hand over", "kill a broker", "cut connections",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MasterSlavePlan(Plan):
    """Everything drawn before the first event."""

    slave_count: int
    copies_needed: int  # how many logs must hold a message when its send is answered; 1: ASYNC_MASTER
    epoch_entries_max: int  # in an epoch history; with few entries, merging comes soon
    quiet_us: int = 600 * SECOND
    has_liar: bool = False  # see liar.py
    dealer_count: int = 0  # see dealing.py
    has_timers: bool = False  # see timers.py
    has_popper: bool = False  # see pops.py
    has_batches: bool = False  # see batches.py
    has_lites: bool = False  # see lites.py
    has_priorities: bool = False  # see priorities.py
    has_pieces: bool = False  # see pieces.py
    has_proofs: bool = False  # slaves and masters prove to have the credentials of servers

    @property
    def warm_up_us(self) -> int:
        """The time until there are messages on the disks.

        A log that a power loss empties no longer copies any other, and needs an operator.
        """
        return max(self.flush_age_us or 2 * SECOND, 3 * self.pace_us)

    @property
    def flush_age_us(self) -> int | None:
        """The age up to which an answered message may be in page caches only; None when it never is."""
        if self.is_sync_flush:
            return None
        return (int(self.settings["flushIntervalCommitLog"]) * MS + self.tick_us) * 2 + 6 * SECOND


def drawn(seed: int) -> MasterSlavePlan:
    """Return the plan of a seed."""
    storm = _storm(seed)
    return _bounded(storm if seed % ERA_EVERY else _era(storm))


def _bounded(plan: MasterSlavePlan) -> MasterSlavePlan:
    """Return the plan with messages so small that its log stays within LOG_BYTES_MAX."""
    message_count = plan.producer_count * plan.duration_us // plan.pace_us
    size_max_bytes = max(2 * LOG_BYTES_MAX // max(message_count, 1), 100)
    return replace(plan, size_max_bytes=min(plan.size_max_bytes, size_max_bytes))


def _era(storm: MasterSlavePlan) -> MasterSlavePlan:
    """Return a plan for the same cluster, with more time."""
    chance = random.Random(storm.seed ^ 0x0E7A)
    settings = storm.settings | {
        "haSendHeartbeatInterval": 5000,
        "haHousekeepingInterval": 20_000,
        "registerNameServerPeriod": 30_000,
        "slaveSyncInterval": 300,
    }
    return replace(
        storm,
        has_liar=False,  # with --liar only: hours give it time for what these rules don't stop yet
        settings=settings,
        tick_us=SECOND,
        pace_us=chance.choice((5, 10, 30)) * SECOND,
        duration_us=chance.choice((1, 2, 4)) * HOUR,
        gap_us=chance.choice((20, 60, 120)) * SECOND,
    )


def _storm(seed: int) -> MasterSlavePlan:
    chance, own_chance = random.Random(seed), random.Random(seed ^ 0x4E16)
    slave_count = chance.choice((1, 1, 2, 2, 3))
    is_sync = chance.random() < 0.6
    is_sync_flush = chance.random() < 0.3
    copies = 1
    if is_sync:
        copies = 3 if slave_count >= 2 and chance.random() < 0.25 else 2
    settings: dict[str, Any] = {
        "brokerRole": "SYNC_MASTER" if is_sync else "ASYNC_MASTER",
        "inSyncReplicas": max(copies, 2),
        "flushDiskType": "SYNC_FLUSH" if is_sync_flush else "ASYNC_FLUSH",
        "flushIntervalCommitLog": chance.choice((200, 500, 2000)),
        "slaveTimeout": chance.choice((500, 1500, 3000)),
        "haSendHeartbeatInterval": chance.choice((500, 1500, 2500)),
        "haHousekeepingInterval": chance.choice((5000, 20_000)),
        "haTransferBatchSize": chance.choice((1024, 8192, 262_144)),
        "haFullSync": chance.choice(("true", "false")),
        "registerNameServerPeriod": chance.choice((10_000, 30_000)),
        "slaveSyncInterval": chance.choice((300, 1000)),
        "fileReservedTime": chance.choice((72, 876_000)),
    }
    kinds = tuple(chance.sample(sorted(WEIGHTS), chance.randrange(3, len(WEIGHTS))))
    return MasterSlavePlan(
        seed=seed,
        slave_count=slave_count,
        name_server_count=chance.choice((1, 2)),
        producer_count=chance.choice((1, 2, 3)),
        consumer_count=chance.choice((1, 2)),
        settings=settings,
        copies_needed=copies,
        is_sync_flush=is_sync_flush,
        tick_us=chance.choice((100, 250, 500)) * MS,
        link=drawn_link(chance),
        pace_us=chance.choice((50, 300, 1000, 5000)) * MS,
        size_max_bytes=chance.choice((100, 2000, 30_000)),
        duration_us=chance.choice((30, 60, 120, 300)) * SECOND,
        gap_us=chance.choice((500, 2000, 5000, 15_000)) * MS,
        kinds=kinds,
        has_liar=seed % LIAR_EVERY == 0,
        dealer_count=0 if seed % DEALS_EVERY else 1 + own_chance.getrandbits(1),
        has_popper=seed % POPPER_EVERY == 2,
        has_lites=seed % LITES_EVERY == 5,
        has_priorities=seed % PRIORITIES_EVERY == 1,
        has_pieces=seed % PIECES_EVERY == 3,
        has_proofs=seed % PROOFS_EVERY == 4,
        epoch_entries_max=own_chance.choice((MIN_ENTRIES_MAX, 12, epoch_history.ENTRIES_MAX)),
    )


def hunting_plan(seed: int, suite: str = "seed") -> MasterSlavePlan:
    """Return the seed's plan, but short and dense: a bug shows soon. It has the additions of one suite alone.

    Every other plan is only about masters that die and slaves that take over.
    """
    plan = drawn(seed)
    return replace(
        plan,
        kinds=plan.kinds if seed % 2 else FAIL_OVERS,
        duration_us=min(plan.duration_us, 60 * SECOND),
        gap_us=min(plan.gap_us, 5 * SECOND),
        pace_us=max(plan.pace_us, 300 * MS) if seed % 2 else 50 * MS,
        size_max_bytes=min(plan.size_max_bytes, 2000),
        quiet_us=150 * SECOND,
        is_impatient=True,
        **(NOTHING_ADDED | ADDED_IN[suite]),
    )
