"""A function's docstring begins in the imperative mood ("Return the …"), a property's perhaps with a noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.sources import Module, modules

# Packages that are not done yet. In the last one docstrings of commands are the text of --help, which stays.
NOT_YET = ("pymq/cli/",)
# First words that end with an s and are no verbs in the third person.
OTHERS = {
    "Addresses", "Brokers", "Bytes", "Clusters", "Figures", "Its", "Keys", "Masters", "Messages", "Needs", "Pass",
    "Problems", "Ranges", "Records", "Rows", "Segments", "Settings", "Slaves", "Spans", "This", "Topics", "Units",
    "Users",
}  # fmt: skip
THIRD_PERSON = re.compile(r"[A-Z][a-z]+s\b")


def third_person(module: Module) -> Iterator[str]:
    """Yield "file:line: first word" for each docstring of a function that begins in the third person."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        found = THIRD_PERSON.match(ast.get_docstring(node) or "")
        if found and found[0] not in OTHERS:
            yield f"{module.name}:{node.lineno}: {found[0]}"


@pytest.mark.slow
def test_docstrings_of_functions_begin_in_the_imperative_mood() -> None:
    found = [line for module in modules() if not module.name.startswith(NOT_YET) for line in third_person(module)]
    assert not found, "write Return, Yield, Raise, … in place of Returns, Yields, Raises"


def test_the_check_finds_the_third_person() -> None:
    text = 'def f():\n    """Returns x."""\n\nasync def g():\n    """Return x."""\n\ndef h():\n    """Rows of x."""\n'
    assert list(third_person(Module("pymq/x.py", text, ast.parse(text)))) == ["pymq/x.py:1: Returns"]


def test_no_package_is_exempt_that_needs_no_exemption() -> None:
    done = [name for name in NOT_YET if not any(list(third_person(m)) for m in modules() if m.name.startswith(name))]
    assert not done, "take them out of NOT_YET"
