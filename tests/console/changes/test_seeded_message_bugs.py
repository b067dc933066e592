"""Mutation tests of sends, dead letters and exports: their tests catch every seeded bug."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pymq.testing.broker import TestBroker
from tests.console.changes import test_dead_letters, test_handling, test_labels, test_sending
from tests.console.changes.seeded_message_bugs import BUGS
from tests.console.messages import test_export
from tests.console.pages import test_rendering
from tests.operations.message import test_forward
from tests.operations.message import test_sending as test_sends
from tests.planting import Bug, arguments_of, follow, is_caught

pytestmark = [
    pytest.mark.usefixtures("quiet_log"),
    # A test that ends in the midst leaves what it has begun.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MODULES = {"test_sends": test_sends} | {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(test_dead_letters, test_export, test_forward, test_handling, test_labels, test_rendering, test_sending),
    )
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug} passed {bug.suites}"


def _run(suite: str) -> None:
    module_name, _, name = suite.partition(".")
    module = MODULES[module_name]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        follow(module, patch)
        test = getattr(module, name)
        for arguments in arguments_of(test):
            test(**_fixtures(test, stack, patch), **arguments)


def _fixtures(test: Callable[..., Any], stack: ExitStack, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    wanted = inspect.signature(test).parameters
    if "broker" in wanted:
        found["broker"] = stack.enter_context(TestBroker())
        for topic, queue_count in {**test_sending.TOPICS, **test_dead_letters.TOPICS}.items():
            found["broker"].create_topic(topic, queue_count=queue_count)
    if "tmp_path" in wanted:
        found["tmp_path"] = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    if "monkeypatch" in wanted:
        found["monkeypatch"] = patch
    return found
