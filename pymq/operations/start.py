"""Parses the start of a tail: words, offsets and times of ``--from``, and the short forms ``-100`` and ``-15m``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from pymq.errors import UsageError
from pymq.units import parse_duration_ms, parse_time_ms

# Plain numbers up to here are offsets; larger ones are Unix milliseconds (2001 and later).
OFFSET_MAX = 999_999_999_999
DEFAULT_LAST_COUNT = 10

_SHORT_COUNT = re.compile(r"-(\d+)\Z")
_SHORT_AGE = re.compile(r"-(\d+(?:\.\d+)?(?:ms|s|m|h|d))\Z")


class StartKind(Enum):
    """The kinds of a start."""

    FIRST = "start"
    END = "end"
    OFFSET = "offset"
    TIME = "time"
    LAST = "last"
    GROUP = "group"


@dataclass(frozen=True)
class Start:
    """A start. ``value``: the offset, the time in Unix ms, or the number of messages; 0 for the other kinds."""

    kind: StartKind
    value: int = 0


def parse_start(text: str, now_ms: int) -> Start:
    """Parse ``start``, ``end``, ``group``, an offset, ``-15m``, or a point in time. Raises UsageError."""
    word = text.strip().lower()
    if word in ("start", "first", "earliest", "beginning"):
        return Start(StartKind.FIRST)
    if word in ("end", "latest", "now"):
        return Start(StartKind.END)
    if word == "group":
        return Start(StartKind.GROUP)
    if word.isdigit() and int(word) <= OFFSET_MAX:
        return Start(StartKind.OFFSET, int(word))
    if match := _SHORT_COUNT.match(word):
        return Start(StartKind.LAST, int(match.group(1)))
    try:
        return Start(StartKind.TIME, parse_time_ms(text, now_ms))
    except UsageError:
        raise UsageError(
            f"--from {text!r}: write start, end, group, an offset, -15m, -100 (the last 100), or 2026-01-31T12:00"
        ) from None


def parse_stop(text: str, now_ms: int) -> Start:
    """Parse ``end``, an offset, or a point in time, which ``+5m`` puts into the future. Raises UsageError."""
    try:
        if text.startswith("+"):
            return Start(StartKind.TIME, now_ms + parse_duration_ms(text[1:]))
        stop = parse_start(text, now_ms)
        if text.strip().lower() == "now":
            return Start(StartKind.TIME, now_ms)
    except UsageError:
        stop = Start(StartKind.FIRST)
    if stop.kind not in (StartKind.END, StartKind.OFFSET, StartKind.TIME):
        raise UsageError(f"--to {text!r}: write end, an offset, -15m, +5m (from now on), or 2026-01-31T12:00")
    return stop


def expand_short_forms(arguments: list[str]) -> list[str]:
    """Replace ``-100`` by ``--last 100`` and ``-15m`` by ``--from -15m``, except values of an option."""
    expanded: list[str] = []
    for at, argument in enumerate(arguments):
        if at and arguments[at - 1] in ("--from", "--to", "--until", "--last", "--count", "-n", "--look-back"):
            expanded.append(argument)
        elif match := _SHORT_COUNT.match(argument):
            expanded += ["--last", match.group(1)]
        elif match := _SHORT_AGE.match(argument):
            expanded += ["--from", f"-{match.group(1)}"]
        else:
            expanded.append(argument)
    return expanded
