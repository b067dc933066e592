"""Mutation tests of the tables of groups: their tests, or a few stories, catch every seeded bug."""

from __future__ import annotations

import pytest

from pymq.broker.raft import table_records
from tests.broker.raft import table_story, test_table_log, test_table_records
from tests.broker.raft.table_seeded_bugs import BUGS
from tests.planting import Bug, follow, is_caught, run_test

SEEDS_MAX = 12
MODULES = {"test_table_log": test_table_log, "test_table_records": test_table_records}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


def _run(suite: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if suite == "stories":
            patch.setattr(table_records, "PART_BYTES_MAX", 160)
            for seed in range(1, SEEDS_MAX + 1):
                table_story.play(seed)
            return
        name, _, test_name = suite.rpartition(".")
        module = MODULES[name]
        follow(module, patch)
        run_test(getattr(module, test_name))
