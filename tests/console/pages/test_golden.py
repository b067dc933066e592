"""Every kept page belongs to a test."""

from __future__ import annotations

from tests.console.pages.conftest import DIRECTORY


def test_no_kept_page_is_left_over() -> None:
    kept = sorted(DIRECTORY.glob("*.html"))
    assert len(kept) > 50
    for file in kept:
        module, _, test = file.stem.partition(".")
        source = (DIRECTORY.parent / f"{module}.py").read_text(encoding="utf-8")
        assert f"def {test.partition('-')[0]}(" in source, f"{file.name} is of no test"
