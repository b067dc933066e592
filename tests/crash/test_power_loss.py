"""Crashes after every call of recorded workloads, on a disk that forgets, then starts and checks the promises.

``scripts/crash`` runs the same for a given time, with other seeds.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.exploring import CrashPoint, Tally, explore, replay
from tests.crash.workloads import FIXED, Workload, mixed

SEED = 20
MIXED_COUNT = 20
# How many crashes of each kind must have happened, so that a suite that tests nothing is noticed.
WAYS = {
    "kill", "kill-in-call", "drop-all", "keep-entries", "keep-sizes", "keep-pages", "random0", "random1", "random2",
    "reordered", "torn",
}  # fmt: skip

Tell = Callable[[object], None]


@pytest.mark.slow
@pytest.mark.parametrize("work", FIXED, ids=lambda work: work.name)
def test_every_call_of_a_workload(work: Workload, tell: Tell) -> None:
    tally = explore(work, SEED)
    assert tally.faults.keys() == WAYS
    assert min(tally.faults.values()) > 0
    tell(tally)


@pytest.mark.slow
def test_drawn_workloads(tell: Tell) -> None:
    tally = Tally()
    for seed in range(SEED, SEED + MIXED_COUNT):
        tally.add(explore(mixed(seed), seed, stride=4))
    assert tally.runs == MIXED_COUNT
    assert tally.faults.keys() >= WAYS
    tell(tally)


def test_a_crash_point_is_replayed_by_its_name() -> None:
    point = CrashPoint("batches", 40, "random1", 7)
    assert CrashPoint.parse(str(point)) == point
    assert replay(str(point)).points == 1
