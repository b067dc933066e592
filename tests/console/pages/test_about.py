"""About: the limits are those that hold."""

from __future__ import annotations

import platform

import pytest

from pymq import __version__
from pymq.console.asking.cluster import AT_ONCE
from pymq.console.memory import MemoryBudget
from pymq.console.pages.about import LIMITS, About
from pymq.console.people.sessions import SESSION_COUNT_MAX
from tests.console.pages.visits import FakeCluster, html_of, page_of


def test_the_page_says_version_limits_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.7")  # the golden page's
    counts = {"sessions": 3}
    about = About(["prod"], MemoryBudget(), lambda: counts)
    page = page_of(about.page, FakeCluster({}))
    assert page.data["version"] == __version__ and page.data["counts"] == [{"name": "sessions", "value": 3}]
    counts["sessions"] = 4
    assert page_of(about.page, FakeCluster({})).data["counts"][0]["value"] == 4
    assert "go to the search field" in html_of(about.page, FakeCluster({})).text


def test_limits_are_the_constants() -> None:
    assert LIMITS["sessions"] == SESSION_COUNT_MAX and LIMITS["questions of one person at once"] == AT_ONCE
