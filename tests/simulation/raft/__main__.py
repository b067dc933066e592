"""``scripts/simulate --raft``: run many seeds with Raft groups, repeat one, or look for the seeded bugs."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from contextlib import suppress

from tests.simulation.raft.cluster import RaftReport, simulate_raft
from tests.simulation.raft.tally import RaftTally


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate --raft", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happened, in order")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--keep-going", action="store_true", help="report every failing seed, not only the first")
    parser.add_argument("--mutations", action="store_true", help="instead: plant each seeded bug and look for it")
    options = parser.parse_args(arguments)
    if options.mutations:
        from tests.simulation.raft.mutations import look_for_all

        return look_for_all()
    if options.seed is not None:
        report = simulate_raft(options.seed, tracing=options.trace)
        print(*report.trace, sep="\n")
        tally = RaftTally()
        tally.add(report)
        print(tally)
        _tell(report)
        return 1 if report.violations else 0
    return _many(options.first, options.minutes, keep_going=options.keep_going)


def _many(seed: int, minutes: float, *, keep_going: bool) -> int:
    end_s = time.monotonic() + minutes * 60
    tally, failures = RaftTally(), 0
    gc.freeze()  # the collection after each seed skips what exists now
    with suppress(KeyboardInterrupt):
        while time.monotonic() < end_s and (keep_going or not failures):
            report = simulate_raft(seed)
            tally.add(report)
            if report.violations:
                failures += 1
                print(f"seed {seed}: scripts/simulate --raft --seed {seed} --trace")
                _tell(report)
            seed += 1
    print(tally)
    print(f"{failures} failing seeds")
    return 1 if failures or not tally.fault_count else 0


def _tell(report: RaftReport) -> None:
    for violation in report.violations[:5]:
        print(f"  BROKEN PROMISE: {violation}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
