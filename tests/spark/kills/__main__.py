"""Command line of the attacks on streams: ``python -m tests.spark.kills``, what scripts/kill-streams calls."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import product
from pathlib import Path

from tests.spark.kills import files
from tests.spark.kills.attack import CLUSTER_KINDS, KINDS, Attack, Rows, faults
from tests.spark.kills.commands import CommandAttack
from tests.spark.kills.imports import ImportAttack
from tests.spark.kills.stores import StoreAttack
from tests.spark.standalone import StandaloneSpark, full_java


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(prog="scripts/kill-streams", description=__doc__)
    made.add_argument(
        "--mode",
        choices=(*KINDS, *OTHER_MODES),
        default=None,
        help="what runs meanwhile: streams, pipelines, exports, imports, or reads of a store (all)",
    )
    made.add_argument("--kind", action="append", default=None, help="what to attack; repeatable (all)")
    made.add_argument("--cluster", action="store_true", help="on a standalone cluster of two workers: two more kinds")
    made.add_argument("--points", type=int, default=20, help="random points of each kind (20)")
    made.add_argument("--minutes", type=float, default=float("inf"), help="end earlier, with fewer points")
    made.add_argument("--away", type=int, default=1, help="times without a broker for 30 s (1)")
    made.add_argument("--seed", type=int, default=None, help="a failed run's seed (from the clock)")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the attacks; 0 when every row was there once, else 1. A failed run keeps its directory."""
    options = parser().parse_args(arguments)
    seed = int(time.time()) if options.seed is None else options.seed
    failed = False
    for mode in [options.mode] if options.mode else [*KINDS, *OTHER_MODES]:
        home = Path(tempfile.mkdtemp(prefix="pymq-kill-streams-")) / mode
        print(f"{mode}, seed {seed}, in {home}", flush=True)
        if mode in OTHER_MODES:
            wrong = OTHER_MODES[mode](home, seed, options)
            print(f"  {wrong or 'each once, and in order'}", flush=True)
            failed = failed or bool(wrong)
            if not wrong:
                shutil.rmtree(home.parent)
            continue
        rows = attacked(mode, home, seed, options)
        found = faults(rows)
        counts = f"{len(rows.stored)} messages stored, {len(rows.answered)} answered, {len(rows.read)} rows read"
        print(f"  {counts}: {found or 'each once'}", flush=True)
        failed = failed or bool(found)
        if not found:
            shutil.rmtree(home.parent)
    return 1 if failed else 0


def attacked_command(made: type[CommandAttack], home: Path, seed: int, options: argparse.Namespace) -> str:
    """Attack runs of a command; return the first fault, or an empty text."""
    with ExitStack() as stack:
        spark = cluster_of(stack, home, options)
        kinds = wanted_kinds(made.KINDS, options)
        attack = made(home, seed, spark)
        stack.callback(attack.close)
        return attack.run(kinds, options.points, time.monotonic() + options.minutes * 60)


def attacked_files(home: Path, seed: int, options: argparse.Namespace) -> str:
    """Kill a writer of a store directory that is read; return the first fault, or an empty text."""
    return files.attack(home, seed, options.points)


OTHER_MODES: dict[str, Callable[[Path, int, argparse.Namespace], str]] = {
    "import": partial(attacked_command, ImportAttack),
    "store": partial(attacked_command, StoreAttack),
    "files": attacked_files,
}


def cluster_of(stack: ExitStack, home: Path, options: argparse.Namespace) -> StandaloneSpark | None:
    """Start the cluster if the options want one."""
    if not options.cluster:
        return None
    java = full_java()
    if java is None:
        sys.exit("kill-streams: a cluster needs a Java with jdk.incubator.vector: set JAVA_HOME")
    home.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(StandaloneSpark(home / "spark", java))


def wanted_kinds(kinds: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Return the kinds of attacks that the options want."""
    possible = [*kinds, *(CLUSTER_KINDS if options.cluster else ())]
    return [kind for kind in possible if options.kind is None or kind in options.kind]


def attacked(mode: str, home: Path, seed: int, options: argparse.Namespace) -> Rows:
    """Attack a stream or an export at the points that the options want, until Ctrl-C; return its rows."""
    kinds = wanted_kinds(KINDS[mode], options)
    with ExitStack() as stack:
        spark = cluster_of(stack, home, options)
        attack = Attack(mode, home, seed, spark)
        stack.callback(attack.close)
        begun_s = time.monotonic()
        with suppress(KeyboardInterrupt):
            for point, kind in product(range(options.points), kinds):
                if time.monotonic() - begun_s >= options.minutes * 60:
                    break
                if kind != "away" or point < options.away:
                    attack.hit(kind)
                if kind == kinds[-1]:
                    print(f"  {attack.counts} after {time.monotonic() - begun_s:.0f} s", flush=True)
        print(f"  {attack.counts}", flush=True)
        return attack.finish()


if __name__ == "__main__":
    sys.exit(main())
