"""``scripts/fuzz``: fuzzes the decoders, prints inputs and faults of each, and fails for a fault."""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time

from tests.fuzz.running import Outcome, has_atheris, load_targets, run_all

INPUT_SHOWN_BYTES = 300


def main() -> int:
    """Return 1 when a fault was found."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of all targets together (default 60)")
    parser.add_argument("--target", action="append", metavar="NAME", help="one target alone; repeatable")
    parser.add_argument("--seed", type=int, help="repeats a run's mutations")
    parser.add_argument("--plain", action="store_true", help="our own mutations, also where atheris is installed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    options = parser.parse_args()
    guided = has_atheris() and not options.plain
    targets = load_targets(guided=guided)
    unknown = set(options.target or ()) - targets.keys()
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}: there is {', '.join(targets)}")
    chosen = [targets[name] for name in options.target or targets]
    seed = options.seed if options.seed is not None else random.randrange(1, 1 << 31)
    way = "guided by coverage (atheris)" if guided else "mutations of our own"
    if not guided and not options.plain:
        way += "; atheris is not installed here, so coverage does not guide them"
    print(
        f"{len(chosen)} targets, {options.seconds:g} s in {options.processes} processes, seed {seed}, {way}", flush=True
    )
    begin_s = time.monotonic()
    outcomes = []
    for outcome in run_all(chosen, options.seconds, seed, guided=guided, processes=options.processes):
        outcomes.append(outcome)
        show(outcome)
    elapsed_s = time.monotonic() - begin_s
    inputs = sum(outcome.inputs for outcome in outcomes)
    faults = sum(len(outcome.faults) for outcome in outcomes)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy_s = (spent.ru_utime + spent.ru_stime) / options.processes  # on a machine without other work: the elapsed time
    print(
        f"{inputs:,} inputs in {elapsed_s:.0f} s ({busy_s:.0f} s of processor time in each of {options.processes} "
        f"processes: {inputs / max(busy_s, 1) * 60 / 1e6:.2f} million a minute), {faults} faults"
    )
    return 1 if faults or not all(outcome.inputs for outcome in outcomes) else 0


def show(outcome: Outcome) -> None:
    """Print one target's figures."""
    print(f"{outcome.target:22} {outcome.inputs:>10,} inputs {len(outcome.faults):>3} faults", flush=True)
    for fault in outcome.faults:
        print(f"  {fault.place}: {fault.error}\n  input: {fault.raw[:INPUT_SHOWN_BYTES]!r}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
