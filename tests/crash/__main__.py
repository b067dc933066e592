"""``scripts/crash``: runs power losses for the given time, or replays one of them."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from itertools import product

from tests.crash.call_errors import NUMBERS, ErrorTally, Failure, call_count, fail, replay_failure
from tests.crash.checking import BrokenPromiseError
from tests.crash.damage import DamageTally, SilentLossError, origins, search
from tests.crash.exploring import Tally, explore, replay
from tests.crash.workloads import FIXED, mixed

ROUND_MIXED_COUNT = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/crash", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="where to begin; each round takes the next one")
    parser.add_argument("--replay", metavar="POINT", help="run one crash point again, as a failure names it")
    parser.add_argument("--errors", action="store_true", help="instead: let every call of every workload fail")
    parser.add_argument("--damage", type=int, metavar="COUNT", help="instead: damage derived files so many times")
    parser.add_argument("--fail", metavar="FAILURE", help="let one call fail again, as a failure names it")
    parser.add_argument("--keep-going", action="store_true", help="report every broken promise, not only the first")
    options = parser.parse_args()
    if options.replay:
        print(replay(options.replay))
        return 0
    if options.fail:
        print(replay_failure(options.fail))
        return 0
    if options.damage:
        return _damages(options.seed, options.damage, options.keep_going)
    if options.errors:
        return _errors(options.keep_going)
    return _rounds(options.minutes, options.seed, options.keep_going)


def _damages(seed: int, count: int, keep_going: bool) -> int:
    """Damage derived files ``count`` times, from ``seed`` on."""
    logging.disable(logging.CRITICAL)
    sound, tally, failures = origins(), DamageTally(), 0
    for each in range(seed, seed + count):
        try:
            search(sound, range(each, each + 1), tally)
        except SilentLossError as error:
            failures += 1
            print(f"SILENT: {error}\n", flush=True)
            if not keep_going:
                return 1
    print(tally, f"{failures} failures", sep="\n")
    return 1 if failures else 0


def _rounds(minutes: float, seed: int, keep_going: bool) -> int:
    """Run every fixed workload and some random ones with each seed, until the time is over."""
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


def _errors(keep_going: bool) -> int:
    """Let every call of every fixed workload fail with every error, once and permanently."""
    tally, failures = ErrorTally(), 0
    for work in FIXED:
        if work.name in ("group-commit", "retention"):
            continue  # one reads between its own steps; in the other queues may lag the log by one pass
        for call in range(1, call_count(work) + 1):
            for number, lasting in product(NUMBERS, (False, True)):
                try:
                    fail(work, Failure(work.name, call, number, lasting), tally)
                except BrokenPromiseError as error:
                    failures += 1
                    print(f"BROKEN PROMISE: {error}\n", flush=True)
                    if not keep_going:
                        return 1
        print(f"{work.name}: {tally}", flush=True)
    print(f"{tally}, {failures} broken promises")
    return 1 if failures or not tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
