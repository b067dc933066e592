"""Mutation tests of what a node believes: each seeded bug is caught by the test that it names."""

from __future__ import annotations

import inspect
import tempfile
from importlib import import_module
from pathlib import Path

import pytest

from tests.broker.raft.trust_seeded_bugs import BUGS
from tests.planting import Bug, arguments_of, is_caught


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    _run(bug.suites[0])
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


def _run(suite: str) -> None:
    module, _, name = suite.rpartition(".")
    test = getattr(import_module(module), name)
    for arguments in arguments_of(test):
        with tempfile.TemporaryDirectory() as directory:
            if "tmp_path" in inspect.signature(test).parameters:
                arguments["tmp_path"] = Path(directory)
            test(**arguments)
