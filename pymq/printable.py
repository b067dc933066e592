"""Escapes characters that a terminal may obey, in texts that name what others wrote: a name, a path, a remark."""

from __future__ import annotations

import re

# str.isprintable() is false for control characters (C0, DEL, C1), marks that change the direction of text, separators
# of lines and lone surrogates. A blank is the only separator that it takes.

_NOT_PRINTED = re.compile(r"[^ -~\n]")


def printable(text: str) -> str:
    """Return the text with every character that a terminal may obey as an escape, a line end as ``\\n``."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


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
