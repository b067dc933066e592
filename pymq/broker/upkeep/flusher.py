"""Flusher: forces the log's bytes to the disk, from time to time (ASYNC_FLUSH) or before answers go (SYNC_FLUSH).

The fsync runs in a worker thread, one at a time; sends that arrive meanwhile share the next one (group commit). The
checkpoint takes many fsyncs and has a thread of its own, so that no answer waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pymq.broker.messages.waiting_answers import WaitingAnswers
from pymq.broker.work.worker_threads import Result, RunInThread
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import StoreUnavailableError
from pymq.metrics.histogram import TimeHistogram
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

PAGE_SIZE_BYTES = 4096  # what flushCommitLogLeastPages counts


class Flusher:
    """Keeps at most one sync of the log under way, and one checkpoint."""

    def __init__(
        self,
        store: MessageStore,
        run_in_thread: RunInThread,
        after: Callable[[], None],
        *,
        clock: Clock,
        config: BrokerConfig,
        waiting_answers: WaitingAnswers,
    ) -> None:
        """``waiting_answers`` learn how far the log is on the disk; ``after`` runs on the loop behind that."""
        self._store = store
        self._run_in_thread = run_in_thread
        self._after = after
        self._clock = clock
        self._config = config
        self._waiting_answers = waiting_answers
        self._is_running = False
        self._again = False
        self._is_checkpointing = False
        self._ticked_offset = 0
        self._next_thorough_ms = 0
        self._checkpoint_due = False
        self._is_stopped = False
        self.sync_count = 0
        self.failure_count = 0
        self.times = TimeHistogram()

    def request(self) -> None:
        """Start a sync of the log, or another one when the present one is done. Ticks see to queues and checkpoint."""
        if self._is_running:
            self._again = True
        elif not self._is_stopped:
            self._is_running = True
            self._run_in_thread(self._sync_log, self._done)

    def tick(self) -> None:
        """Do the periodic flush of ASYNC_FLUSH and, now and then, the checkpoint; neither if nothing was stored."""
        end = self._store.physical_max_offset
        if end != self._ticked_offset and self._is_enough(end):
            self._ticked_offset = end
            self._checkpoint_due = True
            self.request()
        is_wanted = self._checkpoint_due or self._store.is_checkpoint_wanted
        if is_wanted and not self._is_checkpointing and self._store.is_checkpoint_due:
            self._checkpoint_due = False
            self._is_checkpointing = True
            self._run_in_thread(self._store.sync, self._checkpoint_done)

    def stop(self) -> None:
        """Begin no more syncs and ignore the result of one that still runs: another thread is about to close the
        store."""
        self._is_stopped = True

    def _is_enough(self, end: int) -> bool:
        """Return whether to flush now; few pages wait for the thorough interval (Java: FlushRealTimeService)."""
        now_ms = self._clock.monotonic_ms()
        pages = end // PAGE_SIZE_BYTES - self._ticked_offset // PAGE_SIZE_BYTES
        if pages < self._config.flush_commit_log_least_pages and now_ms < self._next_thorough_ms:
            return False
        self._next_thorough_ms = now_ms + self._config.flush_commit_log_thorough_interval_ms
        return True

    def _sync_log(self) -> int:
        begun_ms = self._clock.monotonic_ms()
        synced = self._store.sync(log_only=True)
        self.times.add(self._clock.monotonic_ms() - begun_ms)
        return synced

    def _done(self, future: Result) -> None:
        self._is_running = False
        self.sync_count += 1
        self._note_result(future)
        again, self._again = self._again, False
        if again or self._waiting_answers.is_awaiting_sync:
            self.request()
        self._after()

    def _checkpoint_done(self, future: Result) -> None:
        self._is_checkpointing = False
        self._note_result(future)
        self._after()

    def _note_result(self, future: Result) -> None:
        if self._is_stopped:
            return
        try:
            self._waiting_answers.synced(future.result())
        except (StoreUnavailableError, OSError) as error:
            self.failure_count += 1
            log.error("flush failed: %s", error)
            self._waiting_answers.sync_failed(str(error))
