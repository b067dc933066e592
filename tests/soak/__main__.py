"""Command line of the group soak: ``python -m tests.soak``, what scripts/soak calls."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from pymq.testing.standalone import StandaloneProcess
from tests.soak.group_soak import GroupSoak, SoakPlan


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(
        prog="scripts/soak",
        description="Three groups consume a topic, in order, at once and by pop, while members come, go and die.",
    )
    made.add_argument("--seconds", type=float, default=300.0, help="how long messages are sent (300)")
    made.add_argument("--members", type=int, default=20, help="members at most, of all groups (20)")
    made.add_argument("--queues", type=int, default=50, help="queues of the topic (50)")
    made.add_argument("--pause", type=float, default=2.0, help="seconds between two changes of members (2)")
    made.add_argument("--seed", type=int, default=None, help="a failed run's seed (from the clock)")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the soak; 0 when all was consumed as it should, else 1."""
    options = parser().parse_args(arguments)
    seed = int(time.time()) if options.seed is None else options.seed
    plan = SoakPlan(options.seconds, options.members, options.queues, options.pause, seed)
    print(f"seed {seed}: {plan.seconds:g} s, {plan.members} members, {plan.queues} queues", flush=True)
    with StandaloneProcess() as servers:
        result = asyncio.run(GroupSoak(servers.namesrv, plan).run())
    print("\n".join(result.lines()))
    for fault in result.faults:
        print(f"FAULT {fault}", file=sys.stderr)
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
