"""SlaveCursors: a master's offsets on a slave, and over them what consumers commit here while they can't reach it."""

from __future__ import annotations

from typing import Any

from pymq.broker.metadata.cursors import CursorManager, MaxOffset, read_offsets
from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.replication.slave.pending_offsets import PendingOffsets
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import Refusal
from pymq.model.tables import DataVersion
from pymq.wire.codes import ResponseCode

# A slave's file follows its master's offsets closely; large tables less so, for each save takes processor time.
SAVE_INTERVAL_MS = 500
KEYS_SAVED_PER_MS = 10


class SlaveCursors(CursorManager):
    """Offsets here only go forward by commits: a slave can't tell a step back that is meant from an old commit that
    comes late. The table, its version and every step back are the master's.

    A commit may lie behind the queue's end: the master may have given messages that did not reach this slave.
    """

    def __init__(
        self,
        table: TableSaver,
        *,
        clock: Clock,
        config: BrokerConfig,
        max_offset: MaxOffset,
        pending: PendingOffsets,
    ) -> None:
        super().__init__(table, clock=clock, config=config, max_offset=max_offset)
        self._pending = pending
        self._next_save_ms = clock.monotonic_ms()

    def load(self) -> None:
        """Reads both tables."""
        super().load()
        self._pending.load()
        # The file may have been saved with them: that it goes as far does not mean that the master does.
        for pending in self._pending.all():
            self.advance(pending.group, pending.topic, pending.queue_id, pending.offset)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, end: int | None = None) -> None:
        """Takes a consumer's commit, if it goes forward, and keeps it for the master. Any ``end`` will do.

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
        """Makes a master's persisted object, with its version, this one's, but for what waits for the master.

        ``is_part``: ``table`` has only the groups' topics that changed.
        """
        taken = read_offsets(table.get("offsetTable"))
        self._pending.lay_over(taken, is_part=is_part)
        if not is_part:
            self._offsets.clear()
        self._offsets.update(taken)
        self.data_version = read_version(table)
        self._dirty = True

    def _save_interval_ms(self) -> int:
        return max(SAVE_INTERVAL_MS, len(self._offsets) // KEYS_SAVED_PER_MS)

    def _version_to_save(self) -> DataVersion:
        return self.data_version
