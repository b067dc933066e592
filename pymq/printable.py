"""Escapes characters that a terminal may obey, in texts that name what others wrote: a name, a path, a remark."""

from __future__ import annotations

# str.isprintable() is false for control characters (C0, DEL, C1), marks that change the direction of text, separators
# of lines and lone surrogates. A blank is the only separator that it takes.


def printable(text: str) -> str:
    """Return the text with every character that a terminal may obey as an escape, a line end as ``\\n``."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
