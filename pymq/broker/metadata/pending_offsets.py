"""PendingOffsets: consumers' commits on a slave that its master lacks, in ``config/pendingOffsets.json``.

Until the master has them, they override the table that is copied from it. A slave that becomes the master keeps them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pymq.broker.metadata.offset_table import as_offset_table, read_offsets
from pymq.broker.metadata.often_changed_table import OftenChangedTable
from pymq.broker.metadata.table_saver import TableSaver
from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.metadata.cursors import CursorManager

log = logging.getLogger(__name__)

PENDING_COUNT_MAX = 100_000  # queues of groups; a few MB
SAVE_INTERVAL_MS = 500
MEMBER = "pendingOffsets"


class PendingOffset(NamedTuple):
    """One commit."""

    group: str
    topic: str
    queue_id: int
    offset: int


class PendingOffsets(OftenChangedTable):
    """Keeps them by (topic, group) and queue. :meth:`tick` saves them in a worker thread, not each commit."""

    def __init__(self, table: TableSaver, *, clock: Clock, count_max: int = PENDING_COUNT_MAX) -> None:
        super().__init__(table, "offsets that wait for the master could not be saved, the next try follows")
        self._clock = clock
        self._count_max = count_max
        self._offsets: dict[tuple[str, str], dict[int, int]] = {}
        self._count = 0
        self._has_forgotten = False
        self._next_save_ms = clock.monotonic_ms()

    def load(self) -> None:
        """Read the file. Raises StoreError."""
        self._offsets = read_offsets(self._table.load().get(MEMBER))
        self._count = sum(map(len, self._offsets.values()))

    def as_table(self) -> dict[str, Any]:
        """Return the saved object."""
        return {MEMBER: as_offset_table(self._offsets)}

    def __len__(self) -> int:
        return self._count

    def all(self) -> list[PendingOffset]:
        """Return all pending offsets."""
        return [
            PendingOffset(group, topic, queue_id, offset)
            for (topic, group), queues in self._offsets.items()
            for queue_id, offset in queues.items()
        ]

    def note(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep a commit in place of an older one. Raises Refusal(SYSTEM_BUSY) when there are too many."""
        queues = self._offsets.get((topic, group), {})
        if queue_id not in queues:
            if self._count >= self._count_max:
                raise Refusal(
                    ResponseCode.SYSTEM_BUSY,
                    f"{self._count} offsets wait on this slave for its master, the limit is {self._count_max}: "
                    "commit again when the master is back",
                )
            self._count += 1
        queues[queue_id] = offset
        self._offsets[topic, group] = queues
        self._dirty = True

    def settle(self, known: PendingOffset) -> None:
        """Drop an offset that the master has, or has rejected. A later commit of the same queue stays."""
        queues = self._offsets.get((known.topic, known.group), {})
        if queues.get(known.queue_id) == known.offset:
            del queues[known.queue_id]
            self._count -= 1
            self._dirty = True
            if not queues:
                del self._offsets[known.topic, known.group]

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of a deleted topic: they don't fit a new topic with that name."""
        self._forget(lambda key: key[0] == topic)

    def forget_group(self, group: str) -> None:
        """Drop the offsets of a deleted group."""
        self._forget(lambda key: key[1] == group)

    def take_forgotten(self) -> bool:
        """Return whether offsets were forgotten since the last call. The cursors have them until a whole copy."""
        had_forgotten, self._has_forgotten = self._has_forgotten, False
        return had_forgotten

    def lay_over(self, offsets: dict[tuple[str, str], dict[int, int]], *, is_part: bool) -> None:
        """Write the pending offsets into a master's ``offsets``, and drop those that the master has.

        ``is_part``: keys that are missing in ``offsets`` have not changed there.
        """
        for pending in self.all():
            key = (pending.topic, pending.group)
            if is_part and key not in offsets:
                continue
            queues = offsets.setdefault(key, {})
            if pending.offset > queues.get(pending.queue_id, -1):
                queues[pending.queue_id] = pending.offset
            else:
                self.settle(pending)

    def tick(self) -> None:
        """Save changes from time to time."""
        now_ms = self._clock.monotonic_ms()
        if not self._dirty or self._table.is_busy or now_ms < self._next_save_ms:
            return
        self._next_save_ms = now_ms + SAVE_INTERVAL_MS
        offsets = {key: queues.copy() for key, queues in self._offsets.items()}
        self._save_soon(lambda: {MEMBER: as_offset_table(offsets)})

    def hand_over(self, cursors: CursorManager) -> None:
        """Commit them to ``cursors`` of a new master. :meth:`clear` them once the cursors are saved."""
        for pending in self.all():
            cursors.advance(pending.group, pending.topic, pending.queue_id, pending.offset)
        if self._count:
            log.info("%d offsets that were committed on this broker as a slave are now the master's", self._count)

    def clear(self) -> None:
        """Drop all of them, also on the disk. Raises StoreError."""
        if self._count:
            self._offsets.clear()
            self._count = 0
            self._dirty = True
            self.save()

    def _forget(self, doomed: Callable[[tuple[str, str]], bool]) -> None:
        for key in [key for key in self._offsets if doomed(key)]:
            self._count -= len(self._offsets.pop(key))
            self._dirty = self._has_forgotten = True
