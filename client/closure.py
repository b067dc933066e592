"""Which files of the tree belong to the package pymq-client: those that ``pymq.client`` imports, anywhere in its code.

Used by the build hooks of both packages (``hatch_build.py``), and by the test that keeps the package small.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "pymq"
START = "pymq.client"
DATA = ("pymq/__init__.pyi", "pymq/py.typed")


def modules(root: Path) -> dict[str, Path]:
    """Return the name -> file of each module below ``root``."""
    found = {}
    for path in (root / PACKAGE).rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def client_modules(known: dict[str, Path]) -> dict[str, set[str]]:
    """Return the modules of the client -> the packages of others that each imports, at any time."""
    found: dict[str, set[str]] = {}
    waiting = [PACKAGE, *(name for name in known if name == START or name.startswith(f"{START}."))]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = set()
        for imported in _imports(known[name], name, known):
            parts = imported.split(".")
            if parts[0] != PACKAGE:
                found[name].add(parts[0])
                continue
            parents = (".".join(parts[: end + 1]) for end in range(len(parts)))
            waiting += [parent for parent in parents if parent in known]
    return found


def client_files(root: Path) -> list[str]:
    """Return the files of pymq-client, relative to ``root`` and sorted."""
    known = modules(root)
    files = [known[name].relative_to(root).as_posix() for name in client_modules(known)]
    return sorted([*files, *DATA])


def _imports(path: Path, name: str, known: dict[str, Path]) -> Iterator[str]:
    """Yield what a module imports, also inside functions, and not for type checkers alone."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    waiting: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (full if (full := f"{base}.{each.name}") in known else base for each in node.names)
        else:
            waiting += ast.iter_child_nodes(node)
