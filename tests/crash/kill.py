"""Command line of the kill rounds: scripts/kill calls ``python -m tests.crash.kill``."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.crash.kill_java import JavaSending
from tests.crash.kill_rounds import KillRounds, Round

JAVA_TOOLS = ("java", "javac", "mvn")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(
        prog="scripts/kill",
        description="Kills a real broker under load with SIGKILL, again and again, and checks what it acknowledged.",
    )
    made.add_argument("--rounds", type=int, default=50, help="kills, half of them under SYNC_FLUSH (50)")
    made.add_argument("--seed", type=int, default=None, help="a failed run's seed (from the clock)")
    made.add_argument("--java", action="store_true", help="every other round's load comes from the real Java client")
    made.add_argument("--dir", type=Path, help="the broker's directory, must be new (a temporary one)")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run the rounds. Returns 0 when all are good, 1 when one is not, 2 when they can't run."""
    options = parser().parse_args(arguments)
    missing = [tool for tool in JAVA_TOOLS if options.java and shutil.which(tool) is None]
    if missing:
        print(f"kill: --java needs {', '.join(missing)} on PATH", file=sys.stderr)
        return 2
    if options.rounds < 1:
        print(f"kill: --rounds is {options.rounds}: it must be at least 1", file=sys.stderr)
        return 2
    seed = int(time.time()) if options.seed is None else options.seed
    home = Path(tempfile.mkdtemp(prefix="pymq-kill-"))
    directory = options.dir or home / "data"
    print(f"seed {seed}, {options.rounds} rounds in {directory}", flush=True)
    open_java = (lambda namesrv: JavaSending(namesrv, home / "java")) if options.java else None
    try:
        last = asyncio.run(KillRounds(directory, seed, open_java=open_java, report=_report).run(options.rounds))
    except Exception as failure:
        traceback.print_exception(failure)
        print(f"FAILED in {failure}\nagain: scripts/kill --seed {seed} --rounds {options.rounds}", file=sys.stderr)
        print(f"the directory is kept: {directory}", file=sys.stderr)
        return 1
    print(
        f"{options.rounds} rounds, {last.kill_count} kills, {last.in_flight_count} requests in flight at them; "
        f"{last.sent_count} messages sent, {last.acknowledged_count} acknowledged, {last.stored_count} read, 0 lost"
    )
    shutil.rmtree(home)
    if last.kill_count < options.rounds or not last.in_flight_count:
        print("FAILED: the kills tested nothing", file=sys.stderr)
        return 1
    return 0


def _report(done: Round) -> None:
    print(
        f"round {done.number}: {done.flush_type}, {done.client}; {done.acknowledged_count} acknowledged so far, "
        f"{done.stored_count} read",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
