"""Runs stories and seeds against a seeded bug until one of them notices."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import replace
from typing import Any

from tests.planting import Bug
from tests.simulation.cluster import Report, simulate
from tests.simulation.plan import Plan, drawn
from tests.simulation.seeded_bugs import BUGS
from tests.simulation.stories import tell
from tests.simulation.timeline import MS, SECOND

SEEDS_MAX = 60
# What a kind of seed besides "seed" adds to its hunting plan.
WITH: dict[str, Any] = {
    "liar": {"has_liar": True},
    "deal": {"dealer_count": 2},
    "timers": {"has_timers": True},
    "pops": {"has_popper": True},
    "batches": {"has_batches": True},
    "pieces": {"has_pieces": True},
    "proofs": {"has_proofs": True},
}
FAIL_OVERS = (
    "kill the master", "power loss of the master", "fail over", "hand over", "kill a broker", "cut connections",
)  # fmt: skip


def hunting_plan(seed: int) -> Plan:
    """Return the seed's plan without additions, but short and dense: a bug shows soon.

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
        has_liar=False,
        dealer_count=0,
        has_timers=False,
        has_popper=False,
        has_batches=False,
        has_pieces=False,
        has_proofs=False,
    )


def caught_by(bug: Bug, seeds_max: int = SEEDS_MAX) -> tuple[str, str] | None:
    """Return the first story or seed that noticed the bug, and its violation; None when none did.

    Those known to notice the bug run first.
    """
    kind = bug.suites[0].partition(" ")[0].replace("story", "seed")
    with bug.planted():
        for name in (*bug.suites, *(f"{kind} {seed}" for seed in range(1, seeds_max + 1))):
            violations = _run(name).violations
            if violations:
                return name, violations[0]
    return None


def _run(name: str) -> Report:
    kind, _, which = name.partition(" ")
    if kind == "story":
        return tell(which)
    return simulate(int(which), plan=replace(hunting_plan(int(which)), **WITH.get(kind, {})))


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


if __name__ == "__main__":
    sys.exit(look_for_all())
