"""Command line of the chaos rounds: ``python -m tests.chaos``, what scripts/chaos calls."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.chaos.load import JAVA_PROGRAM, JavaSending, PymqSending, Sending
from tests.chaos.rounds import ChaosRounds, Outcome
from tests.interop.support.running import compiled_program

JAVA_TOOLS = ("java", "javac", "mvn")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(
        prog="scripts/chaos",
        description="Kills, stops, restarts and promotes real brokers under load, and harms their connections.",
    )
    made.add_argument("--rounds", type=int, default=30, help="faults to a process, and as many to a link (30)")
    made.add_argument("--seed", type=int, default=None, help="a failed run's seed (from the clock)")
    made.add_argument("--client", choices=("java", "pymq"), help="whose load (java if it is there)")
    made.add_argument("--in-sync-replicas", type=int, default=2, help="1 promises less: the check should find it (2)")
    made.add_argument("--dir", type=Path, help="where brokers keep their data, must be new (a temporary one)")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the rounds; 0 when nothing was lost, 1 when something was, 2 when they can't be run."""
    options = parser().parse_args(arguments)
    missing = [tool for tool in JAVA_TOOLS if shutil.which(tool) is None]
    client = options.client or ("pymq" if missing else "java")
    if client == "java" and missing:
        print(f"chaos: --client java needs {', '.join(missing)} on PATH", file=sys.stderr)
        return 2
    if options.rounds < 1:
        print(f"chaos: --rounds is {options.rounds}: it must be at least 1", file=sys.stderr)
        return 2
    seed = int(time.time()) if options.seed is None else options.seed
    directory = options.dir or Path(tempfile.mkdtemp(prefix="pymq-chaos-"))
    print(f"seed {seed}, {options.rounds} rounds under load from the {client} client, in {directory}", flush=True)

    if client == "java":
        compiled_program(JAVA_PROGRAM)  # now: the proxy would stand still meanwhile

    def open_load(namesrv: str) -> Sending:
        return JavaSending(namesrv, directory / "java") if client == "java" else PymqSending(namesrv)

    rounds = ChaosRounds(
        directory,
        seed,
        open_load=open_load,
        in_sync_replicas=options.in_sync_replicas,
        report=lambda text: print(text, flush=True),
    )
    try:
        outcome = asyncio.run(rounds.run(options.rounds))
    except Exception as failure:
        traceback.print_exception(failure)
        print(f"FAILED; again: scripts/chaos --seed {seed} --rounds {options.rounds}", file=sys.stderr)
        print(f"the directories are kept: {directory}", file=sys.stderr)
        return 1
    tell(outcome)
    shutil.rmtree(directory)
    if not sum(outcome.faults.values()):
        print("FAILED: no fault was applied, this tested nothing", file=sys.stderr)
        return 1
    return 0


def tell(outcome: Outcome) -> None:
    """Print what was done, and the result."""
    print(f"{outcome.round_count} rounds, {sum(outcome.faults.values())} faults applied:")
    for kind, count in sorted(outcome.faults.items()):
        print(f"  {count:4} {kind}")
    sends = outcome.sends
    doubled = ", ".join(f"{count} at {event}" for event, count in outcome.doubled.items() if count)
    print(
        f"messages: {sends['ok']} acknowledged, {sends['stored']} stored but not confirmed, "
        f"{sends['refused']} refused, {sends['unknown']} unknown; {outcome.stored_count} stored on each broker, "
        f"{outcome.seen_count} of them read meanwhile\n"
        f"beside them: {outcome.side_count} acknowledged in new topics or delayed; came again: {doubled or 'none'}\n"
        f"{outcome.truncation_count} divergent tails truncated; lost: 0"
    )


if __name__ == "__main__":
    sys.exit(main())
