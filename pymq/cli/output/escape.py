"""Escapes control characters, so that names and bodies that others wrote are shown by a terminal and never obeyed.

All text of a cluster (topic names, properties, bodies, remarks of a server) goes through one of these functions before
a command prints it.
"""

from __future__ import annotations

import re

from pymq.printable import printable


def printable_lines(text: str) -> str:
    """Return the text as :func:`printable` does, but keeps its line ends: for texts that this program put together."""
    if text.isprintable():
        return text
    return "\n".join(map(printable, text.split("\n")))


_NOT_PRINTED = re.compile(r"[^ -~\n]")


def printable_json(text: str) -> str:
    """Return JSON text with the same value, in which control characters are ``\\u`` escapes.

    JSON's own rules leave DEL, C1 (0x9b starts commands as ESC [ does) and marks of direction as they are.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _NOT_PRINTED.sub(_as_json_escape, text)


def _as_json_escape(found: re.Match[str]) -> str:
    one = found[0]
    if one.isprintable():
        return one
    code = ord(one)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
