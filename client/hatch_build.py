"""A build hook of hatchling for pymq-client: the files that ``pymq.client`` imports, from the tree around this folder.

A source distribution has them beside this file.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ClientFiles(BuildHookInterface[Any]):
    """Adds the files to wheels and to source distributions."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, and where they go."""
        here = Path(self.root)
        sys.path.insert(0, self.root)
        try:
            from closure import client_files  # noqa: PLC0415 - it is beside this file, which is no package
        finally:
            sys.path.remove(self.root)
        root = here if (here / "pymq").is_dir() else here.parent
        build_data["force_include"].update({str(root / file): file for file in client_files(root)})
