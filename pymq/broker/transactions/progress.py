"""TransactionProgress: how far the half and the op queue are done with, as offsets of the group CID_RMQ_SYS_TRANS.

A start reads the two queues from these offsets on, as RocketMQ's broker does. So they move only over transactions whose
end is on the disk: with the offsets on the disk and the end lost, a committed message would be gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pymq.broker.metadata.cursors import CursorManager
from pymq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pymq.model.transactions import TRANSACTION_GROUP, TRANSACTION_QUEUE_ID
from pymq.store.store import MessageStore


class TransactionProgress:
    """Moves the offsets. ``first_open`` returns the queue offset of the oldest open half message, None for none."""

    def __init__(self, store: MessageStore, cursors: CursorManager, first_open: Callable[[], int | None]) -> None:
        self._store = store
        self._cursors = cursors
        self._first_open = first_open
        # Op records in the order of the queue: their offset, and the largest half offset that each one names.
        self._ops: deque[tuple[int, int]] = deque()
        # The oldest and the newest offsets that wait for the disk: half and op offset, and the log's end with them.
        self._waiting: deque[tuple[int, int, int]] = deque(maxlen=2)
        self._noted = (-1, -1)
        self.change_count = 0

    def stored_offset(self, topic: str) -> int:
        """Return the offset from which a start reads, within the queue."""
        low, high = self.bounds(topic)
        return max(low, min(self._cursors.query(TRANSACTION_GROUP, topic, TRANSACTION_QUEUE_ID), high))

    def bounds(self, topic: str) -> tuple[int, int]:
        """Return the first readable offset of the topic's queue and its end."""
        store = self._store
        return store.min_offset(topic, TRANSACTION_QUEUE_ID), store.max_offset(topic, TRANSACTION_QUEUE_ID)

    def note_op(self, op_offset: int, half_offset_max: int) -> None:
        """Take note of an op record."""
        self._ops.append((op_offset, half_offset_max))

    def tick(self) -> None:
        """Move the offsets to what the disk has."""
        self._note()
        synced = self._store.synced_offset
        while self._waiting and self._waiting[0][2] <= synced:
            half_offset, op_offset, _ = self._waiting.popleft()
            self._publish(half_offset, op_offset)

    def save(self) -> None:
        """Move the offsets to what is done with now, after a sync. Raises StoreUnavailableError."""
        self._store.sync(log_only=True)
        self._waiting.clear()
        self._noted = (-1, -1)
        self.tick()

    def _note(self) -> None:
        first_open = self._first_open()
        half_offset = self.bounds(HALF_TOPIC)[1] if first_open is None else first_open
        while self._ops and self._ops[0][1] < half_offset:
            self._ops.popleft()
        op_offset = self._ops[0][0] if self._ops else self.bounds(OP_HALF_TOPIC)[1]
        if (half_offset, op_offset) != self._noted:
            self._noted = half_offset, op_offset
            if len(self._waiting) == self._waiting.maxlen:
                self._waiting.pop()
            self._waiting.append((half_offset, op_offset, self._store.physical_max_offset))

    def _publish(self, half_offset: int, op_offset: int) -> None:
        for topic, offset in ((HALF_TOPIC, half_offset), (OP_HALF_TOPIC, op_offset)):
            if offset:  # a broker that never had a transaction has no such offsets
                self._cursors.advance(TRANSACTION_GROUP, topic, TRANSACTION_QUEUE_ID, offset)
                self.change_count += 1
