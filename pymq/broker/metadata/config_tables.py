"""ConfigTables: the JSON tables in a store's directory ``config/``, and their savers."""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.upkeep.flusher import RunInThread
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable


class ConfigTables:
    """``root``: the store's directory. Savers write in threads of ``run_in_thread``."""

    def __init__(self, files: Files, root: str, run_in_thread: RunInThread) -> None:
        self._files = files
        self._root = root
        self._run_in_thread = run_in_thread

    def table(self, file_name: str, member: str | None = None) -> JsonTable:
        """Return the table in ``file_name``; ``member`` names an object that it must have unless it is empty."""
        return JsonTable(self._files, f"{self._root}/config/{file_name}", member)

    def saver(self, file_name: str, member: str, before: Callable[[], object] = lambda: None) -> TableSaver:
        """Return the saver of that table; ``before`` as in :class:`TableSaver`."""
        return TableSaver(self.table(file_name, member), self._run_in_thread, before)
