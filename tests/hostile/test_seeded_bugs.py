"""Mutation tests of the rules that hold attacks: unit tests notice bugs in them.

The suite takes the bugs of two test files; ``python -m tests.hostile.mutations`` takes all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.seeded_bugs import BUGS, CLAIMS, PEERS
from tests.planting import Bug

BUG_COUNT_MIN = 55
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted(bug: Bug) -> None:
    """This fast test fails first when a seeded bug no longer matches the product's code."""
    with bug.planted():
        pass


@pytest.mark.slow
def test_bugs_in_claims_and_in_the_choice_of_peers_are_caught() -> None:
    command = [sys.executable, "-m", "tests.hostile.mutations", PEERS, CLAIMS]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_there_are_many() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= BUG_COUNT_MIN
