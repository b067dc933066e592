"""Pauses: long times in which no broker ran on this store, which the age of a segment does not count.

A start that finds the clock far ahead of the last time seen can't tell a broker that was off from a clock that is
wrong. If the whole time counted, all old segments would expire at once. So of such a pause only a day counts. A pause
whose end lies ahead of the clock never was: the clock has been set back since.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pymq.clock import CLOCK_JUMP_MAX_MS, Clock
from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

PAUSES_FILE = "pauses.json"
NOTE_INTERVAL_MS = 3_600_000  # between saves of the time seen
PAUSE_COUNTED_MS = CLOCK_JUMP_MAX_MS  # shorter ones are no pauses
PAUSE_COUNT_MAX = 100  # the oldest ones, whose segments have long expired, go first


class Pause(msgspec.Struct, frozen=True, rename="camel"):
    """A time without a broker, by the wall clock."""

    from_ms: int
    to_ms: int


class Pauses:
    """Keeps ``config/pauses.json``. :meth:`save` may run in another thread than the other methods."""

    def __init__(self, files: Files, root: str, clock: Clock) -> None:
        self._table = JsonTable(files, f"{root}/config/{PAUSES_FILE}")
        self._clock = clock
        self._pauses: list[Pause] = []
        self._seen_ms = 0
        self._saved_ms = 0

    def load(self, last_store_ms: int) -> str | None:
        """Read the file, and note and save a pause that ends now. Returns what an operator should know of it.

        ``last_store_ms``: the newest record's store time. An unusable file counts as empty.
        """
        try:
            table = self._table.load()
            self._pauses = msgspec.convert(table.get("pauses", []), list[Pause])
            self._seen_ms = msgspec.convert(table.get("seenMs", 0), int)
        except (StoreError, msgspec.ValidationError):
            self._pauses, self._seen_ms = [], 0
        now_ms = self._clock.now_ms()
        self._saved_ms = self._seen_ms
        before_ms, self._seen_ms = max(self._seen_ms, last_store_ms), now_ms
        self._pauses = [pause for pause in self._pauses if pause.to_ms <= now_ms]
        if not before_ms or now_ms - before_ms <= PAUSE_COUNTED_MS:
            return None
        self._pauses = [*self._pauses, Pause(before_ms, now_ms)][-PAUSE_COUNT_MAX:]
        self._saved_ms = 0
        self.save()
        return (
            f"no broker has run here for {(now_ms - before_ms) // PAUSE_COUNTED_MS} days by the clock: the age of "
            f"segments (fileReservedTime) counts one of them, in case the clock is wrong; if it is right and old "
            f"segments should go, run `mqadmin deleteExpiredCommitLog`"
        )

    def uncounted_ms(self, modified_ms: int) -> int:
        """Return how much of the time since ``modified_ms`` does not count."""
        return sum(
            pause.to_ms - pause.from_ms - PAUSE_COUNTED_MS
            for pause in self._pauses
            if modified_ms <= pause.from_ms + PAUSE_COUNTED_MS
        )

    def note_now(self) -> bool:
        """Note that a broker runs; True when it is time for :meth:`save`."""
        self._seen_ms = self._clock.now_ms()
        self._pauses = [pause for pause in self._pauses if pause.to_ms <= self._seen_ms]
        return abs(self._seen_ms - self._saved_ms) >= NOTE_INTERVAL_MS

    def save(self) -> None:
        """Save the file. When that fails, the next call tries again."""
        seen_ms = self._seen_ms
        table: dict[str, Any] = {"seenMs": seen_ms, "pauses": msgspec.to_builtins(self._pauses)}
        try:
            self._table.save(table)
        except StoreUnavailableError:
            return  # a full disk: the worst that can follow is a pause that looks an hour longer
        self._saved_ms = seen_ms
