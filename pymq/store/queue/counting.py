"""How many messages lie behind a place of the log, counted by the queues' units: nothing of the log is read."""

from __future__ import annotations

from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_table import QueueTable


def messages_behind(queues: QueueTable, physical_offset: int) -> int:
    """Visible messages whose records begin at ``physical_offset`` of the log or later. Raises OSError.

    Exact, but for placeholder units and blank records of lost records. A binary search in those queues alone that have any.
    """
    return sum(units_from(queue, physical_offset) for queue in queues if queue.last_physical_offset >= physical_offset)


def units_from(queue: ConsumeQueue, physical_offset: int) -> int:
    """As :func:`messages_behind`, in one queue."""
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        if queue.unit(middle)[0] < physical_offset:
            low = middle + 1
        else:
            high = middle
    return queue.max_offset - low
