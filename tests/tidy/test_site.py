"""The documentation site (mkdocs.yml) has every page once in its navigation, and its build fails at a warning."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAV = re.findall(r"^ +- [^:\n]+: (\S+\.md)$", SETTINGS.partition("\nnav:\n")[2], re.MULTILINE)


def outside() -> dict[str, str]:
    """Return source outside docs/ -> its page, as docs/site_pages.py lists them."""
    text = (ROOT / "docs" / "site_pages.py").read_text(encoding="utf-8")
    table = text.partition("OUTSIDE = {")[2].partition("}")[0]
    return dict(re.findall(r'"(\S+)": "(\S+)"', table))


def test_every_page_is_in_the_navigation_once() -> None:
    inside = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert len(inside) > 40 and len(outside()) > 4
    assert sorted(NAV) == sorted([*inside, *outside().values()])


def test_a_broken_link_and_an_omitted_page_are_warnings_that_fail_the_build() -> None:
    for check in ("omitted_files", "not_found", "anchors", "unrecognized_links"):
        assert set(re.findall(rf"^ +{check}: (\w+)$", SETTINGS, re.MULTILINE)) == {"warn"}
    builds = re.findall(r"mkdocs build.*", (ROOT / "scripts" / "docs").read_text(encoding="utf-8"))
    assert builds == ["mkdocs build --strict"], "--quiet would hide the warnings from --strict"


@pytest.mark.skipif(not importlib.util.find_spec("material"), reason="needs pymq-toolkit[docs]")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_the_build_fails_at_a_broken_link_and_at_a_page_outside_the_navigation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Home\n\n[gone](gone.md), [no anchor](#nowhere)\n")
    (docs / "left_out.md").write_text("# Left out\n")
    validation = "validation:\n" + SETTINGS.partition("\nvalidation:\n")[2].partition("\n# By kind")[0]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\n{validation}\nnav:\n  - Home: index.md\n")
    with pytest.raises(Abort):
        build(load_config(str(tmp_path / "mkdocs.yml"), strict=True))
    for found in ("gone.md", "#nowhere", "left_out.md"):
        assert found in caplog.text
