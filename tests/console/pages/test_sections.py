"""Tables without pages end at a limit, and say so."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import ROWS_MAX, Column, Kind, Table, Values
from tests.console.pages.visits import FakeCluster, html_of

COLUMNS = (Column("name", "Name"), Column("size", "Size", Kind.size))


@pytest.mark.parametrize(("count", "left"), [(0, 0), (ROWS_MAX, 0), (ROWS_MAX + 1, 1)])
def test_rows_end_at_the_limit(count: int, left: int) -> None:
    table = Table("Things", COLUMNS, [{"name": "a", "size": 1}] * count, "None.")
    assert (len(table.rows), table.left_out) == (min(count, ROWS_MAX), left)


def test_the_page_says_how_many_are_left_out() -> None:
    async def things(visit: Visit) -> Page:
        records = [{"name": "a", "size": None}] * (ROWS_MAX + 1200)
        sections = [Table("Things", COLUMNS, records, "None."), Values("One", COLUMNS, {"name": "b", "size": 2048})]
        return Page("Things", "sections.html", {}, (), {"sections": sections})

    html = html_of(things, FakeCluster({})).text
    assert "1,200 more are not shown here" in html and "2.0 KiB" in html


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (Kind.text, "a<b", "a&lt;b"),
        (Kind.number, 1234567, "1,234,567"),
        (Kind.rate, 1.25, "1.2"),
        (Kind.time, 0, "never"),
        (Kind.span, 198_000, "3 min 18 s"),
        (Kind.names, ["a", "b"], "a, b"),
        (Kind.flag, True, "yes"),
        (Kind.flag, False, "no"),
        (Kind.text, None, '<span title="why">&ndash;</span>'),
        (Kind.flag, None, '<span title="why">&ndash;</span>'),
    ],
)
def test_each_kind_is_shown_in_its_way(kind: Kind, value: object, shown: str) -> None:
    async def things(visit: Visit) -> Page:
        values = Values("One", (Column("x", "X", kind, "why"),), {"x": value})
        return Page("Things", "sections.html", {}, (), {"sections": [values]})

    assert f"<dd>{shown}" in html_of(things, FakeCluster({})).text.replace("<dd>\n", "<dd>")


def test_a_link_without_a_page_is_its_text() -> None:
    async def things(visit: Visit) -> Page:
        columns = (Column("x", "X", Kind.link, path=lambda record: record["to"]),)
        records: list[dict[str, Any]] = [{"x": "here", "to": "topics/a"}, {"x": "nowhere", "to": None}]
        return Page("Things", "sections.html", {}, (), {"sections": [Table("T", columns, records, "")]})

    html = html_of(things, FakeCluster({})).text
    assert '<a href="/at/prod/topics/a">here</a>' in html and ">nowhere<" in html.replace("\n", "")
