"""Mutation tests of the producer: the tests of batches and of the order of keys catch every seeded bug."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.client import test_batching
from tests.client.seeded_bugs import BUGS
from tests.planting import Bug


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silence the log: a broken producer logs a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    for suite in bug.suites:
        with bug.planted():
            try:
                _run(suite)
            except (Exception, pytest.fail.Exception):
                return
    raise AssertionError(f"{bug.name} passed {bug.suites}")


def _run(suite: str) -> None:
    name, _, value = suite.partition(" ")
    test = getattr(test_batching, name)
    (marks,) = [mark.args[1] for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"] or [[None]]
    for argument in [int(value)] if value else marks:
        test(*([] if argument is None else [argument]))
