"""Runs the suites against a seeded bug until one of them catches it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from pymq.errors import PymqError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from tests.crash.call_errors import NUMBERS, ErrorTally, Failure, call_count, fail
from tests.crash.damage import DAMAGERS, check_start, origins
from tests.crash.exploring import explore
from tests.crash.flips import TABLE, Flip, FlipSuite
from tests.crash.lite_runs import run as run_lite
from tests.crash.lost_segments import check_lost_segments
from tests.crash.pop_runs import OrderedRun, PriorityRun, Run
from tests.crash.pop_runs import run as run_pop
from tests.crash.timer_runs import run as run_timers
from tests.crash.workloads import workload
from tests.planting import Bug
from tests.store.support import ROOT

SEEDS = range(4, 10)
FLIP_STRIDE = 13
DAMAGES_EACH = 12
POP_SEEDS = 8
LITE_SEEDS = 16
TIMER_SEEDS = 16
HANG_SECONDS = 30.0  # of CPU time, many times what a suite needs

POP_KINDS = {"ordered": OrderedRun, "priority": PriorityRun}


def caught_by(bug: Bug) -> str | None:
    """Return the suite that caught the bug, None when all of its suites passed."""
    with bug.planted():
        for suite in bug.suites:
            try:
                with _bounded():
                    _run(suite)
            except (AssertionError, PymqError, OSError):
                return suite
    return None


@contextmanager
def _bounded() -> Iterator[None]:
    """Limit the time, so that a bug that makes the store hang is caught too."""

    def stop(*_: object) -> None:
        raise AssertionError(f"no end after {HANG_SECONDS} s of CPU time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _run(suite: str) -> None:
    kind, _, name = suite.rpartition(":")
    if kind == "errors":
        _errors(name)
    elif kind == "flips":
        _flips(name)
    elif kind == "damage":
        _damage(name)
    elif kind == "pop":
        for seed in range(POP_SEEDS):
            run_pop(seed, loses_power=name == "power", kind=POP_KINDS.get(name, Run))
    elif kind == "lite":
        for seed in range(LITE_SEEDS):
            run_lite(seed, loses_power=name == "power")
    elif kind == "timer":
        for seed in range(TIMER_SEEDS):
            run_timers(seed, loses_power=name == "power")
    elif kind == "lost":
        check_lost_segments(workload(name))
    else:
        for seed in SEEDS:
            explore(workload(name), seed)


def _errors(name: str) -> None:
    work, tally = workload(name), ErrorTally()
    for call in range(1, call_count(work) + 1):
        for place, number in enumerate(NUMBERS):
            fail(work, Failure(name, call, number, (call + place) % 2 == 0), tally)


def _damage(kind: str) -> None:
    """Try the damages of one kind on each sound store."""
    for origin in origins():
        for seed in range(DAMAGES_EACH):
            damage = DAMAGERS[kind][0](Random(seed), origin.image)
            if damage is not None and damage.image != origin.image:
                check_start(origin, damage.image)


def _flips(part: str) -> None:
    if part == "table":
        _table()
        return
    suite = FlipSuite(with_sums=not part.endswith("-without-sums"))
    part = part.removesuffix("-without-sums")
    if part == "commitlog-end":
        positions = suite.positions("commitlog")[-300::7]
    elif part == "consumequeue-end":
        positions = [(path, at) for path, at in suite.positions("consumequeue") if 340 <= at < 400]
    else:
        positions = suite.positions(part)[::FLIP_STRIDE]
    for number, (path, at) in enumerate(positions):
        seen = suite.check(Flip(path, at, at % 8, number % 2 == 0), keys=range(0, 100, 20))
        if part.startswith("commitlog"):
            assert len(seen.refused) == 1, "a flip in the log is not noticed"


def _table() -> None:
    """Check that a table damaged after two saves is read from its backup."""
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/config")
    for number in (1, 2):
        table = JsonTable(files, TABLE)
        table.load()
        table.save({"topicConfigTable": {"T": number}})
    files.nodes[TABLE].data[0] = 0
    assert JsonTable(files, TABLE).load() == {"topicConfigTable": {"T": 1}}
