"""TableLog: the tables of one replica, and the changes of a leader that wait to be confirmed.

Every replica makes the changes below its confirm offset, in the order of the log. A leader *plans* with what is behind
it as well: all of its log becomes confirmed, or it stops being the leader. A change is done once it is confirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pymq.broker.raft.table_records import TableChange, TablePart, TableRecordError, decode_part, encode_change
from pymq.broker.raft.tables import Table, Tables
from pymq.errors import StoreUnavailableError

# Writes records, one behind the other, to the leader's log; returns where each ends. Raises StoreUnavailableError.
WriteRecords = Callable[[Sequence[bytes]], Sequence[int]]
# Gets None once a change is confirmed; else why nobody knows whether it ever will be.
Done = Callable[[StoreUnavailableError | None], None]


class TableRecord(NamedTuple):
    """A record of the log: where it ends, and its body."""

    end: int
    body: bytes | memoryview


class _Pending(NamedTuple):
    """A whole change in the leader's log that is not confirmed. ``end``: of its last record."""

    end: int
    change: TableChange
    done: Done | None


class _Assembly:
    """Puts the parts of changes together. Parts whose last one was never written are dropped with the next change."""

    def __init__(self) -> None:
        self._parts: list[TableChange] = []
        self._has_begun = False  # a first part was taken

    @property
    def has_parts(self) -> bool:
        """True between the first and the last part of a change."""
        return bool(self._parts)

    def take(self, part: TablePart, *, is_cut: bool) -> TableChange | None:
        """Return a change once its last part is here. Raises TableRecordError for a part without the ones before.

        ``is_cut``: the first parts may be of a change whose begin the log lacks. They are left out.
        """
        if part.number == 0:
            self._parts, self._has_begun = [], True
        elif not self._has_begun and (is_cut or not part.is_last):
            return None  # else the tables' end is within parts without a last one: no whole change lies across it
        elif part.number != len(self._parts) or part.change.table != self._parts[0].table:
            raise TableRecordError(f"part {part.number} of a change of {part.change.table} without the part before")
        self._parts.append(part.change)
        if not part.is_last:
            return None
        parts, self._parts = self._parts, []
        return _joined(parts)


def _joined(parts: list[TableChange]) -> TableChange:
    whole = TableChange(parts[0].table)
    for part in parts:
        for member, entries in part.entries.items():
            whole.entries.setdefault(member, {}).update(entries)
        for member, keys in part.removed.items():
            whole.removed.setdefault(member, []).extend(keys)
        whole.values.update(part.values)
    return whole


