"""Mutation tests of table versions and notices: their unit tests catch every seeded bug."""

from __future__ import annotations

from importlib import import_module

import pytest

from pymq.client.admin import guarded
from tests.broker.metadata.seeded_bugs import BUGS
from tests.planting import Bug, is_caught, run_test

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a change that is refused be tried again at once."""
    monkeypatch.setattr(guarded, "RETRY_AFTER_S", 0.0)


@pytest.mark.parametrize("suite", sorted({suite for bug in BUGS for suite in bug.suites}))
def test_without_a_bug_the_tests_pass(suite: str) -> None:
    _run(suite)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


def _run(suite: str) -> None:
    module, _, name = suite.rpartition(".")
    run_test(getattr(import_module(f"tests.{module}"), name))
