"""The import contracts of pyproject.toml hold, and no modules import each other in a circle."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.tidy.sources import ROOT, Module, modules


def dotted_name(module: Module) -> str:
    return module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def import_graph(found: Iterable[Module]) -> dict[str, set[str]]:
    """Return module -> modules it imports anywhere: at its top, in a function, or only for type checkers."""
    trees = {dotted_name(module): module.tree for module in found}
    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        graph[name] = {
            target
            for node in ast.walk(tree)
            for imported in _imported(node)
            for target in [imported if imported in trees else imported.rpartition(".")[0]]
            if target in trees and target != name
        }
    return graph


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def circular(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the modules that import themselves through others."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += graph[name]
        return seen

    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return {name for name in graph if name in reachable(name)}
    return set()


@pytest.mark.slow
def test_layers_import_downwards_only() -> None:
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circular(import_graph(modules())) == set()


def test_the_check_finds_circles_of_all_kinds() -> None:
    texts = {
        "pymq/a.py": "from pymq.b import x\n",
        "pymq/b.py": "if TYPE_CHECKING:\n    from pymq import c\n",
        "pymq/c.py": "def f():\n    import pymq.a\n",
        "pymq/d.py": "from pymq.a import x\n",
    }
    graph = import_graph([Module(name, text, ast.parse(text)) for name, text in texts.items()])
    assert circular(graph) == {"pymq.a", "pymq.b", "pymq.c"}
