"""Mutation tests of the pages about messages: their tests catch every seeded bug."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.console.asking import test_reader
from tests.console.messages import (
    test_bodies,
    test_dead_letters,
    test_following,
    test_message,
    test_progress,
    test_rows,
    test_search,
    test_tail,
    test_timeline,
    world,
)
from tests.console.messages.seeded_bugs import BUGS
from tests.console.web import test_streams
from tests.operations.message import test_lookup, test_readers
from tests.operations.message import test_search as test_blocks
from tests.planting import Bug, arguments_of, follow, is_caught

pytestmark = [
    pytest.mark.usefixtures("quiet_log"),
    # A test that ends in the midst leaves what it has begun.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MODULES: dict[str, Any] = {"test_blocks": test_blocks} | {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(test_bodies, test_dead_letters, test_following, test_lookup, test_message, test_reader, test_readers),
        *(test_progress, test_rows, test_search, test_streams, test_tail, test_timeline),
    )
}


@pytest.fixture
def golden() -> None:
    """Compare no page: those of a seeded bug are wrong."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug} passed {bug.suites}"


@pytest.mark.parametrize("suite", sorted({suite for bug in BUGS for suite in bug.suites}))
def test_suites_pass_without_a_bug(suite: str) -> None:
    _run(suite)


def _run(suite: str) -> None:
    """Run a test with each set of its parameters."""
    module_name, _, path = suite.partition(".")
    module = MODULES[module_name]
    owner_name, _, name = path.rpartition(".")
    owner: Any = getattr(module, owner_name)() if owner_name else module
    with pytest.MonkeyPatch.context() as patch:
        world.environment.cache_clear()  # it holds functions of rendering
        follow(module, patch)
        test = getattr(owner, name)
        fixtures = {"monkeypatch": patch} if "monkeypatch" in inspect.signature(test).parameters else {}
        for arguments in arguments_of(test):
            test(**fixtures, **arguments)
