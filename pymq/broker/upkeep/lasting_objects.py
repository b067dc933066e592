"""LastingObjects: takes the objects of many new queues out of Python's search for reference cycles.

The search looks at every object that it knows. With 655,350 queues it held the event loop for 0.2 s.
"""

from __future__ import annotations

import gc

from pymq.store.store import MessageStore

# New queues after which they are left out; a search for cycles in so many takes some 5 ms.
QUEUES_AT_ONCE = 5_000


class LastingObjects:
    """Counts one store's queues, which live as long as their topics."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._left_out_count = 0

    def tick(self) -> None:
        """Leave out what is there now, if many queues have come since the last time. Call it some times a second."""
        count = self._store.queue_count
        self._left_out_count = min(self._left_out_count, count)
        if count - self._left_out_count >= QUEUES_AT_ONCE:
            gc.collect()  # what is garbage now would stay for ever
            gc.freeze()
            self._left_out_count = count
