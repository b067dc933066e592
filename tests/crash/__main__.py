"""``scripts/crash``: power losses for as long as you like, or one of them again."""

from __future__ import annotations

import argparse
import sys
import time

from tests.crash.checking import BrokenPromiseError
from tests.crash.exploring import Tally, explore, replay
from tests.crash.workloads import FIXED, mixed

ROUND_MIXED_COUNT = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/crash", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="where to begin; each round takes the next one")
    parser.add_argument("--replay", metavar="POINT", help="run one crash point again, as a failure names it")
    parser.add_argument("--keep-going", action="store_true", help="report every broken promise, not only the first")
    options = parser.parse_args()
    if options.replay:
        print(replay(options.replay))
        return 0
    return _rounds(options.minutes, options.seed, options.keep_going)


def _rounds(minutes: float, seed: int, keep_going: bool) -> int:
    """Every fixed workload and some drawn ones with each seed, until the time is over."""
    started = time.perf_counter()
    tally, failures = Tally(), 0
    while True:
        for work in (*FIXED, *(mixed(seed * ROUND_MIXED_COUNT + n) for n in range(ROUND_MIXED_COUNT))):
            try:
                tally.add(explore(work, seed))
            except BrokenPromiseError as error:
                failures += 1
                print(f"BROKEN PROMISE: {error}\n", flush=True)
                if not keep_going:
                    return 1
            elapsed = time.perf_counter() - started
            if elapsed >= minutes * 60:
                rate = tally.points / elapsed * 60
                print(tally, tally.ways, sep="\n")
                print(f"{elapsed:.0f} s, {rate:,.0f} crash points a minute, {failures} broken promises")
                return 1 if failures or not tally.fault_count else 0
        print(f"seed {seed}: {tally}", flush=True)
        seed += 1


if __name__ == "__main__":
    sys.exit(main())
