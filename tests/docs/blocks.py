"""The fenced blocks of a page, and what a reader does with each.

A comment in the line before a block says what is special about it: ``<!-- runs on -->`` for a program that the reader
leaves running, ``<!-- goes on -->`` for Python that goes on with the names of the block before, ``<!-- not run: REASON
-->`` for one that no test runs. A block of ``text`` shows what the block before it prints; ``…`` in it stands for
anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RUN, RUNS_ON, GOES_ON, NOT_RUN, OUTPUT = "run", "runs on", "goes on", "not run", "output"
SHELL, PYTHON, SHOWN = ("sh", "bash"), ("python",), ("text",)
# Blocks to read, or parts of programs in languages that no test of these pages has.
READ = ("json", "toml", "js", "go", "java", "yaml", "properties", "ini", "")
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(r"<!-- (runs on|goes on|not run)(?:: (.+?))? -->\n\Z")


@dataclass(frozen=True)
class Block:
    """``line``: where it begins on its page. ``reason``: why it is not run."""

    line: int
    language: str
    text: str
    mode: str
    reason: str = ""


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page in their order. Raises ValueError for one without a language that says what it is."""
    found = []
    for fence in _FENCE.finditer(page):
        before = page[: fence.start()]
        line, language, text = before.count("\n") + 1, fence.group(1), fence.group(2)
        directive = _DIRECTIVE.search(before)
        mode, reason = (directive.group(1), directive.group(2) or "") if directive else (RUN, "")
        if language in SHOWN:
            mode = OUTPUT
        elif language in READ:
            mode, reason = NOT_RUN, reason or "it is to read"
        elif language not in (*SHELL, *PYTHON):
            raise ValueError(f"line {line}: a block of {language!r}: nobody knows how to run it")
        if mode == NOT_RUN and not reason:
            raise ValueError(f"line {line}: the block is not run, and does not say why")
        found.append(Block(line, language, text, mode, reason))
    return found


def matches(shown: str, printed: str) -> bool:
    """Return True when the lines that a page shows are in what was printed, in their order."""
    at = 0
    for line in filter(None, map(str.rstrip, shown.splitlines())):
        pattern = re.compile(
            r"^[ \t]*" + ".*".join(re.escape(part) for part in line.strip().split("…")) + r"[ \t]*$", re.M
        )
        found = pattern.search(printed, at)
        if found is None:
            return False
        at = found.end()
    return True
