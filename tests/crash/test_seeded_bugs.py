"""Mutation tests of the crash suites: they catch every seeded bug."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.mutations import caught_by
from tests.crash.seeded_bugs import BUGS
from tests.planting import Bug, Seam

BUG_COUNT_MIN = 50

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert caught_by(bug) is not None, f"{bug} passed {bug.suites}"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted(bug: Bug) -> None:
    """This fast test fails first when a seeded bug no longer matches the store's code."""
    with bug.planted():
        pass


def test_there_are_many(tell: Callable[[object], None]) -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= BUG_COUNT_MIN
    tell(f"{len(BUGS)} seeded bugs, {sum(isinstance(bug.mutation, Seam) for bug in BUGS)} of them in a seam")
