"""One vocabulary: words that docs/glossary.md has replaced occur nowhere in the code, its messages and the docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

# Words as parts of snake_case names and of prose; in CamelCase names, where a capital follows or begins them.
RETIRED = (
    r"reigns?", r"lineages?", r"stretch(?:es)?", r"census", r"rivals?", r"strays?", r"caretakers?", r"chores?",
    r"lost[ _-]?tails?", r"own[ _-]?tails?", r"tail[ _-]?holders?", r"regain(?:s|ed)?", r"told", r"feeds?",
    r"freez(?:e|es|er|ers|ing)", r"frozen", r"confirmed[ _-]?offsets?", r"copied[ _-]?offsets?", r"diverged",
    r"(?:is|are|was|were|be) cut", r"fillers?", r"molds?", r"narrowings?", r"gatherings?", r"teeth",
    r"anew", r"whoever", r"stand-ins?", r"quick[ _-]?feeds?", r"(?:is|are|was|were) had", r"said once",
    r"master[ _-]?links?", r"link[ _-]?sessions?", r"held[ _-]?(?:reigns?|epochs?)", r"epochs kept",
)  # fmt: skip
PROSE = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(RETIRED)})(?![A-Za-z])", re.IGNORECASE)
CAMEL = re.compile(
    r"Reign|Lineage|Census|Rival|Caretaker|TailHolder|LostTail|OwnTail|Regained|Freezer|MasterLink|LinkSession|QueueFeed"
)

# Innocent uses: (what the path ends with, or "" for any file; a pattern of the text).
ALLOWED = (
    ("", r"frozen=True|kw_only=True, frozen"),  # dataclasses and msgspec Structs
    ("", r"\bdef feed\(|\.feed\(|feed_token|feed_eof"),  # parsers
    ("", r"\bgc\.freeze\(\)"),  # the standard library's name
    ("", r"\bis cut short\b|\bis cut off\b|\bare cut out\b"),
    ("tests/broker/replication/cable.py", r"\.is_cut"),
    ("offline/index_check.py", r"\bstray\b"),  # an index entry, not a peer
)
# Pages that are exempt until they are rewritten. Keep it empty.
NOT_YET: tuple[str, ...] = ()

TREES = ("pymq/**/*.py", "plugins/*/*.py", "conf/*", "docs/**/*.md", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
TESTS = ("tests/broker/replication/**/*.py",)


def files(patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file())


def retired_words(path: Path) -> Iterator[str]:
    """Yield "file:line: word" for each retired word."""
    name = path.relative_to(ROOT).as_posix()
    allowed = [re.compile(pattern) for end, pattern in ALLOWED if name.endswith(end)]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for pattern in allowed:
            line = pattern.sub("", line)
        for found in (*PROSE.finditer(line), *CAMEL.finditer(line)):
            yield f"{name}:{number}: {found[0]}"


@pytest.mark.slow
def test_no_retired_word_is_left() -> None:
    paths = [path for path in files((*TREES, *TESTS)) if path.relative_to(ROOT).as_posix() not in NOT_YET]
    assert len(paths) > 300
    found = [word for path in paths for word in retired_words(path)]
    assert not found, "docs/glossary.md has the words to use:\n" + "\n".join(found)


def test_no_page_is_exempt_that_needs_no_exemption() -> None:
    assert not [name for name in NOT_YET if not any(retired_words(ROOT / name))]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("class LineageKeeper:", "Lineage"),
        ("self._told.tell(address)", "told"),
        ("the reign begins", "reign"),
        ("REIGNS_KEPT = 256", "REIGNS"),
        ('log.info("the log is cut at %d", end)', "is cut"),
        ("confirmed_offset: int", "confirmed_offset"),
        ("for feed in self._feeds:", "feed"),
    ],
)
def test_a_retired_word_is_found(line: str, word: str) -> None:
    assert word in {found[0] for pattern in (PROSE, CAMEL) for found in pattern.finditer(line)}


@pytest.mark.parametrize("line", ["foreign", "frozenset()", "shortcut", "executed", "stretched"])
def test_words_that_only_contain_one_are_not_found(line: str) -> None:
    assert not PROSE.search(line) and not CAMEL.search(line)
