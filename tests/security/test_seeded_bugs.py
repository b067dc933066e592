"""Mutation tests of identity and permission: their tests catch every seeded bug."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.broker import test_security
from tests.model import test_access
from tests.planting import Bug
from tests.security import (
    test_acl_5x,
    test_addresses,
    test_guard,
    test_identities,
    test_plain_acl,
    test_policies,
    test_rows,
    test_signature,
)
from tests.security.seeded_bugs import BUGS

MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        test_access,
        test_acl_5x,
        test_addresses,
        test_guard,
        test_identities,
        test_plain_acl,
        test_policies,
        test_rows,
        test_security,
        test_signature,
    )
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    for suite in bug.suites:
        module_name, _, name = suite.partition(".")
        module = MODULES[module_name]
        with bug.planted(), monkeypatch.context() as patch:
            _follow(module, patch)
            if not _passes(getattr(module, name)):
                return
    raise AssertionError(f"{bug.name} passed {bug.suites}")


@pytest.mark.parametrize("name", sorted({suite for bug in BUGS for suite in bug.suites}))
def test_without_a_bug_the_tests_pass(name: str) -> None:
    module_name, _, function = name.partition(".")
    assert _passes(getattr(MODULES[module_name], function))


def _follow(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    """Have a test module use the product's functions as they are now, with the bug."""
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType) and value.__module__.startswith("pymq."):
            patch.setattr(module, name, getattr(sys.modules[value.__module__], value.__name__, value))


def _passes(test: Callable[..., Any]) -> bool:
    """Run a test with each set of its parameters."""
    marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    assert len(marks) <= 1
    ((names, values),) = marks or [("", [()])]
    single = not isinstance(names, tuple) and "," not in names
    try:
        for value in values:
            plain = value.values if hasattr(value, "values") and hasattr(value, "marks") else value
            arguments = plain if hasattr(value, "marks") or not single or not names else (plain,)
            test(*arguments)
    except (Exception, pytest.fail.Exception):
        return False
    return True
