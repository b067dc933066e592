"""Command line of the soaks: ``python -m tests.soak``, what scripts/soak calls."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from pymq.testing.standalone import StandaloneProcess
from tests.soak.console_soak import ConsolePlan, ConsoleSoak
from tests.soak.group_soak import GroupSoak, SoakPlan

SAMPLE_S, SAMPLES_MIN = 10.0, 60


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
    made.add_argument("--console", action="store_true", help="a console's pages and tails instead, beside lost brokers")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run the soak; 0 when all was as it should be, else 1."""
    options = parser().parse_args(arguments)
    seed = int(time.time()) if options.seed is None else options.seed
    lines, faults = _soak_console(options.seconds, seed) if options.console else _soak_groups(options, seed)
    print("\n".join(lines))
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    return 1 if faults else 0


def _soak_groups(options: argparse.Namespace, seed: int) -> tuple[list[str], list[str]]:
    plan = SoakPlan(options.seconds, options.members, options.queues, options.pause, seed)
    print(f"seed {seed}: {plan.seconds:g} s, {plan.members} members, {plan.queues} queues", flush=True)
    with StandaloneProcess() as servers:
        result = asyncio.run(GroupSoak(servers.namesrv, plan).run())
    return result.lines(), result.faults


def _soak_console(seconds: float, seed: int) -> tuple[list[str], list[str]]:
    plan = ConsolePlan(seconds, sample_s=min(SAMPLE_S, seconds / SAMPLES_MIN), seed=seed)
    print(f"seed {seed}: {plan.seconds:g} s, {plan.tails} tails, {plan.pages_per_s:g} pages a second", flush=True)
    logging.getLogger("pymq").setLevel(logging.ERROR)  # of what clients say about brokers that are away
    with tempfile.TemporaryDirectory(prefix="pymq-soak-") as directory:
        result = asyncio.run(ConsoleSoak(Path(directory), plan).run())
    return result.lines(), result.faults


if __name__ == "__main__":
    sys.exit(main())
