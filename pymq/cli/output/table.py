"""Tables for people: columns that fit the terminal, in which no number and no point in time is ever broken."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import combining, east_asian_width

from pymq.printable import printable

GAP = "  "
_WIDTH_MIN = 8  # a text is not folded below this number of characters
_BREAK_AFTER = ",;/:-_."


class Column:
    """One column of a listing.

    ``key`` is the field of the record, ``heading`` its title (default: from the key). ``right`` is for numbers.
    ``show`` makes a text of the value. ``extra`` leaves the column out where the terminal is too narrow for all
    columns, the last one first. ``folds`` says whether the text may continue on a further line: by default that of
    columns without ``right`` and ``show``, because numbers and points in time have to stay whole.
    """

    __slots__ = ("extra", "folds", "heading", "key", "right", "show")

    def __init__(
        self,
        key: str,
        heading: str | None = None,
        *,
        right: bool = False,
        show: Any = None,
        extra: bool = False,
        folds: bool | None = None,
    ) -> None:
        self.key = key
        self.heading = heading if heading is not None else key.replace("_", " ").upper()
        self.right = right
        self.show = show
        self.extra = extra
        self.folds = folds if folds is not None else not right and show is None

    def text(self, record: Mapping[str, Any]) -> str:
        """Return the cell, safe for a terminal."""
        value = record.get(self.key)
        return printable(str(self.show(value)) if self.show is not None else cell_text(value))


def cell_text(value: Any) -> str:
    """Return a value as table text: ``-`` for None or an empty text, yes or no, a list joined by commas."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "-"
    return str(value)


def is_styled() -> bool:
    """Return whether stdout shows bold text and colors: a terminal, not a dumb one, without NO_COLOR."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def line_width_max() -> int | None:
    """Return the number of characters in a line of the terminal; None for a pipe or file, where no line folds."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_lines(
    records: Sequence[Mapping[str, Any]], columns: Sequence[Column], width_max: int | None
) -> tuple[list[str], list[str]]:
    """Return the heading and the rows, and the headings of columns that were left out for ``width_max`` characters."""
    kept, left_out = list(columns), []
    cells = {column: [column.text(record) for record in records] for column in columns}
    widths = {column: _width(column, cells[column]) for column in columns}
    while width_max is not None and _least_width(kept, widths) > width_max:
        extra = next((column for column in reversed(kept) if column.extra), None)
        if extra is None:
            break
        kept.remove(extra)
        left_out.append(extra.heading)
    if width_max is not None:
        _fold(kept, widths, cells, width_max)
    rows = [
        [column.heading for column in kept],
        *([cells[column][at] for column in kept] for at in range(len(records))),
    ]
    return [line for row in rows for line in _row_lines(row, kept, widths)], left_out[::-1]


def _width(column: Column, cells: Sequence[str]) -> int:
    return max(shown_width(column.heading), *map(shown_width, cells), 0)


def shown_width(text: str) -> int:
    """Return how many characters of a terminal's line a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "FW" else 1 for one in text)


def _least(column: Column, width: int) -> int:
    return min(width, max(_WIDTH_MIN, shown_width(column.heading))) if column.folds else width


def _least_width(columns: Sequence[Column], widths: Mapping[Column, int]) -> int:
    """Return the width of the table when all texts are folded as far as possible."""
    return sum(_least(column, widths[column]) for column in columns) + len(GAP) * (len(columns) - 1)


def _fold(columns: Sequence[Column], widths: dict[Column, int], cells: Mapping[Column, list[str]], total: int) -> None:
    """Make the widest foldable columns narrower, one character at a time, until the table fits."""
    over = sum(widths[column] for column in columns) + len(GAP) * (len(columns) - 1) - total
    while over > 0:
        foldable = [column for column in columns if widths[column] > _least(column, widths[column])]
        if not foldable:
            return
        widths[max(foldable, key=lambda column: widths[column])] -= 1
        over -= 1


def _row_lines(row: Sequence[str], columns: Sequence[Column], widths: Mapping[Column, int]) -> list[str]:
    parts = [_pieces(cell, widths[column]) for cell, column in zip(row, columns, strict=True)]
    return [
        GAP.join(
            _padded(part[at] if at < len(part) else "", column, widths[column])
            for part, column in zip(parts, columns, strict=True)
        ).rstrip()
        for at in range(max(map(len, parts), default=0))
    ]


def _pieces(text: str, width: int) -> list[str]:
    """Split a text into lines of at most ``width`` characters, where possible after a blank or a mark."""
    pieces = []
    while shown_width(text) > width:
        end = 1
        while shown_width(text[: end + 1]) <= width:
            end += 1
        nearest = range(end, end // 4, -1)
        at = next((at for at in nearest if text[at] == " "), 0)
        at = at or next((at for at in nearest if text[at - 1] in _BREAK_AFTER), end)
        pieces.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*pieces, text]


def _padded(text: str, column: Column, width: int) -> str:
    blanks = " " * (width - shown_width(text))
    return blanks + text if column.right else text + blanks
