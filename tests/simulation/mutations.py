"""Runs stories and seeds against a seeded bug until one of them notices."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from tests.planting import Bug
from tests.simulation.master_slave.stories import tell
from tests.simulation.plan import Plan
from tests.simulation.simulating import simulate

SEEDS_MAX = 60
# (seed, the first word of a bug's suite) -> a short and dense plan
HuntingPlan = Callable[[int, str], Plan]


def caught_by(bug: Bug, hunting_plan: HuntingPlan, seeds_max: int = SEEDS_MAX) -> tuple[str, str] | None:
    """Return the first story or seed that noticed the bug, and its violation; None when none did.

    The bug's own suites, which are known to notice it, run first.
    """
    kind = bug.suites[0].partition(" ")[0].replace("story", "seed")
    with bug.planted():
        for name in (*bug.suites, *(f"{kind} {seed}" for seed in range(1, seeds_max + 1))):
            suite, _, which = name.partition(" ")
            report = tell(which) if suite == "story" else simulate(hunting_plan(int(which), suite))
            if report.violations:
                return name, report.violations[0]
    return None


def look_for_all(bugs: Sequence[Bug], hunting_plan: HuntingPlan) -> int:
    """Look for every bug, one after another, and return the exit code."""
    logging.disable(logging.CRITICAL)
    missed = 0
    for bug in bugs:
        started = time.monotonic()
        found = caught_by(bug, hunting_plan)
        missed += found is None
        what = f"{found[0]}: {found[1][:100]}" if found else "NOT CAUGHT"
        print(f"{bug.name}: {what} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} seeded bugs caught")
    return 1 if missed else 0
