"""Pages of names, and the room for names in a page."""

from __future__ import annotations

import pytest

from pymq.broker.report import row_pages
from pymq.broker.report.row_pages import NAMES_AT_ONCE, Names, Page, after, page_of
from pymq.broker.work.sliced_work import Steps


def made(steps: Steps[Page]) -> tuple[Page, int]:
    """Return the page, and how often its maker rested."""
    rests = 0
    while True:
        try:
            next(steps)
            rests += 1
        except StopIteration as stop:
            return stop.value, rests


def test_pages_give_every_name_once_in_order() -> None:
    names = [f"n{number:03d}" for number in range(25)][::-1]
    found: list[str] = []
    start: str | None = None
    sizes = []
    while True:
        page, _ = made(page_of(names, after(start), 10))
        found += page.names
        sizes.append(len(page.names))
        if page.next is None:
            break
        start = page.next
    assert found == sorted(names) and sizes == [10, 10, 5]


@pytest.mark.parametrize(("count", "has_next"), [(9, False), (10, False), (11, True), (1000, True)])
def test_the_last_page_has_no_next_one(count: int, has_next: bool) -> None:
    page, _ = made(page_of([f"n{number:04d}" for number in range(count)], "", 10))
    assert len(page.names) == min(count, 10)
    assert page.next == ("n0009" if has_next else None)


def test_many_names_rest_on_the_way() -> None:
    page, rests = made(page_of(map(str, range(10 * NAMES_AT_ONCE)), "", 3))
    assert (page, rests) == (Page(["0", "1", "10"], "10"), 10)


def test_a_made_up_place_is_a_place_in_the_order_of_names() -> None:
    for place in ("b", "a\udcff", "a" * 70_000):
        assert made(page_of(["a", "c"], after(place)))[0] == Page(["c"], None)
    assert made(page_of(["a", "c"], after("\U0010ffff")))[0] == Page([], None)
    assert after(None) == after("") == ""


def test_names_fit_until_the_room_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Names(are_wanted=False).fit(["a"]) is None
    monkeypatch.setattr(row_pages, "NAMES_BYTES_MAX", 8)
    names = Names(are_wanted=True)
    assert names.fit({"b", "a"}) == ["a", "b"]
    assert names.fit(["c"]) is None, "no room is left"
    assert names.fit([]) == [], "nothing needs no room"
