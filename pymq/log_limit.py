"""LogLimit: keeps any one line of the code from filling the log, whatever a peer does to make it write.

Lines that name their sources use :class:`~pymq.rate_limited_log.RateLimitedLog`, which tells sources apart. This limit
lies behind all others: no line of the code has to remember it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pymq.clock import Clock
from pymq.printable import printable

LINES_MAX = 20  # of each kind, in each PERIOD_MS; lines of one place in the code are of one kind
PERIOD_MS = 60_000
TEXT_LENGTH_MAX = 2_000  # of one line, without a traceback
_HAS_OWN_LIMIT = "rate_limited_log.py"


@dataclass(slots=True)
class _Place:
    period_start_ms: int
    line_count: int = 0
    omitted_count: int = 0


class LogLimit(logging.Filter):
    """A filter for a process's log handler. Lines of the level DEBUG are not limited: an operator asked for them."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a line beyond the limit. Shorten a long one, and keep it a line that no terminal obeys."""
        _tidy(record)
        if record.levelno <= logging.DEBUG or record.filename == _HAS_OWN_LIMIT:
            return True
        now_ms, key = self._clock.monotonic_ms(), (record.pathname, record.lineno)
        place = self._places.get(key)
        if place is None or now_ms - place.period_start_ms >= PERIOD_MS:
            if place is not None and place.omitted_count:
                _append(record, f" ({place.omitted_count} more lines of this kind were omitted before)")
            place = self._places[key] = _Place(now_ms)
        place.line_count += 1
        if place.line_count > LINES_MAX:
            place.omitted_count += 1
            return False
        if place.line_count == LINES_MAX:
            _append(record, f" (the limit is {LINES_MAX} lines of a kind in {PERIOD_MS // 1000} s: more are omitted)")
        return True


def _tidy(record: logging.LogRecord) -> None:
    text = record.getMessage()
    if len(text) > TEXT_LENGTH_MAX or not text.isprintable():
        more = f"... ({len(text)} characters)" if len(text) > TEXT_LENGTH_MAX else ""
        record.msg, record.args = "%s", (printable(text[:TEXT_LENGTH_MAX]) + more,)


def _append(record: logging.LogRecord, addition: str) -> None:
    record.msg, record.args = "%s", (record.getMessage() + addition,)
