"""Lets every call of workloads fail, once or from then on, with each error of a disk. Then the disk works again.

Acknowledged messages stay and are served throughout, refused ones are not there in part, and the store takes messages
again by itself, or after a restart when an fsync failed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.call_errors import NUMBERS, ErrorTally, Failure, call_count, fail, replay_failure
from tests.crash.workloads import workload

WORKLOADS = ("batches", "segment-roll", "keys", "sync-flush", "tables", "deleted-topics", "following", "lite-sends")


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_call_fails(name: str, tell: Callable[[object], None]) -> None:
    work, tally = workload(name), ErrorTally()
    count = call_count(work)
    for call in range(1, count + 1):
        # Each call fails with one of the errors, once or permanently; scripts/crash --errors runs all of them.
        turn, place = divmod(call, len(NUMBERS))
        fail(work, Failure(name, call, NUMBERS[place], turn % 2 == 0), tally)
    assert tally.runs == count
    assert tally.faults > count
    tell(f"{count} calls, {tally}")


def test_a_failure_is_replayed_by_its_name() -> None:
    failure = Failure("batches", 40, NUMBERS[0], True)
    assert Failure.parse(str(failure)) == failure
    assert replay_failure(str(failure)).runs == 1
