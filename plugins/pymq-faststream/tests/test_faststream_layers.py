"""The package reaches brokers through pymq.client alone; values and codes of the protocol are no way to a broker."""

from __future__ import annotations

import ast
from pathlib import Path

import pymq_faststream

ALLOWED = (
    "pymq.client",
    "pymq.clock",
    "pymq.filter",
    "pymq.errors",
    "pymq.model",
    "pymq.wire.codes",
    "pymq_faststream",
)


def test_brokers_are_reached_through_the_client_library() -> None:
    used: set[str] = set()
    for path in Path(pymq_faststream.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                used.add(node.module)
    ours = {name for name in used if name.partition(".")[0] in ("pymq", "pymq_faststream")} - {"pymq"}
    assert ours
    assert not [name for name in sorted(ours) if not name.startswith(ALLOWED)]
