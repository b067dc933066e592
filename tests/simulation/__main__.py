"""``scripts/simulate``: run many clusters (Ctrl-C ends them), repeat one seed, or look for the seeded bugs."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tests.simulation.master_slave import plan as master_slave
from tests.simulation.plan import Plan
from tests.simulation.raft import plan as raft
from tests.simulation.simulating import Report, simulate
from tests.simulation.tally import Tally
from tests.simulation.workers import plan as workers

RAFT = "--raft"
WORKERS = "--workers"
RAFT_DOC = "``scripts/simulate --raft``: run many seeds with Raft groups, repeat one, or look for the seeded bugs."
ADDITIONS = {  # to the plans of all seeds: option -> field of the plan, help
    "--liar": ("has_liar", "have a liar in every seed"),
    "--timers": ("has_timers", "send timer messages in every seed"),
    "--batches": ("has_batches", "send inner batches in every seed"),
    "--lites": ("has_lites", "send to lite topics and pop them in every seed"),
    "--priorities": ("has_priorities", "send with priorities and pop by them in every seed"),
    "--pieces": ("has_pieces", "copy tables in small pieces in every seed"),
    "--proofs": ("has_proofs", "have master and slaves prove themselves in every seed"),
}


def main() -> int:
    is_raft = RAFT in sys.argv
    options = _parser(is_raft).parse_args([argument for argument in sys.argv[1:] if argument != RAFT])
    if options.mutations:
        return _mutations(is_raft)
    added = [option for option in (*ADDITIONS, WORKERS) if not is_raft and getattr(options, option.strip("-"))]
    drawn: Callable[[int], Plan] = raft.drawn if is_raft else partial(_plan, added=added)
    if options.seed is not None:
        return _one(drawn(options.seed), tracing=options.trace)
    again = " ".join(("scripts/simulate", *([RAFT] if is_raft else []), "--seed {} --trace", *added))
    return _many(drawn, options.first, options.minutes, again, keep_going=options.keep_going)


def _parser(is_raft: bool) -> argparse.ArgumentParser:
    prog, doc = (f"scripts/simulate {RAFT}", RAFT_DOC) if is_raft else ("scripts/simulate", __doc__)
    parser = argparse.ArgumentParser(prog=prog, description=doc)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happened, in order")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--keep-going", action="store_true", help="report every failing seed, not only the first")
    if not is_raft:
        for option, (_, text) in ADDITIONS.items():
            parser.add_argument(option, action="store_true", help=text)
        parser.add_argument(WORKERS, action="store_true", help="have a machine of workers in every seed, and no slaves")
        parser.add_argument(RAFT, action="store_true", help="simulate Raft groups; see --raft --help")
    parser.add_argument("--mutations", action="store_true", help="instead: plant each seeded bug and look for it")
    return parser


def _plan(seed: int, added: list[str]) -> Plan:
    """Return the seed's plan: a machine of workers now and then, else a master with slaves and what is asked for."""
    if WORKERS in added or (not added and workers.is_of_workers(seed)):
        return workers.drawn(seed)
    wanted: dict[str, Any] = {ADDITIONS[option][0]: True for option in added}
    return replace(master_slave.drawn(seed), **wanted)


def _mutations(is_raft: bool) -> int:
    from tests.simulation.master_slave.seeded_bugs import BUGS
    from tests.simulation.mutations import look_for_all
    from tests.simulation.raft.seeded_bugs import BUGS as RAFT_BUGS
    from tests.simulation.workers.seeded_bugs import BUGS as WORKERS_BUGS

    if is_raft:
        return look_for_all(RAFT_BUGS, raft.hunting_plan)
    return look_for_all(BUGS, master_slave.hunting_plan) | look_for_all(WORKERS_BUGS, workers.hunting_plan)


def _one(plan: Plan, *, tracing: bool) -> int:
    report = simulate(plan, tracing=tracing)
    print(*report.trace, sep="\n")
    tally = Tally()
    tally.add(report)
    print(tally)
    for violation in report.violations:
        print(f"BROKEN PROMISE: {violation}")
    return 1 if report.violations else 0


def _many(drawn: Callable[[int], Plan], seed: int, minutes: float, again: str, *, keep_going: bool) -> int:
    """Run seed after seed. ``again``: the command that repeats a seed."""
    end_s = time.monotonic() + minutes * 60
    tally, failures = Tally(), 0
    gc.freeze()  # the collection after each seed skips what exists now
    with suppress(KeyboardInterrupt):
        while time.monotonic() < end_s and (keep_going or not failures):
            report = simulate(drawn(seed))
            tally.add(report)
            if report.violations:
                failures += 1
                _tell(report, again)
            seed += 1
    print(tally)
    print(f"{failures} failing seeds")
    return 1 if failures or not tally.fault_count else 0


def _tell(report: Report, again: str) -> None:
    print(f"seed {report.seed}: {again.format(report.seed)}")
    for violation in report.violations[:5]:
        print(f"  BROKEN PROMISE: {violation}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
