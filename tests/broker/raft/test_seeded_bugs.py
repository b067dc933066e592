"""Mutation tests of the driver: its tests, or a few stories, catch every seeded bug."""

from __future__ import annotations

import pytest

from tests.broker.raft import test_driver
from tests.broker.raft.seeded_bugs import BUGS
from tests.planting import Bug, is_caught, run_test


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


def _run(suite: str) -> None:
    if suite == "stories":
        for seed in range(1, 25):
            test_driver.play([seed])
        return
    run_test(getattr(test_driver, suite))
