"""Parsed modules of the package, for the tests that look at the source itself."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pymq"


@dataclass(frozen=True, slots=True)
class Module:
    """One source file; ``name`` is its path below the checkout, with slashes."""

    name: str
    text: str
    tree: ast.Module

    @property
    def line_count(self) -> int:
        return self.text.count("\n")


def module_names() -> list[str]:
    """Return the names of all modules of the package, sorted."""
    return [path.relative_to(ROOT).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]


@cache
def modules() -> list[Module]:
    """Return all modules of the package, by name."""
    found = []
    for name in module_names():
        text = (ROOT / name).read_text(encoding="utf-8")
        found.append(Module(name, text, ast.parse(text)))
    return found


def dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` for an attribute chain, empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    parts.append(node.id)
    return ".".join(reversed(parts))
