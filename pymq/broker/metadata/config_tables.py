"""ConfigTables: the JSON tables in a store's directory ``config/``, and their savers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.work.worker_threads import RunInThread
from pymq.errors import StoreError
from pymq.file_modes import FILE_MODE, is_open_to_others
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.saved_tables import SavedTables


class ConfigTables:
    """``root``: the store's directory. Savers write in threads of ``run_in_thread``."""

    def __init__(self, files: Files, root: str, run_in_thread: RunInThread) -> None:
        self._files = files
        self._root = root
        self._saved = SavedTables(files, root)
        self._run_in_thread = run_in_thread

    def table(self, file_name: str, member: str | None = None, *, may_go_back: bool = True) -> JsonTable:
        """Return the table in ``file_name``; ``member`` names an object that it must have unless it is empty."""
        path = f"{self._root}/config/{file_name}"
        return JsonTable(self._files, path, member, may_go_back=may_go_back, saved=self._saved)

    def check_private(self, file_name: str) -> None:
        """Raise StoreError when others than the owner can use a table that holds secrets, or its backup."""
        for path in (f"{self._root}/config/{file_name}", f"{self._root}/config/{file_name}.bak"):
            if self._files.exists(path) and is_open_to_others(mode := self._files.mode(path)):
                raise StoreError(
                    f"{path} holds secrets and has mode {mode:04o}, the limit is {FILE_MODE:04o}: run chmod 600, "
                    "and change the secrets if others could have read them"
                )

    def share_deletions(self, ends: Mapping[str, int], done: Callable[[StoreError | None], None]) -> None:
        """Have ``done`` called once all who need it know of which topics records below these offsets are deleted.

        Slaves ask for it when their log is as far: nothing waits for them.
        """
        done(None)

    def saver(
        self, file_name: str, member: str, before: Callable[[], object] = lambda: None, *, may_go_back: bool = True
    ) -> TableSaver:
        """Return the saver of that table; ``before`` as in :class:`TableSaver`."""
        return TableSaver(self.table(file_name, member, may_go_back=may_go_back), self._run_in_thread, before)
