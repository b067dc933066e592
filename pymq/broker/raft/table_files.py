"""TableFiles: the tables of a replica in ``config/``, in the files that a plain broker has them in.

Each file says up to where in the log it goes. ``raftTables.json`` says from where on a start must read the log. It is
saved after the others, so a crash between two of them costs nothing but records that are read again.
"""

from __future__ import annotations

from collections.abc import Iterable

from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.raft.node_directory import TABLES_FILE
from pymq.broker.raft.table_records import TABLE_KINDS
from pymq.broker.raft.tables import Table, Tables
from pymq.errors import StoreError
from pymq.store.disk.json_table import JsonTable

LOG_END = "raftLogEnd"  # a member of each file


class TableFiles:
    """Loads and saves them. One save runs at a time, in any thread."""

    def __init__(self, config_tables: ConfigTables) -> None:
        self._files = {
            name: config_tables.table(name, next(iter(kind.entries), None), may_go_back=bool(kind.entries))
            for name, kind in TABLE_KINDS.items()
        }
        self._state: JsonTable = config_tables.table(TABLES_FILE)

    def load(self) -> Tables:
        """Return the tables as last saved. Raises StoreError, also for a file that was written without the group."""
        state = self._state.load()
        tables = Tables(_number(state.get(LOG_END)))
        for name, file in self._files.items():
            saved = file.load()
            if LOG_END in saved:
                table = Table(name, _number(saved[LOG_END]))
                table.take_object(saved)
                tables.put(table)
            elif name in state.get("tables", ()):
                raise StoreError(
                    f"config/{name} was written without the Raft group, which had it as of offset {tables.end}: put "
                    f"its file back, or move config/{TABLES_FILE} and config/raftState.json away to found the group "
                    "again"
                )
        return tables

    def save(self, tables: Iterable[Table], names: Iterable[str], end: int) -> None:
        """Save ``tables``, those that changed, and then that all tables (``names``) go up to ``end``.

        Raises StoreError.
        """
        for table in tables:
            self._files[table.name].save(table.as_object() | {LOG_END: table.end})
        self._state.save({LOG_END: end, "tables": sorted(names)})


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