class TableLog:
    """The tables of a replica. One thread calls everything.

    ``tables`` are confirmed. A follower gets confirmed records by :meth:`take`. A leader begins with :meth:`lead`, and
    gets changes by :meth:`propose`.
    """

    def __init__(self, tables: Tables, write: WriteRecords) -> None:
        """``write``: see :data:`WriteRecords`. It is called for a leader alone."""
        self.tables = tables
        self.is_log_cut = False  # the log begins behind the tables' end: retention has put its begin anywhere
        self._write = write
        self._assembly = _Assembly()
        self._pending: deque[_Pending] = deque()
        self._is_leading = False

    @property
    def pending_count(self) -> int:
        """The number of changes in a leader's log that are not confirmed."""
        return len(self._pending)

    @property
    def is_leading(self) -> bool:
        """True from :meth:`lead` to :meth:`follow`."""
        return self._is_leading

    # -- followers, and every start ------------------------------------------------------------------------------

    def take(self, record: TableRecord) -> str | None:
        """Take the next confirmed record; return the name of the table that changed.

        Raises TableRecordError: then nothing behind it may be taken, or the replica's tables would be others.
        """
        assert not self._is_leading, "a leader confirms what it has planned"
        if record.end <= self.tables.end:
            return None
        change = self._assembly.take(decode_part(record.body), is_cut=self.is_log_cut)
        if change is None:
            return None
        self.tables.make(change, record.end)
        return change.table

    def replace(self, tables: Tables) -> None:
        """Take the tables of a snapshot, which include all records below their end."""
        assert not self._is_leading, "a leader has all that is confirmed"
        self.tables = tables
        self._assembly = _Assembly()

    # -- the leader ----------------------------------------------------------------------------------------------

    def lead(self, records: Iterable[TableRecord]) -> None:
        """Begin to lead, with all records of the log behind ``tables.end``. Raises TableRecordError."""
        assembly = _Assembly()  # what is left in it is of a change that its leader never wrote to its end
        for record in records:
            if record.end <= self.tables.end:
                continue
            if (change := assembly.take(decode_part(record.body), is_cut=self.is_log_cut)) is not None:
                self._pending.append(_Pending(record.end, change, None))
        self._is_leading = True

    def planned(self, name: str) -> Table | None:
        """Return a table with all changes of the leader's log, to be read only; None before its first change."""
        pending = [each.change for each in self._pending if each.change.table == name]
        table = self.tables.get(name)
        if not pending:
            return table
        planned = Table(name) if table is None else table.copy()
        for change in pending:
            planned.make(change)
        return planned

    def propose(self, name: str, wanted: Mapping[str, Any], done: Done, *, is_part: bool = False) -> None:
        """Have a table become ``wanted``, an object as in its file; ``done`` as in :data:`Done`.

        ``is_part``: ``wanted`` has only entries that may be different; the others stay.

        What is so already is done once all that was planned before is confirmed.
        """
        if not self._is_leading:
            done(StoreUnavailableError("this broker leads its group no more: ask the new leader"))
            return
        change = (self.planned(name) or Table(name)).change_to(wanted, is_part=is_part)
        if change.is_empty:
            self._when_confirmed(done)
            return
        try:
            ends = self._write(encode_change(change))
        except TableRecordError as error:
            done(StoreUnavailableError(str(error)))
        except StoreUnavailableError as error:
            done(error)
        else:
            self._pending.append(_Pending(ends[-1], change, done))

    def write_whole(self) -> None:
        """Write all tables as they are planned: a log that begins anywhere before gives the same tables.

        Raises StoreUnavailableError, also for a table that is too large.
        """
        for table in self.tables.all():
            planned = self.planned(table.name)
            assert planned is not None
            entries = {member: dict(entries) for member, entries in planned.entries.items() if entries}
            change = TableChange(table.name, entries, values=dict(planned.values))
            try:
                self._pending.append(_Pending(self._write(encode_change(change))[-1], change, None))
            except TableRecordError as error:
                raise StoreUnavailableError(str(error)) from error

    def confirm(self, offset: int) -> list[str]:
        """Make and answer all changes whose records end at or below ``offset``; return the tables that changed."""
        changed = []
        while self._pending and self._pending[0].end <= offset:
            pending = self._pending.popleft()
            self.tables.make(pending.change, pending.end)
            changed.append(pending.change.table)
            if pending.done is not None:
                pending.done(None)
        self.pass_over(offset)
        return changed

    def pass_over(self, offset: int) -> None:
        """Take note that all records below ``offset`` are confirmed and were taken, or are no changes of tables.

        A change whose parts are not all there keeps the tables' end in front of it: a start reads it from there.
        """
        if not self._pending and not self._assembly.has_parts:
            self.tables.pass_over(offset)

    def follow(self) -> None:
        """Stop leading. What is not confirmed may still be, by the next leader.

        The records behind ``tables.end`` come by :meth:`take` next, also those that came before.
        """
        self._is_leading = False
        self._assembly = _Assembly()
        self._give_up(
            "this broker leads its group no more, and the change was not confirmed: read the table before you make it "
            "again"
        )

    def drop_unwritten(self, log_end: int, why: str) -> None:
        """Give up what is not in the log, which ends at ``log_end``: writing it failed, because of ``why``."""
        self._give_up(why, above=log_end)

    def _give_up(self, why: str, above: int = -1) -> None:
        doomed = [each for each in self._pending if each.end > above]
        self._pending = deque(each for each in self._pending if each.end <= above)
        for each in doomed:
            if each.done is not None:
                each.done(StoreUnavailableError(why))

    def _when_confirmed(self, done: Done) -> None:
        if self._pending:
            nothing = TableChange(self._pending[-1].change.table)
            self._pending.append(_Pending(self._pending[-1].end, nothing, done))
        else:
            done(None)
