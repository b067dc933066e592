"""Cleaner: applies retention from time to time (Java: DefaultMessageStore.CleanCommitLogService).

Each pass looks at ages and disks, refuses writes for lack of space or takes them again, and deletes what must go: one
segment at a time, the slow part in a worker thread.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace

from pymq.broker.upkeep.known_retention import KnownRetention
from pymq.broker.work.worker_threads import Result, RunInThread
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.store import Doomed, MessageStore, RetentionSettings
from pymq.wire.bodies_admin import DeletionPlan

log = logging.getLogger(__name__)

FIRST_PASS_DELAY_MS = 60_000
# After a change of settings by which more is deleted: time to take it back, then one segment a pass for a while.
CHANGED_DELAY_MS = 60_000
PACED_FOR_MS = 600_000
PLAN_COUNT_MAX = 1_000
LOG_LIMIT = "commitLogBytesMax"  # the rule of a segment that goes because the log is too large
MANUAL_PASS_COUNT = 20  # Java: CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES


class Cleaner:
    """Call :meth:`tick` a few times a second. Deletes nothing in the first minute, so as not to slow down a start."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        known: KnownRetention,
        run_in_thread: RunInThread,
    ) -> None:
        """``known``: the settings of the run before this one."""
        self._config = config
        self._clock = clock
        self._store = store
        self._run_in_thread = run_in_thread
        self._next_pass_ms = clock.monotonic_ms()
        self._deletes_from_ms = self._next_pass_ms + FIRST_PASS_DELAY_MS
        self._manual_passes = 0
        self._known = known
        self._saved: RetentionSettings | None = None  # in the file of ``known``
        self._settings: RetentionSettings | None = None  # of the last pass
        self._paced_until_ms = self._next_pass_ms
        self._doomed: deque[Doomed] = deque()
        self._is_working = False
        self._is_stopped = False
        self._refusal: str | None = None
        self._failure = ""
        self.deleted_count = 0

    def delete_expired(self) -> None:
        """Make the next passes delete what is old enough at any hour, the first one at once. For operators."""
        self._manual_passes = MANUAL_PASS_COUNT
        self._next_pass_ms = self._clock.monotonic_ms()

    def tick(self) -> None:
        """Start a pass when it is time, or continue the last one. Raises OSError when the disk fails."""
        if self._is_working or self._is_stopped:
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_pass_ms:
            self._next_pass_ms = now_ms + self._config.clean_resource_interval_ms
            self._begin_pass()
        if self._doomed or self._store.has_waste:
            self._start_work(self._doomed.popleft() if self._doomed else None)
        elif self._settings != self._saved and now_ms >= self._paced_until_ms:
            self._save_settings()
        elif now_ms >= self._deletes_from_ms:
            self._store.sweep()

    def stop(self) -> None:
        """Start nothing more and ignore the result of work that still runs: the store is about to be closed."""
        self._is_stopped = True

    def plan(self, changed: BrokerConfig) -> DeletionPlan:
        """Return what is deleted as soon as the hour allows it: as things are, and with a changed configuration."""
        now, then = self._doomed_by(retention_settings(self._config)), self._doomed_by(retention_settings(changed))
        return DeletionPlan(
            segments=self._store.figures.segment_count,
            doomed_now=len(now),
            doomed_then=len(then),
            doomed_bytes=len(then) * changed.mapped_file_size_commit_log_bytes,
            reasons=sorted({doomed.reason.value for doomed in then}),
        )

    def _doomed_by(self, settings: RetentionSettings) -> tuple[Doomed, ...]:
        every_hour = replace(settings, batch_count=PLAN_COUNT_MAX, delete_hours=frozenset(range(24)))
        return self._store.plan_deletions(every_hour).doomed

    def _note_changes(self, settings: RetentionSettings) -> None:
        """Put deletions off, and slow them down, when settings changed so that more goes, also before the start."""
        if self._settings is None:
            self._settings = self._saved = self._known.load()
        before, self._settings = self._settings, settings
        if before == settings:
            return
        doomed = self._doomed_by(settings)
        count = len(doomed)
        if before is not None and count <= len(self._doomed_by(before)):
            return
        # Without the settings of the last run: age grows, and disks fill up, while a broker is stopped, its log does
        # not. So a log far over its limit means that the limit was lowered.
        if before is None and sum(each.reason.value == LOG_LIMIT for each in doomed) <= settings.batch_count:
            return
        now_ms = self._clock.monotonic_ms()
        self._deletes_from_ms = max(self._deletes_from_ms, now_ms + CHANGED_DELAY_MS)
        self._paced_until_ms = self._deletes_from_ms + PACED_FOR_MS
        log.warning(
            "with the %ssettings %d segments are too many: the first is deleted in %d s, then one each pass (%d ms); "
            "set them back to keep the others",
            "new " if before is not None else "",
            count,
            CHANGED_DELAY_MS // 1000,
            self._config.clean_resource_interval_ms,
        )

    def _begin_pass(self) -> None:
        settings = retention_settings(self._config)
        self._note_changes(settings)
        now_ms = self._clock.monotonic_ms()
        may_delete = now_ms >= self._deletes_from_ms or self._manual_passes > 0
        if now_ms < self._paced_until_ms and not self._manual_passes:
            settings = replace(settings, batch_count=1)
        decision = self._store.plan_deletions(settings, is_manual=self._manual_passes > 0)
        self._refuse(decision.refusal)
        self._manual_passes = max(0, self._manual_passes - 1)
        self._doomed = deque(decision.doomed if may_delete else ())

    def _refuse(self, why: str | None) -> None:
        # The first text stays while the refusal lasts: the figures in it would change with every pass.
        if (why is None) != (self._refusal is None):
            self._refusal = why
            self._store.refuse_writes(why)

    def _save_settings(self) -> None:
        """Save the settings for the next start. Not while deletions are slow: a restart does not end that."""
        settings = self._settings
        assert settings is not None
        self._is_working, self._saved = True, settings  # tried once: until the next change the old ones are as good

        def work() -> int:
            self._known.save(settings)
            return 0

        self._run_in_thread(work, self._settings_saved)

    def _settings_saved(self, result: Result) -> None:
        self._is_working = False
        try:
            result.result()
        except (StoreError, OSError) as error:
            log.warning("the retention settings can't be saved, the next start compares with older ones: %s", error)

    def _start_work(self, doomed: Doomed | None) -> None:
        self._is_working = True
        start = doomed.start if doomed is not None else None

        def work() -> int:
            self._store.delete_segment(start)
            return 0

        self._run_in_thread(work, lambda result: self._done(doomed, result))

    def _done(self, doomed: Doomed | None, result: Result) -> None:
        self._is_working = False
        if self._is_stopped:
            return
        try:
            result.result()
        except (OSError, StoreUnavailableError) as error:
            self._doomed.clear()
            if str(error) != self._failure:
                self._failure = str(error)
                log.error("old data can't be deleted, it is tried again: %s", error)
            return
        self._failure = ""
        if doomed is not None and self._store.forget_segment(doomed.start):
            self.deleted_count += 1
            start, reason = doomed
            minimum = self._store.physical_min_offset
            log.info("segment %020d was deleted (%s), the log begins at %d", start, reason.value, minimum)


def retention_settings(config: BrokerConfig) -> RetentionSettings:
    """Return the retention settings of a broker's configuration; all of them may change at run time."""
    return RetentionSettings(
        reserved_hours=config.file_reserved_time_hours,
        delete_hours=config.delete_hours,
        used_percent=config.disk_max_used_space_ratio,
        forced_percent=config.disk_space_clean_forcibly_ratio,
        refused_percent=config.disk_space_warning_level_ratio,
        may_force=config.clean_file_forcibly_enable,
        batch_count=config.delete_file_batch_max,
        log_bytes_max=config.commit_log_bytes_max,
        free_bytes_min=config.disk_free_bytes_min,
    )
