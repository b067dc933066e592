"""Mutation tests of the producer: the tests of batches and of the order of keys catch every seeded bug."""

from __future__ import annotations

import pytest

from tests.client import test_batching
from tests.client.seeded_bugs import BUGS
from tests.planting import Bug, is_caught

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


def _run(suite: str) -> None:
    name, _, value = suite.partition(" ")
    test = getattr(test_batching, name)
    (marks,) = [mark.args[1] for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"] or [[None]]
    for argument in [int(value)] if value else marks:
        test(*([] if argument is None else [argument]))
