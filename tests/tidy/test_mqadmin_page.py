"""docs/mqadmin.md has every subcommand of mqadmin, with tests and commands that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from pymq.cli.main import app
from pymq.client import Admin
from tests.interop.support.mqadmin_commands import REFUSED, SUBCOMMANDS
from tests.tidy.sources import ROOT

ROW = re.compile(r"^\| (\w+) \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """One subcommand: what it does on PyMQ, PyMQ's commands for it, and its tests."""

    name: str
    result: str
    commands: list[str]
    tests: list[str]


@cache
def rows() -> list[Row]:
    text = (ROOT / "docs" / "mqadmin.md").read_text(encoding="utf-8")
    return [
        Row(name, result, CODE.findall(commands), CODE.findall(tests))
        for name, result, commands, tests in ROW.findall(text)
        if name != "mqadmin"
    ]


@cache
def interop_tests() -> dict[str, str]:
    """Return the test functions of tests/interop with their sources."""
    found = {}
    for path in (ROOT / "tests" / "interop").glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = ast.get_source_segment(text, node) or ""
    return found


def test_every_subcommand_has_one_row() -> None:
    assert sorted(row.name for row in rows()) == sorted(SUBCOMMANDS)
    assert len(set(SUBCOMMANDS)) == len(SUBCOMMANDS)


def test_a_subcommand_works_with_tests_that_run_it_or_is_refused_with_the_reason() -> None:
    for row in rows():
        refused = REFUSED.get(row.name)
        if refused is not None:
            assert (row.result, row.tests) == (f"refused ({refused.code}): {refused.reason}", [])
        else:
            assert row.tests and not row.result.startswith("refused"), row.name
        for test in row.tests:
            assert f'"{row.name}"' in interop_tests()[f"test_{test}"], row


@pytest.mark.slow
def test_the_commands_for_the_same_job_exist() -> None:
    admin = Admin("127.0.0.1:9876")
    for command in sorted({command for row in rows() for command in row.commands}):
        if command.startswith("admin."):
            assert callable(attrgetter(command.removeprefix("admin."))(admin)), command
        else:
            check_command(command.split())


def check_command(words: list[str]) -> None:
    """Assert that the words name a command of ``pymq``, and that it has the options among them."""
    found: Any = get_command(app)
    context = found.context_class(found, info_name="pymq")
    while words and not words[0].startswith("-"):
        assert hasattr(found, "get_command"), words
        found = found.get_command(context, words[0])
        assert found is not None, words
        context = found.context_class(found, info_name=words[0], parent=context)
        words = words[1:]
    options = {name for parameter in found.params for name in parameter.opts}
    assert not [word for word in words if word.startswith("-") and word not in options], words
