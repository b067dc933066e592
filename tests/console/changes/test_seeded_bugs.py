"""Mutation tests of changes: their tests catch every seeded bug."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pymq.testing.broker import TestBroker
from tests.console import test_audit
from tests.console.changes import test_kept, test_offsets, test_shrink, test_topics, test_users
from tests.console.changes.seeded_bugs import BUGS
from tests.console.hostile import test_changes as test_rights_elsewhere
from tests.console.pages import test_audit as test_audit_page
from tests.console.secured import secured_broker
from tests.operations.topic import test_resizing
from tests.planting import Bug, arguments_of, follow, is_caught

pytestmark = [
    pytest.mark.usefixtures("quiet_log"),
    # A test that ends in the midst leaves what it has begun.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MODULES = {
    "test_audit": test_audit,
    "test_audit_page": test_audit_page,
    "test_kept": test_kept,
    "test_offsets": test_offsets,
    "test_resizing": test_resizing,
    "test_rights_elsewhere": test_rights_elsewhere,
    "test_shrink": test_shrink,
    "test_topics": test_topics,
    "test_users": test_users,
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    for suite in bug.suites:
        _test(suite)  # a name that is wrong would pass for a caught bug
    assert is_caught(bug, _run), f"{bug} passed {bug.suites}"


def _test(suite: str) -> tuple[ModuleType, Callable[..., Any]]:
    module_name, _, name = suite.partition(".")
    module = MODULES[module_name]
    return module, getattr(module, name)


def _run(suite: str) -> None:
    module, test = _test(suite)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        follow(module, patch)
        for arguments in arguments_of(test):
            test(**_fixtures(test, stack), **arguments)


def _fixtures(test: Callable[..., Any], stack: ExitStack) -> dict[str, Any]:
    found: dict[str, Any] = {}
    wanted = inspect.signature(test).parameters
    if "tmp_path" in wanted:
        found["tmp_path"] = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    if "broker" in wanted and test.__module__.endswith("test_users"):
        found["broker"] = stack.enter_context(secured_broker(found["tmp_path"]))
    elif "broker" in wanted:
        found["broker"] = stack.enter_context(TestBroker())
        if test.__module__.endswith("test_offsets"):
            found["broker"].create_topic(test_offsets.TOPIC, queue_count=1)
        if test.__module__.endswith("test_shrink"):
            found["broker"].create_topic("orders", queue_count=4)
    return found
