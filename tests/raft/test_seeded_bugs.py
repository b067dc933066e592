"""Mutation tests of Raft's rules: their tests, or a few stories, catch every seeded bug."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.planting import Bug, is_caught, run_test
from tests.raft.seeded_bugs import BUGS
from tests.raft.story import play

SEEDS_MAX = 12


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


def _run(suite: str) -> None:
    if suite == "seeds":
        for seed in range(1, SEEDS_MAX + 1):
            play(seed)
        return
    module, _, name = suite.rpartition(".")
    run_test(getattr(import_module(f"tests.raft.{module}"), name))
