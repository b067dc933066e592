"""Parts that many pages are made of: tables of records, and lists of single values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

ROWS_MAX: Final = 500  # of a table that has no pages of its own


class Kind(StrEnum):
    """How a value is shown."""

    text = "text"
    number = "number"
    rate = "rate"  # a second
    size = "size"
    time = "time"  # Unix ms
    span = "span"  # ms
    names = "names"  # a list of texts
    flag = "flag"
    link = "link"  # the column's path leads to a page


@dataclass(frozen=True, slots=True)
class Column:
    """One column of records, or one value of a single record. ``path`` makes the address of a link from a record,
    or None for one without a page."""

    key: str
    label: str
    kind: Kind = Kind.text
    why_unknown: str = "a server did not say it"
    path: Callable[[Mapping[str, Any]], str | None] | None = None

    @property
    def is_figure(self) -> bool:
        """Return whether values stand at the right."""
        return self.kind in (Kind.number, Kind.rate, Kind.size)


@dataclass(frozen=True, slots=True)
class Table:
    """Records with columns. ``empty`` says what would be here, and how it comes."""

    title: str
    columns: Sequence[Column]
    records: Sequence[Mapping[str, Any]]
    empty: str

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The records that are shown."""
        return self.records[:ROWS_MAX]

    @property
    def left_out(self) -> int:
        """The number of records behind them."""
        return max(0, len(self.records) - ROWS_MAX)


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one record, each with its name."""

    title: str
    columns: Sequence[Column]
    record: Mapping[str, Any]
