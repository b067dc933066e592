"""``scripts/simulate``: run many clusters (Ctrl-C ends them), repeat one seed, or look for the seeded bugs."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tests.simulation.cluster import Report, simulate
from tests.simulation.plan import Plan, drawn
from tests.simulation.tally import Tally

SEED_FIRST = 1
ADDITIONS = {  # to the plans of all seeds
    "--liar": "has_liar", "--timers": "has_timers", "--batches": "has_batches", "--pieces": "has_pieces",
    "--proofs": "has_proofs",
}  # fmt: skip


def main() -> int:
    if "--raft" in sys.argv:
        from tests.simulation.raft.__main__ import main as simulate_groups

        return simulate_groups([argument for argument in sys.argv[1:] if argument != "--raft"])
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happened, in order")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--from", dest="first", type=int, default=SEED_FIRST, help="the first seed (default 1)")
    parser.add_argument("--keep-going", action="store_true", help="report every failing seed, not only the first")
    parser.add_argument("--liar", action="store_true", help="have a liar in every seed")
    parser.add_argument("--timers", action="store_true", help="send timer messages in every seed")
    parser.add_argument("--batches", action="store_true", help="send inner batches in every seed")
    parser.add_argument("--pieces", action="store_true", help="copy tables in small pieces in every seed")
    parser.add_argument("--proofs", action="store_true", help="have master and slaves prove themselves in every seed")
    parser.add_argument("--raft", action="store_true", help="simulate Raft groups; see --raft --help")
    parser.add_argument("--mutations", action="store_true", help="instead: plant each seeded bug and look for it")
    options = parser.parse_args()
    if options.mutations:
        from tests.simulation.mutations import look_for_all

        return look_for_all()
    added = tuple(name for name in ADDITIONS if getattr(options, name.strip("-")))
    if options.seed is not None:
        return _one(options.seed, options.trace, added)
    return _many(options.first, options.minutes, added, keep_going=options.keep_going)


def _plan(seed: int, added: tuple[str, ...]) -> Plan:
    """Return the seed's plan with what is asked for."""
    wanted: dict[str, Any] = {ADDITIONS[name]: True for name in added}
    return replace(drawn(seed), **wanted)


def _one(seed: int, tracing: bool, added: tuple[str, ...]) -> int:
    report = simulate(seed, tracing=tracing, plan=_plan(seed, added))
    print(*report.trace, sep="\n")
    tally = Tally()
    tally.add(report)
    print(tally)
    print(*(f"BROKEN PROMISE: {violation}" for violation in report.violations), sep="\n")
    return 1 if report.violations else 0


def _many(seed: int, minutes: float, added: tuple[str, ...], *, keep_going: bool) -> int:
    end_s = time.monotonic() + minutes * 60
    tally, failures = Tally(), 0
    gc.freeze()  # the collection after each seed skips what exists now
    with suppress(KeyboardInterrupt):
        while time.monotonic() < end_s and (keep_going or not failures):
            report = simulate(seed, plan=_plan(seed, added))
            tally.add(report)
            if report.violations:
                failures += 1
                _tell(report, "".join(f" {name}" for name in added))
            seed += 1
    print(tally)
    print(f"{failures} failing seeds")
    return 1 if failures or not tally.fault_count else 0


def _tell(report: Report, options: str) -> None:
    print(f"seed {report.seed}: scripts/simulate --seed {report.seed} --trace{options}")
    for violation in report.violations[:5]:
        print(f"  BROKEN PROMISE: {violation}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
