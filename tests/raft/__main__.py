"""``python -m tests.raft --seeds 1-1000``: play a story for each seed, and name those that break a promise."""

from __future__ import annotations

import argparse
import sys
import time

from tests.raft.story import STEPS, play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.raft", description=__doc__)
    parser.add_argument("--seeds", default="1-100", help="a seed, or the first and the last one (default 1-100)")
    parser.add_argument("--steps", type=int, default=STEPS, help="faults and requests in a story")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    failures, records, terms, began = 0, 0, 0, time.monotonic()
    seeds = range(int(first), int(last or first) + 1)
    for seed in seeds:
        try:
            world = play(seed, options.steps)
        except AssertionError as error:
            failures += 1
            print(f"seed {seed}: {error}", flush=True)
        else:
            records += len(world.checker.confirmed) - 1
            terms += max(node.raft.term for node in world.nodes.values())
    took_s = time.monotonic() - began
    print(
        f"{len(seeds)} seeds in {took_s:.0f} s: {records} records confirmed in {terms} terms, {failures} failing seeds"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
