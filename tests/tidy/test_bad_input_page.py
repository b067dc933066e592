"""docs/bad-input.md names, for each input and each bound, tests that exist."""

from __future__ import annotations

import re

from tests.tidy.sources import ROOT

PAGE = (ROOT / "docs" / "bad-input.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(test_\w+)`")
DEFINITION = re.compile(r"^def (test_\w+)\(", re.MULTILINE)


def test_each_row_and_each_bound_names_tests_that_exist() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = {name for source in sources for name in DEFINITION.findall(source)}
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.endswith("| Tests |")]
    assert len(rows) > 40
    for row in rows:
        assert TEST.search(row.rsplit("|", 2)[1]), row
    assert set(TEST.findall(PAGE)) <= defined, set(TEST.findall(PAGE)) - defined
