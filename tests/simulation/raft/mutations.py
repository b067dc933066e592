"""Runs seeds with Raft groups against a seeded bug until one of them notices."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from tests.planting import Bug
from tests.simulation.network import Link
from tests.simulation.raft.cluster import simulate_raft
from tests.simulation.raft.plan import RaftPlan, drawn
from tests.simulation.raft.seeded_bugs import BUGS
from tests.simulation.timeline import MS, SECOND

SEEDS_MAX = 40
KINDS = ("kill the leader", "isolate the leader", "emptied disk", "power loss of a broker", "kill a broker")

# How seeds of a bug's suites differ from the hunting plan, by the suite's first word.
WITH = {"seed": KINDS, "lying": (*KINDS, "lying disk"), "fsync": ("failing fsync",)}


def hunting_plan(seed: int) -> RaftPlan:
    """Return a short and dense plan: a bug shows soon."""
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
        kinds=KINDS,
        quiet_us=60 * SECOND,
        is_impatient=True,
    )


def caught_by(bug: Bug, seeds_max: int = SEEDS_MAX) -> tuple[str, str] | None:
    """Return the first seed that noticed the bug, and its violation; None when none did."""
    with bug.planted():
        for name in (*bug.suites, *(f"seed {seed}" for seed in range(1, seeds_max + 1))):
            kind, _, seed = name.partition(" ")
            plan = replace(hunting_plan(int(seed)), kinds=WITH[kind])
            violations = simulate_raft(int(seed), plan=plan).violations
            if violations:
                return name, violations[0]
    return None


def look_for_all() -> int:
    """Look for every bug, one after another, and return the exit code."""
    logging.disable(logging.CRITICAL)
    missed = 0
    for bug in BUGS:
        started = time.monotonic()
        found = caught_by(bug)
        missed += found is None
        what = f"{found[0]}: {found[1][:100]}" if found else "NOT CAUGHT"
        print(f"{bug.name}: {what} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"{len(BUGS) - missed} of {len(BUGS)} seeded bugs caught")
    return 1 if missed else 0
