"""SlaveCursors: a slave's copy of its master's offsets, with the commits of consumers that use the slave."""

from __future__ import annotations

from typing import Any

from pymq.broker.metadata.cursors import CursorManager, MaxOffset
from pymq.broker.metadata.offset_table import Offsets, read_offsets
from pymq.broker.metadata.pending_offsets import PendingOffsets
from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.replication.tables.table_pieces import PIECE
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model.tables import DataVersion
from pymq.model.transactions import TRANSACTION_GROUP
from pymq.wire.codes import ResponseCode

# A slave's file follows its master's offsets closely. A large table is saved less often, because a save takes time.
SAVE_INTERVAL_MS = 500
KEYS_SAVED_PER_MS = 10
LOG_BOUND = "logBound"  # in a master's table of offsets: the keys that come in a table of their own


class SlaveCursors(CursorManager):
    """Commits only move offsets forward here, because a slave can't tell an intended step back from a late old commit.
    The table, its version and every step back come from the master.

    A commit may lie after the queue's end, because the master may have delivered messages that this slave lacks.
    """

    def __init__(
        self,
        runtime: Runtime,
        table: TableSaver,
        *,
        max_offset: MaxOffset,
        pending: PendingOffsets,
    ) -> None:
        super().__init__(table, clock=runtime.clock, config=runtime.config, max_offset=max_offset)
        self._pending = pending
        self._copied_keys: set[tuple[str, str]] = set()  # of the pieces of a whole copy that came so far
        self._log_bound_keys: set[tuple[str, str]] = set()  # of the last table that take_log_bound() took
        self._next_save_ms = runtime.clock.monotonic_ms()

    def load(self) -> None:
        """Read both tables."""
        super().load()
        self._pending.load()
        # The file may include them already; that does not mean that the master has them.
        for pending in self._pending.all():
            self.advance(pending.group, pending.topic, pending.queue_id, pending.offset)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, end: int | None = None) -> None:
        """Take a consumer's commit, if it goes forward, and keep it for the master. ``end`` is ignored.

        Raises Refusal: INVALID_PARAMETER for an offset below 0, SYSTEM_BUSY when too many wait for the master.
        """
        if offset < 0:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"offset {offset} of {topic} queue {queue_id} can't be committed: use 0 or more",
            )
        if offset > self.query(group, topic, queue_id):
            self._pending.note(group, topic, queue_id, offset)
            self._set(group, topic, queue_id, offset)

    def take_over(self, table: dict[str, Any], *, is_part: bool) -> None:
        """Replace the offsets and their version by a master's persisted object; pending commits stay on top.

        ``is_part``: ``table`` has only the (topic, group) entries that changed.
        """
        taken = read_offsets(table.get("offsetTable"))
        self._pending.lay_over(taken, is_part=is_part)
        piece = table.get(PIECE)
        if is_part and piece is not None:
            self._take_piece(taken, piece, table.get(LOG_BOUND))
        elif not is_part:
            elsewhere = set(table.get(LOG_BOUND) or ())
            self._log_bound_keys = {key for key in self._log_bound_keys if "@".join(key) in elsewhere}
            for (topic, group), queues in self._offsets.items():
                if group == TRANSACTION_GROUP or f"{topic}@{group}" in elsewhere:
                    taken.setdefault((topic, group), queues)  # they come in tables of their own, see below
            self._all.clear()
        self._all.update(taken)
        self.data_version = read_version(table)
        self._dirty = True

    def _take_piece(self, taken: Offsets, piece: dict[str, Any], log_bound: list[str] | None) -> None:
        """Note the keys of a piece of a whole copy; with the last one drop the keys that were in none of them.

        Until then offsets that the master no longer has stay: what the slave has is never less than before.
        """
        if piece["from"] == 0:
            self._copied_keys = set()
        self._copied_keys |= taken.keys()
        if piece["isLast"]:
            elsewhere = set(log_bound or ())
            self._log_bound_keys = {key for key in self._log_bound_keys if "@".join(key) in elsewhere}
            self._copied_keys |= {(pending.topic, pending.group) for pending in self._pending.all()}
            for topic, group in self._offsets.keys() - self._copied_keys:
                if group != TRANSACTION_GROUP and f"{topic}@{group}" not in elsewhere:
                    self._all.remove((topic, group))
            self._copied_keys = set()

    def take_log_bound(self, table: dict[str, Any]) -> None:
        """Take the offsets of a master's pops, whose check points are in this slave's log. Pending commits stay on top.

        An offset that is missing is gone at the master, or was removed with its group or topic.
        """
        taken = read_offsets(table.get("offsetTable"))
        for key in self._log_bound_keys - taken.keys():
            self._all.remove(key)
        self._log_bound_keys = set(taken)
        self._pending.lay_over(taken, is_part=True)
        self._all.update(taken)
        self._dirty = True

    def take_transactions(self, table: dict[str, Any]) -> None:
        """Take the progress of a master's transactions, whose messages are in this slave's log."""
        self._all.update(read_offsets(table.get("offsetTable")))
        self._dirty = True

    def _save_interval_ms(self) -> int:
        return max(SAVE_INTERVAL_MS, len(self._offsets) // KEYS_SAVED_PER_MS)

    def _version_to_save(self) -> DataVersion:
        return self.data_version
