"""Pages of Markdown: their titles, their sections, and a search by words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pymq.errors import NotFoundError

FOUND_SHOWN_MAX = 40
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_FENCE = re.compile(r"^(```|~~~)")


class Section(NamedTuple):
    """A heading and the lines below it, up to the next heading. ``line``: of the heading, from 1."""

    heading: str
    line: int
    lines: list[str]


def read_page(files: Mapping[str, Path], name: str) -> str:
    """Return a page as people read it, without comments. Raises NotFoundError with a near name."""
    wanted = name.removesuffix(".md").removeprefix("docs/").lower()
    if wanted not in files:
        near = get_close_matches(wanted, files, n=1, cutoff=0.5)
        hint = f"is {near[0]} meant? " if near else ""
        raise NotFoundError(f"no page {name[:60]!r}: {hint}pymq docs --list shows all")
    return _COMMENT.sub("", files[wanted].read_text("utf-8"))


def sections(page: str) -> Iterator[Section]:
    """Yield the sections of a page; lines of code are no headings."""
    current, is_code = Section("", 1, []), False
    for number, line in enumerate(page.splitlines(), 1):
        is_code ^= bool(_FENCE.match(line))
        if line.startswith("#") and not is_code:
            if current.lines or current.heading:
                yield current
            current = Section(line.lstrip("# "), number, [])
        else:
            current.lines.append(line)
    yield current


def title(page: str) -> str:
    """Return the first heading of a page."""
    return next((section.heading for section in sections(page) if section.heading), "")


def search(files: Mapping[str, Path], words: str) -> list[dict[str, Any]]:
    """Return the sections that have all words, in any case: those with a word in the heading first, then by page.

    A record has ``page``, ``section``, ``line`` and ``text``: the first line that has one of the words.
    """
    wanted = words.lower().split()
    found: list[tuple[bool, dict[str, Any]]] = []
    for name in files:
        for section in sections(read_page(files, name)):
            text = "\n".join([section.heading, *section.lines]).lower()
            if not wanted or not all(word in text for word in wanted):
                continue
            in_heading = any(word in section.heading.lower() for word in wanted)
            numbered = enumerate([section.heading, *section.lines], section.line)
            line, shown = next(one for one in numbered if any(word in one[1].lower() for word in wanted))
            record = {"page": name, "section": section.heading, "line": line, "text": shown.strip()}
            found.append((in_heading, record))
    return [record for _, record in sorted(found, key=lambda one: not one[0])]
