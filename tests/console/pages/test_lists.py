"""Lists are searched, sorted and cut."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.console.pages.lists import ROWS_OF_PAGE, ROWS_OF_PAGE_MAX, Cut, Row, cut
from pymq.console.web.parameters import BadRequest, Parameters

SORTS = {"name": "topic", "stored": "stored"}


def rows(*figures: tuple[str, int | None]) -> list[Row]:
    return [{"topic": name, "stored": stored} for name, stored in figures]


def shown(table: list[Row], keep: Any = lambda row: True, **parameters: str) -> Cut:
    return cut(table, Parameters(parameters.items()), "topic", SORTS, keep=keep)


def names(found: Cut) -> list[str]:
    return [row["topic"] for row in found.rows]


def test_rows_are_in_the_order_of_a_column_and_unknown_figures_come_last() -> None:
    table = rows(("b", 5), ("a", 5), ("d", None), ("c", 70), ("e", 0))
    assert names(shown(table)) == ["a", "b", "c", "d", "e"]
    assert names(shown(table, order="down")) == ["e", "d", "c", "b", "a"]
    assert names(shown(table, sort="stored")) == ["e", "a", "b", "c", "d"]
    assert names(shown(table, sort="stored", order="down")) == ["c", "a", "b", "e", "d"]


def test_a_search_finds_a_part_of_a_name_in_any_case() -> None:
    table = rows(("Orders", 1), ("reorder", 1), ("payments", 1))
    found = shown(table, q="ORDER")
    assert (names(found), found.total, found.search) == (["Orders", "reorder"], 2, "ORDER")
    assert names(shown(table, lambda row: row["topic"] != "reorder", q="order")) == ["Orders"]


def test_a_page_is_cut_and_the_last_one_is_the_last() -> None:
    table = rows(*((f"topic-{number:03}", number) for number in range(120)))
    first, last = shown(table), shown(table, page="3")
    assert (first.first, first.last, first.total, first.page_count) == (1, ROWS_OF_PAGE, 120, 3)
    assert (last.first, last.last, len(last.rows)) == (101, 120, 20)
    assert shown(table, page="900").number == 3
    assert len(shown(table, rows=str(ROWS_OF_PAGE_MAX)).rows) == ROWS_OF_PAGE_MAX


def test_a_list_without_rows_has_one_page() -> None:
    found = shown([], page="5")
    assert (found.first, found.last, found.total, found.number, found.page_count) == (0, 0, 0, 1, 1)


@pytest.mark.parametrize(
    "wrong",
    [{"sort": "secret"}, {"order": "sideways"}, {"page": "0"}, {"rows": str(ROWS_OF_PAGE_MAX + 1)}, {"q": "x" * 256}],
)
def test_wrong_parameters_are_named(wrong: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match=f"^{next(iter(wrong))}: "):
        shown(rows(("a", 1)), **wrong)


def test_without_sorts_rows_keep_their_order() -> None:
    table = rows(("b", 5), ("a", None), ("c", 1))
    assert names(cut(table, Parameters([("sort", "stored")]), "topic", {})) == ["b", "a", "c"]


def test_a_named_list_has_parameters_of_its_own() -> None:
    table = rows(*((f"topic-{number:03}", number) for number in range(120)))
    given = Parameters(
        [("page", "2"), ("q", "none"), ("queues-page", "3"), ("queues-q", "topic"), ("queues-rows", "10")]
    )
    found = cut(table, given, "topic", {}, name="queues")
    assert (found.number, found.first, found.search) == (3, 21, "topic")
    assert found.at_page(4) == {"queues-page": 4} and found.parameter("sort") == "queues-sort"
    with pytest.raises(BadRequest, match=r"^queues-page: "):
        cut(table, Parameters([("queues-page", "x")]), "topic", {}, name="queues")


def test_a_search_finds_rows_without_a_text() -> None:
    table: list[Row] = [{"topic": None, "stored": 1}, {"topic": 17, "stored": 2}]
    assert shown(table).total == 2 and [row["topic"] for row in shown(table, q="7").rows] == [17]
