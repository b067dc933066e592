"""RenamedTable: a JSON table whose file had another name in earlier versions.

While a file of the former name exists, it is the valid one: an earlier version wrote it last, or a crash came before
its removal. The first save writes the new file, then removes the former one and its backup. A crash at any point leaves
one of the two complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pymq.errors import StoreUnavailableError
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

Translate = Callable[[dict[str, Any]], dict[str, Any]]


class RenamedTable(JsonTable):
    """Reads ``former_path`` if it exists, else ``path``; writes ``path``."""

    def __init__(self, files: Files, path: str, former_path: str, translate: Translate = dict) -> None:
        """``translate`` turns a table of the former file into today's form: its members may have had other names."""
        super().__init__(files, path)
        self._former_path = former_path
        self._translate = translate
        self._has_former = True  # until load or save has looked

    def load(self) -> dict[str, Any]:
        """Return the table, as :meth:`JsonTable.load` does."""
        self._has_former = self._files.exists(self._former_path)
        if not self._has_former:
            return super().load()
        former = JsonTable(self._files, self._former_path)
        try:
            return self._translate(former.load())
        finally:
            self._rejected = former.rejected  # the next save keeps it as a .bad file

    def save(self, table: Mapping[str, Any]) -> None:
        """Write the new file, then remove the former one. Raises StoreUnavailableError."""
        super().save(table)
        if self._has_former:
            self._remove_former()

    def _remove_former(self) -> None:
        # The backup goes first: it is older than the file, and would be read in its place.
        for path in (self._former_path + ".bak", self._former_path):
            try:
                if self._files.exists(path):
                    self._files.remove(path)
                    self._files.sync_dir(self._directory)
            except OSError as error:
                raise StoreUnavailableError(
                    f"{path} can't be removed: {error.strerror} (errno {error.errno}); {self._path} replaces it: "
                    "mend the disk"
                ) from error
        self._has_former = False
