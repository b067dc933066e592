"""The folder in a table's place where tasks report what they have written, for a driver whose job fails."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from pymq.spark.places.places import Place, make_directory, remove_tree

# What a killed export has left is removed by a later one; no other export's round takes so long.
LEFT_BEHIND_S: Final = 86400


class ResultsFolder:
    """The folder ``root``, which several exports may use at once: each removes its own reports and very old ones."""

    def __init__(self, root: Place) -> None:
        self._root = root
        self._made: list[Place] = []
        for path in root.iterdir() if root.is_dir() else ():
            begun, _, _ = path.name.partition("-")
            if begun.isdigit() and time.time() - int(begun) > LEFT_BEHIND_S:
                remove_tree(path)

    def new(self, name: str) -> Place:
        """Create a directory for the reports of a round. The name must be new."""
        path = self._root / f"{int(time.time())}-{name}"
        make_directory(path)
        self._made.append(path)
        return path

    def close(self) -> None:
        """Remove the reports of all rounds."""
        for path in self._made:
            remove_tree(path)
        if isinstance(self._root, Path):
            with suppress(OSError):  # of another export, or not made
                self._root.rmdir()
                self._root.parent.rmdir()
