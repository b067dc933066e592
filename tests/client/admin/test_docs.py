"""docs/client.md shows every admin call, with arguments that fit it."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cached_property
from pathlib import Path

import pytest

from pymq.client.admin import Admin

TEXT = (Path(__file__).parents[3] / "docs" / "client.md").read_text()
ADMIN = Admin("127.0.0.1:1")
PARTS = {
    name: type(getattr(ADMIN, name)) for name, member in vars(Admin).items() if isinstance(member, cached_property)
}
CALLS = {
    f"admin.{name}.{method}": function
    for name, part in PARTS.items()
    for method, function in inspect.getmembers(part, inspect.isfunction)
    if not method.startswith("_")
}
ROWS = re.findall(r"^\| `(?:await )?(admin\.[^`]+\))` \| \S", TEXT, re.MULTILINE)


def test_every_call_is_shown_once() -> None:
    assert sorted(row.partition("(")[0] for row in ROWS) == sorted(CALLS)


@pytest.mark.parametrize("row", ROWS)
def test_the_arguments_fit(row: str) -> None:
    call = ast.parse(row, mode="eval").body
    assert isinstance(call, ast.Call)
    function = CALLS[row.partition("(")[0]]
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
    inspect.signature(function).bind(None, *([None] * len(call.args)), **keywords)
