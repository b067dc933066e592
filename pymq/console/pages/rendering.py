"""Makes HTML of pages. Every text is escaped, and control characters are shown and not obeyed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pymq.console.history.chart import value_text
from pymq.console.pages.links import (
    broker_path,
    dead_letters_path,
    group_path,
    message_path,
    messages_path,
    tail_path,
    topic_path,
)
from pymq.console.pages.page import Pipe
from pymq.printable import printable

UNKNOWN: Final = "\u2013"
SHORT_COUNT_MAX: Final = 10


def make_environment() -> Environment:
    """Return the environment of all templates."""
    environment = Environment(
        loader=PackageLoader("pymq.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number_text,
        "size": size_text,
        "utc": utc_text,
        "ago": ago_text,
        "span": span_text,
        "amount": amount_text,
        "hour": hour_text,
        "short": short_text,
        "lines": lines_text,
        "shell": shell_text,
    }
    environment.globals |= {
        "topic_path": topic_path,
        "broker_path": broker_path,
        "group_path": group_path,
        "message_path": message_path,
        "messages_path": messages_path,
        "dead_letters_path": dead_letters_path,
        "tail_path": tail_path,
    }
    return environment


def _visible(value: Any) -> Any:
    """Return what an expression shows: texts of others may hold marks that change the direction of a line."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def lines_text(value: str) -> Markup:
    """Return a text of several lines for a ``pre`` element. Ends of lines and tabs stay, other controls are shown."""
    lines = value.replace("\r\n", "\n").split("\n")
    return Markup("\n").join(Markup("\t").join(escape(printable(part)) for part in line.split("\t")) for line in lines)


def shell_text(words: Sequence[str]) -> str:
    """Return a command line for a shell: words in quotes where they need some, and pipes between commands."""
    return " ".join(word if isinstance(word, Pipe) else shlex.quote(word) for word in words)


def number_text(value: float | None, digits: int = 0) -> str:
    """Return a number with commas, a dash for one that is unknown."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def amount_text(value: float | None) -> str:
    """Return a number with as many digits as one reads, a dash for one that is unknown."""
    return UNKNOWN if value is None else value_text(value)


def hour_text(time_ms: int) -> str:
    """Return hour and minute of a time in UTC."""
    return utc_text(time_ms)[11:16]


def short_text(value: Any) -> str:
    """Return any value in a line: of a list or a table the first :data:`SHORT_COUNT_MAX` entries; a dash for none."""
    if value is None:
        return UNKNOWN
    if isinstance(value, dict):
        value = [f"{name}: {each}" for name, each in value.items()]
    if not isinstance(value, (list, tuple)):
        return str(value)
    rest = len(value) - SHORT_COUNT_MAX
    text = ", ".join(map(str, value[:SHORT_COUNT_MAX]))
    return f"{text} and {rest:,} more" if rest > 0 else text


def size_text(value: float | None) -> str:
    """Return bytes in the largest unit of which there is at least one, a dash for an unknown number."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def utc_text(time_ms: int | None) -> str:
    """Return a time in UTC as in ISO 8601, a dash for an unknown one."""
    if time_ms is None:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # a server's clock may say anything
        return UNKNOWN


def span_text(span_ms: int | None) -> str:
    """Return a time span in its two largest units, a dash for an unknown one."""
    if span_ms is None:
        return UNKNOWN
    seconds = max(0, span_ms) // 1000
    for unit, name, part, part_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            return f"{seconds // unit:,} {name} {seconds % unit // part} {part_name}"
    return f"{seconds} s"


def ago_text(time_ms: int | None, now_ms: int) -> str:
    """Return how long ago a time was, in its largest unit; a dash for an unknown one."""
    if time_ms is None:
        return UNKNOWN
    seconds = (now_ms - time_ms) // 1000
    if seconds < -60:
        return "in the future"
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:,} {name} ago"
    return f"{max(0, seconds)} s ago"
