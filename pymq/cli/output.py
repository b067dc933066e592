"""Prints listings as a table for people or JSON for programs, and progress on a terminal's stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Protocol

_MIB = 1 << 20


class OutputFormat(StrEnum):
    """The values of ``-o``."""

    table = "table"
    json = "json"


class Column:
    """One column of a listing: the record's key, its heading (default: from the key), ``right`` for numbers."""

    __slots__ = ("heading", "key", "right", "show")

    def __init__(self, key: str, heading: str | None = None, *, right: bool = False, show: Any = None) -> None:
        self.key = key
        self.heading = heading if heading is not None else key.replace("_", " ").upper()
        self.right = right
        self.show = show

    def text(self, record: Mapping[str, Any]) -> str:
        value = record.get(self.key)
        if self.show is not None:
            return str(self.show(value))
        return cell_text(value)


def cell_text(value: Any) -> str:
    """Returns a value as table text: ``-`` for None or an empty text, yes or no, a list joined by commas."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "-"
    return str(value)


def print_listing(
    records: Sequence[Mapping[str, Any]], columns: Sequence[Column], output: OutputFormat, empty: str = "nothing found"
) -> None:
    """Prints records as an aligned table, or as one JSON array, which has all fields.

    ``empty`` goes to stderr when the table would have no row.
    """
    if output is OutputFormat.json:
        print_json(list(records))
    elif records:
        print_table(records, columns)
    else:
        print_note(empty)


def print_table(records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    """Prints columns two blanks apart, with a bold heading on a terminal."""
    rows = [[column.text(record) for column in columns] for record in records]
    widths = [max(len(column.heading), *(len(row[at]) for row in rows)) for at, column in enumerate(columns)]
    heading = _aligned([column.heading for column in columns], columns, widths)
    lines = [f"\033[1m{heading}\033[0m" if is_styled() else heading]
    lines += [_aligned(row, columns, widths) for row in rows]
    sys.stdout.write("\n".join(lines) + "\n")


def is_styled() -> bool:
    """Returns whether stdout shows bold text and colors: a terminal, not a dumb one, without NO_COLOR."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def print_section(title: str, records: Sequence[Mapping[str, Any]], columns: Sequence[Column], empty: str) -> None:
    """Prints a table with a title as part of a longer answer for people; without rows it prints ``empty``."""
    print(f"\n{title}")
    if records:
        print_table(records, columns)
    else:
        print(f"  {empty}")


def _aligned(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = [
        cell.rjust(width) if column.right else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return "  ".join(padded).rstrip()


def print_fields(fields: Mapping[str, Any]) -> None:
    """Prints one object as ``name  value`` lines for people; further lines of a value are aligned with its first."""
    width = max(len(name) for name in fields)
    below = "\n" + " " * (width + 2)
    for name, value in fields.items():
        sys.stdout.write(f"{name.ljust(width)}  {cell_text(value).replace(chr(10), below)}\n")


def print_json(value: Any) -> None:
    """Prints indented JSON without escapes for non-ASCII text."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_json_line(value: Any) -> None:
    """Prints JSON on one line and flushes, for streams."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Prints a text for people that is not part of the result to stderr."""
    print(text, file=sys.stderr)


class Progress(Protocol):
    """Receives the progress of long work, in the unit that it was created with."""

    def advance(self, count: int) -> None: ...
    def set_total(self, total: int) -> None: ...


class _Silent:
    def advance(self, count: int) -> None:
        pass

    def set_total(self, total: int) -> None:
        pass


class _RichProgress:
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar = bar
        self._task = task

    def advance(self, count: int) -> None:
        self._bar.advance(self._task, count)

    def set_total(self, total: int) -> None:
        self._bar.update(self._task, total=total)


@contextmanager
def progress(description: str, total: int | None = None, *, wanted: bool = True) -> Iterator[Progress]:
    """Shows a bar with count and rate on stderr during the block, if ``wanted`` and stderr is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    class Rate(TextColumn):
        def render(self, task: Any) -> Any:
            from rich.text import Text

            return Text(f"{task.speed or 0:,.0f}/s")

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(""),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        yield _RichProgress(bar, bar.add_task(description, total=total))


@contextmanager
def progress_in_mib(description: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Shows a bar in MiB; yields a function that takes the number of bytes done since its last call."""
    done = shown = 0
    with progress(f"{description} (MiB)", total_bytes // _MIB) as bar:

        def advance(size: int) -> None:
            nonlocal done, shown
            done += size
            if done // _MIB > shown:
                bar.advance(done // _MIB - shown)
                shown = done // _MIB

        yield advance
