"""Logs the progress of a long recovery once a second, so that a start that reads much does not look like a hang.

Logs its result, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pymq.clock import Clock
from pymq.errors import StoppedError
from pymq.store.store import RecoveryReport
from pymq.units import format_bytes

log = logging.getLogger(__name__)

INTERVAL_MS = 1000  # a shorter recovery logs nothing


class RecoveryProgress:
    """A callback for :meth:`MessageStore.open`, which passes the bytes of the log read so far and to be read in all.

    Raises StoppedError when ``is_stopping`` returns True. Stopping a recovery loses nothing: the next one begins where
    this one began.
    """

    def __init__(self, clock: Clock, is_stopping: Callable[[], bool] = lambda: False) -> None:
        self._clock = clock
        self._is_stopping = is_stopping
        self._started_ms = self._logged_ms = clock.monotonic_ms()

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        if self._is_stopping():
            raise StoppedError(
                f"stopped with {format_bytes(done_bytes)} of {format_bytes(total_bytes)} of the log read: the "
                f"next start recovers the store from the same place"
            )
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._logged_ms < INTERVAL_MS:
            return
        self._logged_ms = now_ms
        rate = done_bytes * 1000 / (now_ms - self._started_ms)
        log.warning(
            "recovering the store: %d %%, %s of %s of the log read, %s/s",
            done_bytes * 100 // max(total_bytes, 1), format_bytes(done_bytes), format_bytes(total_bytes),
            format_bytes(rate),
        )  # fmt: skip


def log_recovery(report: RecoveryReport) -> None:
    """Log what an operator should know of the start: an unclean stop, a truncated log, damage."""
    if not report.clean:
        log.warning(
            "the last stop was unclean: %d records were read again, %d bytes truncated, the log ends at %d",
            report.records_scanned,
            report.truncated_bytes,
            report.log_end,
        )
    for text in report.lost:
        log.error("%s", text)
    for start, end in report.damaged:
        log.error("the log is damaged from offset %d to %d: its messages there can't be read", start, end)
    for note in report.notes:
        log.warning("%s", note)
