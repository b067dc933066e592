"""When the log's bytes are forced to the disk: every so often (ASYNC_FLUSH), or before answers go (SYNC_FLUSH).

The fsync runs in a worker thread, one at a time; sends that arrive meanwhile share the next one (group commit).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from pymq.broker.writer import Writer
from pymq.errors import StoreUnavailableError
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)


class Result(Protocol):
    """What a worker thread's future offers."""

    def result(self) -> Any: ...


# Runs the first function in a worker thread, then the second on the event loop with a future of its result.
RunInThread = Callable[[Callable[[], int], Callable[[Result], None]], None]


class Flusher:
    """Keeps one sync under way at most."""

    def __init__(self, store: MessageStore, run_in_thread: RunInThread, after: Callable[[], None]) -> None:
        """``after`` runs on the loop behind each sync (answers were released)."""
        self._store = store
        self._run_in_thread = run_in_thread
        self._after = after
        self._is_running = False
        self._again = False
        self._ticked_offset = 0
        self._checkpoint_due = False
        self.writer: Writer | None = None
        self.sync_count = 0

    def request(self) -> None:
        """Starts a sync of the log, or another one behind that which runs. Queues and checkpoint are left to ticks."""
        if self._is_running:
            self._again = True
        else:
            self._start()

    def tick(self) -> None:
        """The periodic flush of ASYNC_FLUSH, and now and then the checkpoint; nothing to do when nothing was stored."""
        end = self._store.physical_max_offset
        if end != self._ticked_offset:
            self._ticked_offset = end
            self._checkpoint_due = True
            self.request()

    def _start(self) -> None:
        due, self._checkpoint_due = self._checkpoint_due, False
        self._is_running = True
        self._run_in_thread(lambda: self._store.sync(log_only=not due), self._done)

    def _done(self, future: Result) -> None:
        self._is_running = False
        self.sync_count += 1
        assert self.writer is not None
        try:
            self.writer.synced(future.result())
        except (StoreUnavailableError, OSError) as error:
            log.error("flush failed: %s", error)
            self.writer.sync_failed(str(error))
        again, self._again = self._again, False
        if again or self.writer.is_awaiting_sync:
            self.request()
        self._after()
