"""The one place that prints: tables for people, JSON, JSONL, TSV and YAML for programs, notes and progress on stderr.

Every text of a cluster is printed with its control characters escaped (:mod:`pymq.cli.output.escape`). A command prints
its result so::

    records = session.ask(work.list_things)
    print_listing(records, COLUMNS, output, "no things: pymq thing create makes one")

and one that has more to show to people than a table::

    if print_data(record, output):
        return
    print_fields(record)
    print_section("members", record["members"], MEMBER_COLUMNS, "none")
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pymq.cli.output.escape import printable_lines
from pymq.cli.output.formats import MessageOutput, OutputFormat, RecordStream, formatted, json_text
from pymq.cli.output.progress import Progress, progress, progress_in_mib
from pymq.cli.output.table import Column, cell_text, is_styled, line_width_max, table_lines
from pymq.printable import printable, printable_json

__all__ = [
    "Column",
    "MessageOutput",
    "OutputFormat",
    "Progress",
    "RecordStream",
    "cell_text",
    "is_styled",
    "print_data",
    "print_fields",
    "print_json",
    "print_json_line",
    "print_line",
    "print_listing",
    "print_note",
    "print_section",
    "print_table",
    "printable",
    "printable_json",
    "printable_lines",
    "progress",
    "progress_in_mib",
]


def print_data(value: Any, output: OutputFormat) -> bool:
    """Print a record, or a list of records, in a format for programs. ``table`` prints nothing and returns False.

    A record is an object with texts, numbers, truth values, None, lists and further objects.
    """
    if output is OutputFormat.table:
        return False
    sys.stdout.write(formatted(value, output))
    return True


def print_listing(
    records: Sequence[Mapping[str, Any]], columns: Sequence[Column], output: OutputFormat, empty: str = "nothing found"
) -> None:
    """Print records as an aligned table, or in a format for programs, which has all fields.

    ``empty`` goes to stderr when the table would have no row.
    """
    if print_data(list(records), output):
        return
    if records:
        print_table(records, columns)
    else:
        print_note(empty)


def print_table(records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    """Print columns two blanks apart, with a bold heading on a terminal.

    Where the terminal is too narrow, long texts fold and extra columns are left out, with a note that says which.
    """
    width = line_width_max()
    lines, left_out = table_lines(records, columns, width)
    if is_styled():
        lines[0] = f"\033[1m{lines[0]}\033[0m"
    sys.stdout.write("\n".join(lines) + "\n")
    if left_out:
        import textwrap

        text = f"no room for {', '.join(left_out)}: a wider terminal, or -o json, shows all"
        print_note(textwrap.fill(text, width or len(text), break_on_hyphens=False))


def print_section(title: str, records: Sequence[Mapping[str, Any]], columns: Sequence[Column], empty: str) -> None:
    """Print a table with a title as part of a longer answer for people; without rows it prints ``empty``."""
    print_line(f"\n{title}")
    if records:
        print_table(records, columns)
    else:
        print_line(f"  {empty}")


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print one object as ``name  value`` lines for people; further lines of a value are aligned with its first."""
    width = max(len(name) for name in fields)
    below = "\n" + " " * (width + 2)
    for name, value in fields.items():
        text = printable_lines(cell_text(value)).replace("\n", below)
        sys.stdout.write(f"{printable(name).ljust(width)}  {text}\n")


def print_line(text: str = "") -> None:
    """Print a text for people to stdout; its line ends are kept, other control characters are escaped."""
    sys.stdout.write(printable_lines(text) + "\n")


def print_json(value: Any) -> None:
    """Print indented JSON without escapes for printable non-ASCII text."""
    sys.stdout.write(json_text(value) + "\n")


def print_json_line(value: Any) -> None:
    """Print JSON on one line and flushes, for streams."""
    sys.stdout.write(json_text(value, indent=None) + "\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Print a text for people that is not part of the result to stderr, with control characters escaped."""
    sys.stderr.write(printable_lines(text) + "\n")
