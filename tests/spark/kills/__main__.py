"""Command line of the attacks on streams: ``python -m tests.spark.kills``, what scripts/kill-streams calls."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from itertools import product
from pathlib import Path

from tests.spark.kills import files
from tests.spark.kills.attack import CLUSTER_KINDS, KINDS, Attack, Rows, faults
from tests.spark.kills.imports import IMPORT_KINDS, ImportAttack
from tests.spark.standalone import StandaloneSpark, full_java


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(prog="scripts/kill-streams", description=__doc__)
    made.add_argument(
        "--mode",
        choices=(*KINDS, *OTHER_MODES),
        default=None,
        help="what runs meanwhile: a stream, a pipeline, an export, an import, or reads of a store (all)",
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


def attacked_import(home: Path, seed: int, options: argparse.Namespace) -> str:
    """Attack imports; return the first fault, or an empty text."""
    kinds = [kind for kind in IMPORT_KINDS if options.kind is None or kind in options.kind]
    attack = ImportAttack(home, seed)
    try:
        return attack.run(kinds, options.points, time.monotonic() + options.minutes * 60)
    finally:
        attack.close()


def attacked_files(home: Path, seed: int, options: argparse.Namespace) -> str:
    """Kill a writer of a store directory that is read; return the first fault, or an empty text."""
    return files.attack(home, seed, options.points)


OTHER_MODES = {"import": attacked_import, "files": attacked_files}


def attacked(mode: str, home: Path, seed: int, options: argparse.Namespace) -> Rows:
    """Attack a stream or an export at the points that the options want, until Ctrl-C; return its rows."""
    kinds = [*KINDS[mode], *(CLUSTER_KINDS if options.cluster else ())]
    kinds = [kind for kind in kinds if options.kind is None or kind in options.kind]
    with ExitStack() as stack:
        spark = None
        if options.cluster:
            java = full_java()
            if java is None:
                sys.exit("kill-streams: a cluster needs a Java with jdk.incubator.vector: set JAVA_HOME")
            spark = stack.enter_context(StandaloneSpark(home / "spark", java))
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
