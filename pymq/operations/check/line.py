"""What monitoring reads: levels that are exit codes, limits, and a line with performance data.

Nagios Plugin Guidelines: the first line is ``NAME LEVEL - text | 'label'=value[unit];warn;crit;min;max …``; details are
on further lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

FIGURES_SHOWN_MAX = 100  # of performance data; monitoring cuts long lines


class Level(IntEnum):
    """The exit codes of Nagios' plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


# Critical is worse than warning, and both are worse than unknown.
_BADNESS = (Level.OK, Level.UNKNOWN, Level.WARNING, Level.CRITICAL)


@dataclass(frozen=True, slots=True)
class Limits:
    """The values above which a figure is a warning or critical; None for no limit."""

    warning: float | None = None
    critical: float | None = None

    def level(self, value: float | None) -> Level:
        """Return UNKNOWN for None if there is a limit."""
        if self.warning is None and self.critical is None:
            return Level.OK
        if value is None:
            return Level.UNKNOWN
        if self.critical is not None and value > self.critical:
            return Level.CRITICAL
        return Level.WARNING if self.warning is not None and value > self.warning else Level.OK


@dataclass(frozen=True, slots=True)
class Figure:
    """One value of the performance data. ``unit`` is empty, ``s``, ``ms``, ``B`` or ``%``."""

    label: str
    value: float | None
    unit: str = ""
    limits: Limits = Limits()
    most: float | None = None

    @property
    def level(self) -> Level:
        return self.limits.level(self.value)

    def text(self) -> str:
        value = "U" if self.value is None else f"{_number(self.value)}{self.unit}"
        parts = [value, _number(self.limits.warning), _number(self.limits.critical), "0", _number(self.most)]
        label = self.label.replace("'", "''").replace("=", "-").replace("|", "/")
        return f"'{label}'={';'.join(parts)}".rstrip(";")


@dataclass(frozen=True, slots=True)
class Part:
    """One broker, disk, group or slave: its level, and the line for people."""

    subject: str
    level: Level
    text: str


@dataclass(slots=True)
class Result:
    """The result of a check. ``fine`` is the text of the first line if every part is OK."""

    name: str
    fine: str
    parts: list[Part] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    @property
    def level(self) -> Level:
        return worst([part.level for part in self.parts])

    def lines(self) -> list[str]:
        """Return the line with performance data, then a line for each part that is not OK."""
        bad = sorted((part for part in self.parts if part.level), key=lambda part: -_BADNESS.index(part.level))
        text = self.fine
        if bad:
            more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            text = f"{bad[0].subject}: {bad[0].text}{more}"
        data = " ".join(figure.text() for figure in self.figures[:FIGURES_SHOWN_MAX])
        head = f"{self.name.upper()} {self.level.name} - {_plain(text)}"
        return [
            f"{head} | {data}" if data else head,
            *(f"{part.level.name} {_plain(f'{part.subject}: {part.text}')}" for part in bad if len(bad) > 1),
        ]

    def as_record(self) -> dict[str, Any]:
        """Return the record to print as JSON."""
        return {
            "check": self.name,
            "status": self.level.name,
            "exit_code": int(self.level),
            "parts": [{"subject": part.subject, "status": part.level.name, "text": part.text} for part in self.parts],
            "figures": [
                {
                    "label": figure.label,
                    "value": figure.value,
                    "unit": figure.unit,
                    "warning": figure.limits.warning,
                    "critical": figure.limits.critical,
                }
                for figure in self.figures
            ],
        }


def worst(levels: Sequence[Level]) -> Level:
    """Return the worst level, OK without any."""
    return max(levels, key=_BADNESS.index, default=Level.OK)


def parse_limits(warning: str | None, critical: str | None, parse: Callable[[str], float]) -> Limits:
    """Parse the values of ``-w`` and ``-c``. Raises what ``parse`` raises."""
    return Limits(None if warning is None else parse(warning), None if critical is None else parse(critical))


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else f"{value:.3f}".rstrip("0")


def _plain(text: str) -> str:
    """Return a text on one line without the sign that begins performance data."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split()).replace("|", "/")
