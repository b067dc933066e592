"""Mutation tests of Raft's rules: their tests, or a few stories, catch every seeded bug."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tests.planting import Bug, is_caught
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
    test = getattr(import_module(f"tests.raft.{module}"), name)
    for arguments in _cases(test):
        test(**arguments)


def _cases(test: Any) -> list[dict[str, Any]]:
    """Return the arguments of each run of a test with at most one parametrize mark."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    return [dict(zip(marks[0].args[0], values, strict=True)) for values in marks[0].args[1]] if marks else [{}]
