"""Finds the lines of a TOML file's keys, which ``tomllib`` doesn't tell: errors name them."""

from __future__ import annotations

import re
import tomllib
from typing import Any

KeyPath = tuple[str | int, ...]
"""Where a value is: ``("source", 0, "topic")``."""

_HEADER = re.compile(r"\s*(\[\[?)(?P<key>.+?)\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*(?P<key>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
# What a value's text is made of, as far as it says where the value ends.
_PIECE = re.compile(r'''"""|\'\'\'|"(?:\\.|[^"\\])*"|'[^']*'|[\[\]{}#]|\\.''')


def lines_of(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each table and key of a text that ``tomllib`` takes.

    Keys of inline tables are left out.
    """
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    value = _Value()
    for number, line in enumerate(text.splitlines(), 1):
        if value.is_open:
            value.read(line)
        elif header := _HEADER.match(line):
            table = _absolute(_names(header["key"]), counts)
            if header[1] == "[[":
                at = counts.get(table, -1) + 1
                counts[table] = at
                found.setdefault(table, number)
                table = (*table, at)
            found[table] = number
        elif key := _KEY.match(line):
            found[(*table, *_names(key["key"]))] = number
            value.read(line[key.end() :])
    return found


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int:
    """Return the line of a value, or of the nearest table around it; 1 when there is none."""
    while path not in lines and path:
        path = path[:-1]
    return lines.get(path, 1)


def _names(key: str) -> KeyPath:
    """Return the parts of a key, with quotes and dots as TOML has them."""
    parsed: Any = tomllib.loads(f"{key} = 0")
    names = []
    while isinstance(parsed, dict):
        ((name, parsed),) = parsed.items()
        names.append(name)
    return tuple(names)


def _absolute(names: KeyPath, counts: dict[KeyPath, int]) -> KeyPath:
    """Return a header's path with the places of the arrays on its way: ``[sink.options]`` is of the last sink."""
    path: KeyPath = ()
    for name in names[:-1]:
        path = (*path, name)
        if path in counts:
            path = (*path, counts[path])
    return (*path, *names[-1:])


class _Value:
    """Whether the text of a value goes on in the next line: in a long string, or between brackets."""

    def __init__(self) -> None:
        self._quotes = ""
        self._depth = 0

    @property
    def is_open(self) -> bool:
        return bool(self._quotes) or self._depth > 0

    def read(self, line: str) -> None:
        for piece in _PIECE.findall(line):
            if self._quotes:
                self._quotes = "" if piece == self._quotes else self._quotes
            elif piece in ('"""', "'''"):
                self._quotes = piece
            elif piece == "#":
                return
            elif piece in "[{":
                self._depth += 1
            elif piece in "]}":
                self._depth -= 1
