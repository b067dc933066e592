"""Mutation tests of the consumption of lite topics: unit tests catch every seeded bug."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.broker.lites.seeded_bugs import BUGS
from tests.planting import Bug, is_caught, run_test

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.mark.parametrize("suite", sorted({suite for bug in BUGS for suite in bug.suites}))
def test_without_a_bug_the_tests_pass(suite: str) -> None:
    _run(suite)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


def _run(suite: str) -> None:
    module, _, name = suite.rpartition(".")
    run_test(getattr(import_module(f"tests.broker.{module}"), name))
