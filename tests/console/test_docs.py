"""docs/console.md names every page and every change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from pymq.console.app import PAGES
from pymq.console.change_routes import CHANGES

LINES: Final = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8").splitlines()
NAMES: Final = {"broker": "NAME", "user": "USER"}
# Parts of pages, which no person opens by an address.
PARTS: Final = {"", "messages/events", "topics/{topic}/tail/events", "messages/{topic}/{id}/body"}


def documented(route: str) -> str:
    """Return a route as the page writes it."""
    if route.startswith("raft/"):
        route = route.replace("{broker}", "GROUP")
    return re.sub(r"\{(\w+)\}", lambda found: NAMES.get(found[1], found[1].upper()), route)


@pytest.mark.parametrize("route", sorted({*PAGES, *CHANGES} - PARTS))
def test_a_page_or_a_change_is_named(route: str) -> None:
    path = documented(route)
    above, _, last = path.rpartition("/")
    in_full = any(f"`{path}`" in line for line in LINES)
    # Changes of one subject share a row: `auth/USER/update`, `delete`.
    in_a_row = any(re.search(rf"`{re.escape(above)}/\w+`.*`{re.escape(last)}`", line) for line in LINES if above)
    assert in_full or in_a_row, path
