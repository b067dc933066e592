"""Lists of rows: searched, sorted and cut into pages, from rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pymq.console.web.parameters import Parameters

ROWS_OF_PAGE: Final = 50
ROWS_OF_PAGE_MAX: Final = 200
PAGE_NUMBER_MAX: Final = 1_000_000
SEARCH_LENGTH_MAX: Final = 255

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of one page, and where they stand among all. ``number`` counts pages from 1."""

    rows: list[Row]
    total: int
    number: int
    size: int
    search: str
    sort: str
    is_descending: bool

    @property
    def first(self) -> int:
        """The number of the first row that is shown, from 1; 0 without rows."""
        return (self.number - 1) * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of the last row that is shown."""
        return (self.number - 1) * self.size + len(self.rows) if self.rows else 0

    @property
    def page_count(self) -> int:
        """The number of pages, at least 1."""
        return max(1, -(-self.total // self.size))


def cut(
    rows: list[Row], parameters: Parameters, name: str, sorts: Mapping[str, str], *, keep: Callable[[Row], bool]
) -> Cut:
    """Return the page of rows that the parameters ``q``, ``sort``, ``order``, ``page`` and ``rows`` ask for.

    ``name``: the column that is searched, and the first of the ``sorts``: parameter -> column. Rows whose figure is
    unknown come last in either order. ``keep``: which rows the list has at all. Raises BadRequest.
    """
    search = parameters.text("q", "", length_max=SEARCH_LENGTH_MAX)
    sort = parameters.choice("sort", next(iter(sorts)), sorts)
    is_descending = parameters.choice("order", "up", ("up", "down")) == "down"
    size = parameters.number("rows", ROWS_OF_PAGE, minimum=1, maximum=ROWS_OF_PAGE_MAX)
    wanted = parameters.number("page", 1, minimum=1, maximum=PAGE_NUMBER_MAX)
    word = search.lower()
    found = [row for row in rows if keep(row) and word in row[name].lower()]
    column = sorts[sort]
    known = [row for row in found if row[column] is not None]
    unknown = [row for row in found if row[column] is None]
    known.sort(key=lambda row: row[name])
    known.sort(key=lambda row: row[column], reverse=is_descending)
    ordered = known + sorted(unknown, key=lambda row: row[name])
    number = min(wanted, max(1, -(-len(ordered) // size)))
    return Cut(ordered[(number - 1) * size : number * size], len(ordered), number, size, search, sort, is_descending)
