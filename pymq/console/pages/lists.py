"""Lists of rows: searched, sorted and cut into pages, from rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from pymq.console.web.parameters import Parameters

ROWS_OF_PAGE: Final = 50
ROWS_OF_PAGE_MAX: Final = 100
ROWS_OF_PART: Final = 20  # of a page with several lists
PAGE_NUMBER_MAX: Final = 1_000_000
SEARCH_LENGTH_MAX: Final = 255

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of one page, and where they stand among all. ``number`` counts pages from 1.

    ``name``: of the list on a page with several lists; it begins the names of the list's parameters.
    ``sorts``: what the list may be sorted by.
    """

    rows: list[Row]
    total: int
    number: int
    size: int
    search: str
    sort: str
    is_descending: bool
    name: str = ""
    sorts: tuple[str, ...] = ()

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

    @property
    def has_form(self) -> bool:
        """Whether a search helps: there are rows on other pages, or a search left rows out."""
        return self.page_count > 1 or bool(self.search)

    def parameter(self, field: str) -> str:
        """Return the name of a parameter of this list: ``q``, ``sort``, ``order``, ``page`` or ``rows``."""
        return _parameter(self.name, field)

    def at_page(self, number: int) -> dict[str, int]:
        """Return the parameter that leads to another page of this list."""
        return {self.parameter("page"): number}

    def as_record(self) -> dict[str, int]:
        """Return the number of all rows, of this page, and of all pages."""
        return {"total": self.total, "page": self.number, "pages": self.page_count}


def cut(
    rows: Sequence[Row],
    parameters: Parameters,
    column: str,
    sorts: Mapping[str, str],
    *,
    keep: Callable[[Row], bool] = lambda row: True,
    name: str = "",
    size: int = ROWS_OF_PAGE,
) -> Cut:
    """Return the page of rows that the parameters ``q``, ``sort``, ``order``, ``page`` and ``rows`` ask for.

    ``column``: that is searched, and that orders rows with the same figure. ``sorts``: parameter -> column, the first
    one by default; without sorts the rows keep their order. Rows whose figure is unknown come last in either order.
    ``keep``: which rows the list has at all. ``name``: of the list on a page with several lists: its parameters are
    ``NAME-q`` and so on. Raises BadRequest.
    """
    search = parameters.text(_parameter(name, "q"), "", length_max=SEARCH_LENGTH_MAX)
    sort, is_descending = "", False
    if sorts:
        sort = parameters.choice(_parameter(name, "sort"), next(iter(sorts)), sorts)
        is_descending = parameters.choice(_parameter(name, "order"), "up", ("up", "down")) == "down"
    size = parameters.number(_parameter(name, "rows"), size, minimum=1, maximum=ROWS_OF_PAGE_MAX)
    wanted = parameters.number(_parameter(name, "page"), 1, minimum=1, maximum=PAGE_NUMBER_MAX)
    word = search.lower()
    found = [row for row in rows if keep(row) and (not word or word in _text(row, column).lower())]
    if sorts:
        found = _sorted(found, column, sorts[sort], is_descending=is_descending)
    number = min(wanted, max(1, -(-len(found) // size)))
    page = found[(number - 1) * size : number * size]
    return Cut(page, len(found), number, size, search, sort, is_descending, name, tuple(sorts))


def _sorted(rows: list[Row], column: str, figure: str, *, is_descending: bool) -> list[Row]:
    # Rows with the same name keep their order.
    ordered = rows if figure == column else sorted(rows, key=lambda row: _text(row, column))
    known = [row for row in ordered if row[figure] is not None]
    known.sort(key=itemgetter(figure), reverse=is_descending)
    return known + [row for row in ordered if row[figure] is None]


def _text(row: Row, column: str) -> str:
    value = row[column]
    return value if isinstance(value, str) else "" if value is None else str(value)


def _parameter(name: str, field: str) -> str:
    return f"{name}-{field}" if name else field
