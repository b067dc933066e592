"""A build hook of hatchling (pyproject.toml): puts what ``pymq docs`` and ``pymq conf`` show into wheels.

Pictures stay out: a terminal shows none. Once PyMQ is on a package index (``scripts/published``), a wheel leaves the
files of pymq-client out, on which it then depends.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = "pymq/_shipped"
CLIENT = "pymq-client=="
TOP_PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md")


class ShippedFiles(BuildHookInterface[Any]):
    """Adds the files; an editable installation finds them in its checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files of a wheel."""
        if version == "editable":
            return
        root = Path(self.root)
        pages = [*sorted((root / "docs").glob("*.md")), *(root / name for name in TOP_PAGES)]
        examples = sorted(path for path in (root / "conf").rglob("*") if path.is_file())
        places = {path: f"docs/{path.name}" for path in pages}
        places |= {path: path.relative_to(root).as_posix() for path in examples}
        build_data["force_include"].update({str(path): f"{TARGET}/{place}" for path, place in places.items()})
        if any(each.startswith(CLIENT) for each in self.metadata.core.dependencies):
            excluded = self.build_config.target_config.setdefault("exclude", [])
            excluded += [f"/{file}" for file in _client_files(root)]


def _client_files(root: Path) -> list[str]:
    folder = str(root / "client")
    sys.path.insert(0, folder)
    try:
        from closure import client_files  # noqa: PLC0415 - it is in a folder that is no package
    finally:
        sys.path.remove(folder)
    return client_files(root)
