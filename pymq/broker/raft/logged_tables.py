"""LoggedTable: the savers of a broker's managers in a Raft group. What a leader saves becomes a record of the log.

A manager makes and answers a change once it is saved. So it needs no other rule for a group: saved means confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.table_reading import Table
from pymq.broker.metadata.table_saver import Make, Saved, TableSaver
from pymq.broker.raft.table_files import LOG_END
from pymq.broker.raft.table_log import TableLog
from pymq.broker.raft.table_records import DELETIONS, DELETIONS_TABLE, TABLE_KINDS
from pymq.broker.work.worker_threads import RunInThread
from pymq.errors import StoreError
from pymq.store.disk.fs import Files

LOG_INTERVAL_MS = 1_000  # progress and offsets that changed are written at least as often


class LoggedTable(TableSaver):
    """The saver of one table. On a follower it saves nothing: the tables follow from the log."""

    def __init__(self, name: str, file: Table, table_log: TableLog, *, leads: bool) -> None:
        """``file``: what a plain broker left, for a group whose log does not have the table yet.

        ``leads``: the manager is of a leader's parts, also after others lead: then its changes are refused.
        """
        super().__init__(file)
        self.name = name
        self._file = file
        self._log = table_log
        self._leads = leads
        self._loaded: dict[str, Any] | None = None
        self.flush: Callable[[], None] = lambda: None  # has the manager write what waits for its time

    def load(self) -> dict[str, Any]:
        """Return the table after all of the log, on a follower after all that is confirmed. Raises StoreError."""
        planned = self._log.planned(self.name)
        if planned is not None:
            return planned.as_object()
        loaded = self._file.load()
        loaded.pop(LOG_END, None)  # of a group that is no more
        self._loaded = loaded
        return loaded

    def interval_ms(self, interval_ms: int) -> int:
        return min(interval_ms, LOG_INTERVAL_MS)

    def pause_ms(self, duration_ms: int) -> int:
        return 0

    @property
    def is_whole_needed(self) -> bool:
        """True while the log has no record of this table."""
        return self._log.planned(self.name) is None

    def begin(self) -> None:
        """Write what was loaded from the file, if nothing of the table is in the log yet."""
        if self._loaded is None or not self._leads or self.is_busy or not self.is_whole_needed:
            return
        loaded = self._loaded
        self.save_soon(lambda: loaded, lambda error: None)

    def save(self, value: dict[str, Any]) -> None:
        """Save nothing: what is not confirmed when the broker stops was not answered."""

    def save_soon(self, make: Make, saved: Saved) -> None:
        self._propose(make(), saved, is_part=False)

    def save_part_soon(self, part: dict[str, Any], saved: Saved) -> None:
        """As :meth:`save_soon`, for the entries that changed; none is gone."""
        self._propose(part, saved, is_part=True)

    def _propose(self, value: dict[str, Any], saved: Saved, *, is_part: bool) -> None:
        assert not self.is_busy
        if not self._leads:
            saved(None)
            return
        self.is_busy = True

        def done(error: StoreError | None) -> None:
            self.is_busy = False
            saved(error)

        self._log.propose(self.name, value, done, is_part=is_part)


class LoggedTables(ConfigTables):
    """Gives the managers a group's tables; other files are as in a plain broker."""

    def __init__(
        self, files: Files, root: str, run_in_thread: RunInThread, table_log: TableLog, *, leads: bool
    ) -> None:
        super().__init__(files, root, run_in_thread)
        self._table_log = table_log
        self._leads = leads
        self.savers: list[LoggedTable] = []

    def share_deletions(self, ends: Mapping[str, int], done: Callable[[StoreError | None], None]) -> None:
        """Write it to the log, and wait until it is confirmed: else the next leader would have the former topic."""
        self._table_log.propose(DELETIONS_TABLE, {DELETIONS: dict(ends)}, done)

    def saver(
        self, file_name: str, member: str, before: Callable[[], object] = lambda: None, *, may_go_back: bool = True
    ) -> TableSaver:
        if file_name not in TABLE_KINDS:
            return super().saver(file_name, member, before, may_go_back=may_go_back)
        file = self.table(file_name, member, may_go_back=may_go_back)
        saver = LoggedTable(file_name, file, self._table_log, leads=self._leads)
        self.savers.append(saver)
        return saver
