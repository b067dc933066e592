"""Escapes control characters, so that names and bodies that others wrote are shown by a terminal and never obeyed.

All text of a cluster (topic names, properties, bodies, remarks of a server) goes through one of these functions before
a command prints it.
"""

from __future__ import annotations

from pymq.printable import printable


def printable_lines(text: str) -> str:
    """Return the text as :func:`printable` does, but keeps its line ends: for texts that this program put together."""
    if text.isprintable():
        return text
    return "\n".join(map(printable, text.split("\n")))
