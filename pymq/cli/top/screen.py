"""The lines of a view, for any width: columns that don't fit are left out, the least important first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pymq.cli.output import printable
from pymq.operations.top.rates import Row

SPARKS = "▁▂▃▄▅▆▇█"
ASCII_SPARKS = "_.:-=+*#"
TREND_WIDTH_MIN, TREND_WIDTH_MAX = 8, 60
NAME_WIDTH_MIN = 16
GAP = "  "


class View(StrEnum):
    """What a screen shows."""

    cluster = "cluster"
    topics = "topics"
    groups = "groups"


class Line(NamedTuple):
    """A line and its style: a name that the live view gives a color."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers or short texts. ``weight``: the columns with the lowest one are left out first."""

    key: str
    heading: str
    width: int
    weight: int
    show: Callable[[Any], str]


@dataclass(slots=True)
class Choice:
    """What the user chose: the view, the column to sort by, a part of names, the first row."""

    view: View = View.cluster
    sort: str | None = None
    is_reversed: bool = False
    contains: str = ""
    everything: bool = False
    first_row: int = 0

    @property
    def sort_key(self) -> str:
        """The column to sort by: the chosen one if the view has it, else the view's own."""
        return self.sort if self.sort in sort_keys(self.view) else _DEFAULT_SORT[self.view]


def short_number(value: float | None) -> str:
    """Format a count or rate in at most 6 characters: ``9``, ``9.5``, ``1234``, ``12.3k``, ``4.5M``."""
    if value is None:
        return "-"
    if abs(value) < 10 and value != int(value):
        return f"{value:.1f}"
    if abs(value) < 10_000:
        return f"{value:.0f}"
    for unit in ("k", "M", "G"):
        value /= 1000
        if abs(value) < 1000:
            return f"{value:.1f}{unit}"
    return f"{value / 1000:.1f}T"


def short_bytes(value: float | None) -> str:
    """Format bytes in at most 7 characters."""
    if value is None:
        return "-"
    for unit in ("B", "K", "M", "G"):
        if abs(value) < 1024:
            return f"{value:.0f}{unit}" if unit == "B" else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}T"


def short_time(duration_ms: float | None) -> str:
    """Format a duration with its largest unit: ``-`` for 0, ``12s``, ``5m``, ``3h``, ``2d``."""
    if not duration_ms:
        return "-"
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if duration_ms >= size_ms:
            return f"{duration_ms / size_ms:.0f}{unit}"
    return f"{duration_ms / 1000:.0f}s"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def _text(value: Any) -> str:
    return "-" if value is None else printable(str(value))


_COLUMNS: dict[View, tuple[Column, ...]] = {
    View.cluster: (
        Column("role", "ROLE", 6, 5, _text),
        Column("in", "IN/S", 6, 9, short_number),
        Column("out", "OUT/S", 6, 9, short_number),
        Column("log_bytes", "LOG/S", 7, 6, short_bytes),
        Column("disk", "DISK", 4, 7, _percent),
        Column("lag", "LAG", 7, 4, short_bytes),
        Column("version", "VERSION", 8, 2, _text),
        Column("address", "ADDRESS", 21, 1, _text),
    ),
    View.topics: (
        Column("in", "IN/S", 6, 9, short_number),
        Column("out", "OUT/S", 6, 8, short_number),
        Column("messages", "STORED", 6, 6, short_number),
        Column("groups", "GROUPS", 6, 5, short_number),
        Column("lag", "LAG", 6, 7, short_number),
        Column("brokers", "BROKERS", 7, 2, short_number),
    ),
    View.groups: (
        Column("members", "MEMBERS", 7, 7, short_number),
        Column("out", "OUT/S", 6, 9, short_number),
        Column("lag", "LAG", 6, 9, short_number),
        Column("behind_ms", "BEHIND", 6, 6, short_time),
        Column("topics", "TOPICS", 6, 3, short_number),
    ),
}
_NAMES = {View.cluster: "BROKER", View.topics: "TOPIC", View.groups: "GROUP"}
_DEFAULT_SORT = {View.cluster: "name", View.topics: "in", View.groups: "lag"}
_EMPTY = {
    View.cluster: "no broker is registered",
    View.topics: "no topic: a shows system topics",
    View.groups: "no group has committed an offset",
}


def sort_keys(view: View) -> list[str]:
    """Return the columns that a view can be sorted by."""
    return ["name", *(column.key for column in _COLUMNS[view])]


def chosen_rows(rows: Iterable[Row], choice: Choice) -> list[Row]:
    """Return the rows with the chosen part in their name, sorted: texts upwards, numbers downwards."""
    key = choice.sort_key
    found = sorted((row for row in rows if choice.contains.lower() in row["name"].lower()), key=lambda row: row["name"])
    if any(isinstance(row[key], str) for row in found):
        return sorted(found, key=lambda row: str(row[key] or ""), reverse=choice.is_reversed)
    return sorted(found, key=lambda row: -1 if row[key] is None else row[key], reverse=not choice.is_reversed)


def table(rows: Sequence[Row], choice: Choice, width: int, sparks: str = SPARKS) -> list[Line]:
    """Return the heading and a line for each row, none longer than ``width``."""
    view = choice.view
    if not rows:
        return [Line(f"  no name has {choice.contains!r}" if choice.contains else f"  {_EMPTY[view]}")]
    columns, name_width, trend_width = _fit(_COLUMNS[view], max(len(row["name"]) for row in rows), width)
    names = [_NAMES[view].ljust(name_width)]
    names += [_clip(column.heading, column.width).rjust(column.width) for column in columns]
    heading = GAP.join([*names, "TREND"] if trend_width else names).rstrip()
    lines = [Line(_clip(heading, width), "heading")]
    for row in rows:
        cells = [_clip(printable(row["name"]), name_width).ljust(name_width)]
        error = row.get("error", "")
        if error:
            cells.append(printable(error))
        else:
            cells += [_clip(column.show(row[column.key]), column.width).rjust(column.width) for column in columns]
            cells.append(spark_line(row["trend"], trend_width, sparks))
        lines.append(Line(_clip(GAP.join(cells).rstrip(), width), "error" if error else ""))
    return lines


def _fit(columns: Sequence[Column], longest_name: int, width: int) -> tuple[list[Column], int, int]:
    """Return the columns that fit beside a name and a trend, and the widths of these two."""
    name_width = max(NAME_WIDTH_MIN, min(longest_name, width // 3))
    left = list(columns)
    while left and name_width + _width(left) + len(GAP) + TREND_WIDTH_MIN > width:
        left.remove(min(left, key=lambda column: column.weight))
    spare = width - name_width - _width(left) - len(GAP)
    if spare < TREND_WIDTH_MIN:
        return left, max(1, min(name_width, width)), 0
    beyond = max(0, spare - 2 * TREND_WIDTH_MIN)  # names come before a longer trend
    grown = max(0, min(longest_name - name_width, beyond))
    return left, name_width + grown, min(TREND_WIDTH_MAX, spare - grown)


def _width(columns: Sequence[Column]) -> int:
    return sum(len(GAP) + column.width for column in columns)


def spark_line(values: Sequence[float], width: int, sparks: str = SPARKS) -> str:
    """Return the newest values as signs of eight heights, from 0 to their largest."""
    newest = list(values)[-width:] if width > 0 else []
    most = max(newest, default=0)
    if most <= 0:
        return sparks[0] * len(newest)
    return "".join(sparks[min(len(sparks) - 1, int(value / most * (len(sparks) - 1) + 0.5))] for value in newest)


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
