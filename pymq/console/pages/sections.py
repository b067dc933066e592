"""Parts that many pages are made of: tables of records, and lists of single values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pymq.console.pages.lists import ROWS_OF_PART, Cut, Row, cut
from pymq.console.web.parameters import Parameters

ROWS_MAX: Final = 100  # of a table that has no pages of its own

NO_MATCH: Final = "No row of this list has this text."


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
    choice = "choice"  # a box of the form "choosing", which adds the value to its field "chosen"


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
    """Records with columns. ``empty`` says what would be here, and how it comes.

    ``cut``: of which list the records are a page, None for a table without pages.
    """

    title: str
    columns: Sequence[Column]
    records: Sequence[Mapping[str, Any]]
    empty: str
    cut: Cut | None = None

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


class Lists:
    """The lists of one page. Each has a page of rows, and parameters of its own."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._cuts: dict[str, Cut] = {}

    def table(
        self,
        name: str,
        title: str,
        columns: Sequence[Column],
        records: Sequence[Row],
        empty: str,
        *,
        sorts: Sequence[str] = (),
    ) -> Table:
        """Return the table of the rows that are shown. ``name``: as in ``?format=json``; the first column is searched.

        ``sorts``: columns that the list may be sorted by; without sorts the records keep their order.
        Raises BadRequest.
        """
        found = cut(
            records,
            self._parameters,
            columns[0].key,
            {column: column for column in sorts},
            name=name,
            size=ROWS_OF_PART,
        )
        self._cuts[name] = found
        return Table(title, columns, found.rows, NO_MATCH if found.search else empty, found)

    def rows(self) -> dict[str, list[Row]]:
        """Return the rows that are shown by the name of their list."""
        return {name: found.rows for name, found in self._cuts.items()}

    def as_record(self) -> dict[str, Any]:
        """Return the rows of each list, and under ``lists`` which page of how many rows they are."""
        return self.rows() | {"lists": {name: found.as_record() for name, found in self._cuts.items()}}
