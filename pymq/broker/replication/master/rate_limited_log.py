"""RateLimitedLog: what a master logs of those that connect to it, so that none of them can fill the log.

A slave that flaps, a port scan, a thousand connections a second of who knows whom: the first line of each kind comes at
once, the same again after a minute and then ever later, with how often it was meant; and all of them together are no
more than so many a minute.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from pymq.clock import Clock

log = logging.getLogger(__name__)

AGAIN_MS = 60_000  # before the same is said again
AGAIN_MS_MAX = 3_600_000  # the time doubles while it goes on, up to this
KINDS_MAX = 256  # (who, what) pairs that are remembered; the one that was said longest ago is forgotten
LINES_MAX = 20  # in each PERIOD_MS
PERIOD_MS = 60_000
_NUMBER = re.compile(r"\d+")
_QUOTED = re.compile(r"'[^']*'")


@dataclass(slots=True)
class _Kind:
    quiet_until_ms: int
    quiet_ms: int
    unsaid_count: int = 0


class RateLimitedLog:
    """Belongs to the event loop's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._period_start_ms = clock.monotonic_ms()
        self._line_count = 0
        self._left_out_count = 0

    def tell(self, who: str, text: str, level: int = logging.WARNING, *, is_slave: bool = False) -> None:
        """Logs ``text``, unless the same was just said of ``who``; numbers and what is quoted make no other text.

        ``is_slave``: one that joined, whose lines are not left out for those of strangers.
        """
        self.tick()
        now_ms = self._clock.monotonic_ms()
        about = (who, _NUMBER.sub("", _QUOTED.sub("", text)))
        kind = self._kinds.get(about)
        if kind is not None and now_ms < kind.quiet_until_ms:
            kind.unsaid_count += 1
            return
        if not is_slave:
            if self._line_count >= LINES_MAX:
                self._left_out_count += 1
                return
            self._line_count += 1
        quiet_ms = AGAIN_MS
        if kind is not None and kind.unsaid_count:
            text += f" (and {kind.unsaid_count} times more since that was said last)"
            quiet_ms = min(kind.quiet_ms * 2, AGAIN_MS_MAX)
        self._remember(about, _Kind(now_ms + quiet_ms, quiet_ms))
        log.log(level, "%s", printable(text))

    def _remember(self, about: tuple[str, str], kind: _Kind) -> None:
        self._kinds.pop(about, None)
        if len(self._kinds) >= KINDS_MAX:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[about] = kind

    def tick(self) -> None:
        """Now and then: says how much was left out in the time that is over."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._period_start_ms < PERIOD_MS:
            return
        self._period_start_ms = now_ms
        self._line_count = 0
        if self._left_out_count:
            log.warning(
                "%d more lines about connections to the HA port were left out, no more than %d are written in %d s: "
                "who connects there?",
                self._left_out_count,
                LINES_MAX,
                PERIOD_MS // 1000,
            )
            self._left_out_count = 0


def printable(text: str) -> str:
    """What a peer said, without line breaks and what else would tell a terminal or a log's reader something else."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
