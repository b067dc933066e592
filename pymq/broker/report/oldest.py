"""Which message of several queues is the oldest, without a look at the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymq.store.store import QueueView


def older_place(oldest: int, queue: QueueView, offset: int) -> int:
    """Return the lower of ``oldest`` and the log offset of the queue's first message from ``offset`` on; -1 for none.

    Store times never go back in the log, so the lower offset is the older message.
    """
    offset = max(offset, queue.min_offset)
    if offset >= queue.max_offset:
        return oldest
    try:
        place = queue.physical_offset_from(offset)
    except OSError:
        return oldest
    if place < 0 or oldest < 0:
        return max(place, oldest)
    return min(oldest, place)
