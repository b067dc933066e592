"""Plugins reach brokers through pymq.client alone; values and codes of the protocol are no way to a broker."""

from __future__ import annotations

import ast

import pytest

from tests.tidy.sources import ROOT

VALUES = ("pymq.client", "pymq.clock", "pymq.errors", "pymq.model", "pymq.wire.codes")


@pytest.mark.parametrize(
    ("plugin", "allowed"),
    [
        ("pymq_celery", (*VALUES, "pymq.rate_limited_log")),
        ("pymq_faststream", (*VALUES, "pymq.filter")),
    ],
)
def test_brokers_are_reached_through_the_client_library(plugin: str, allowed: tuple[str, ...]) -> None:
    used: set[str] = set()
    for path in (ROOT / "plugins" / plugin.replace("_", "-") / "src" / plugin).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                used.add(node.module)
    ours = {name for name in used if name.partition(".")[0] in ("pymq", plugin)} - {"pymq"}
    assert ours
    assert not [name for name in sorted(ours) if not name.startswith((*allowed, plugin))]
