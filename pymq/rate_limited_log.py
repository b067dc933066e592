"""RateLimitedLog: a log of what unknown peers do, which no peer can fill.

A flapping slave, a port scan, a thousand broken connections a second: the first line of each kind is written at once.
The same line is written again after a minute, and then at growing intervals, with the number of repetitions. All
peers together get no more than a fixed number of lines a minute.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from pymq.clock import Clock
from pymq.printable import printable

REPEAT_MS = 60_000  # before the same line is written again
REPEAT_MS_MAX = 3_600_000  # the interval doubles while the repetitions go on, up to this
KINDS_MAX = 256  # (source, text) pairs that are kept; the one that was written longest ago is forgotten
LINES_MAX = 20  # in each PERIOD_MS
PERIOD_MS = 60_000
_NUMBER = re.compile(r"\d+")
_QUOTED = re.compile(r"'[^']*'")


@dataclass(slots=True)
class _Kind:
    quiet_until_ms: int
    quiet_ms: int
    repetition_count: int = 0


class RateLimitedLog:
    """Writes to ``log``. Belongs to the event loop's thread."""

    def __init__(self, log: logging.Logger, clock: Clock, subject: str) -> None:
        """``subject`` names what all the lines are about, for the line that counts the omitted ones."""
        self._log = log
        self._clock = clock
        self._subject = subject
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._period_start_ms = clock.monotonic_ms()
        self._line_count = 0
        self._omitted_count = 0

    def write(self, source: str, text: str, level: int = logging.WARNING, *, is_trusted: bool = False) -> None:
        """Write ``text``, unless the same text was just written for ``source``.

        Texts that differ in numbers or in what single quotes enclose are the same. ``is_trusted``: lines of this source
        don't count towards the limit, and are not omitted because of it.
        """
        self.tick()
        now_ms = self._clock.monotonic_ms()
        key = (source, _NUMBER.sub("", _QUOTED.sub("", text)))
        kind = self._kinds.get(key)
        if kind is not None and now_ms < kind.quiet_until_ms:
            kind.repetition_count += 1
            return
        if not is_trusted:
            if self._line_count >= LINES_MAX:
                self._omitted_count += 1
                return
            self._line_count += 1
        quiet_ms = REPEAT_MS
        if kind is not None and kind.repetition_count:
            text += f" (repeated {kind.repetition_count} times since it was last logged)"
            quiet_ms = min(kind.quiet_ms * 2, REPEAT_MS_MAX)
        self._keep(key, _Kind(now_ms + quiet_ms, quiet_ms))
        self._log.log(level, "%s", printable(text))

    def _keep(self, key: tuple[str, str], kind: _Kind) -> None:
        self._kinds.pop(key, None)
        if len(self._kinds) >= KINDS_MAX:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[key] = kind

    def tick(self) -> None:
        """Log the number of lines that were omitted in a period that is over. Call it from time to time."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._period_start_ms < PERIOD_MS:
            return
        self._period_start_ms = now_ms
        self._line_count = 0
        if self._omitted_count:
            self._log.warning(
                "%d more lines about %s were omitted, the limit is %d in %d s: find out who connects there",
                self._omitted_count,
                self._subject,
                LINES_MAX,
                PERIOD_MS // 1000,
            )
            self._omitted_count = 0
