"""The tables that a query names, as far as it can be seen without Spark, which decides in the end."""

from __future__ import annotations

import re

# Comments and strings first, so that no word within them counts.
_PIECE = re.compile(
    r"""(?P<skip>--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|`(?P<quoted>[^`]+)`|(?P<word>\w+)|(?P<sign>\S)""",
    re.DOTALL,
)
_BEFORE_TABLE = {"from", "join"}
_ENDS_TABLES = {"where", "group", "order", "having", "limit", "union", "on", "using", "select", "window", "lateral"}


def tables_of(sql: str) -> set[str]:
    """Return the names that stand where a table is expected: after FROM and JOIN, and in FROM's list."""
    found: set[str] = set()
    expects = in_list = False
    for piece in _PIECE.finditer(sql):
        if piece["skip"] is not None:
            continue
        name = piece["quoted"] or piece["word"]
        lowered = (piece["word"] or "").lower()
        if lowered in _BEFORE_TABLE:
            expects = in_list = True
        elif lowered in _ENDS_TABLES:
            expects = in_list = False
        elif piece["sign"] == ",":
            expects = in_list
        elif name is not None and expects:
            found.add(name)
            expects = False
        elif piece["sign"] is not None:
            expects = False
            in_list = in_list and piece["sign"] not in "()"
    return found
