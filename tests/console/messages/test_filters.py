"""Filters of an address: made into a selection, counted where a body can't be read, and written as options."""

from __future__ import annotations

import pytest

from pymq.console.messages.filters import (
    EXPRESSION_LENGTH_MAX,
    FIELDS,
    SEARCHED_BODY_BYTES_MAX,
    SEARCHED_JSON_BYTES_MAX,
    Filters,
    time_of,
)
from pymq.console.pages.page import NotShown
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.model.compression import compress_body
from tests.console.messages.world import stored


def filters(**fields: str) -> Filters:
    return Filters.of(Parameters(fields.items()), shows_bodies=True)


def test_the_options_say_the_same_as_far_as_the_command_has_them() -> None:
    given = filters(tag="a", text="x.y", json="id = 3", property="p", filter=" ")
    assert given.options() == ["--tag", "a", "--where", "id = 3", "--grep", r"x\.y"]
    assert given.given == {"tag": "a", "text": "x.y", "json": "id = 3", "property": "p"}
    assert Filters.none().options() == [] and Filters.none().selection()[0].is_everything


def test_each_field_has_its_length() -> None:
    assert filters(text="x" * EXPRESSION_LENGTH_MAX).given
    for name in FIELDS:
        with pytest.raises(BadRequest, match=name):
            filters(**{name: "x" * (EXPRESSION_LENGTH_MAX + 1)})


def test_bodies_beyond_a_size_are_counted_and_match_nothing() -> None:
    body, flag = compress_body(b"x" * (SEARCHED_BODY_BYTES_MAX + 1))
    selection, bodies = filters(text="x").selection()
    found = [selection.matches(one) for one in (stored(0, b"x"), stored(1, body, sys_flag=flag))]
    assert (found, bodies.unread_count) == ([True, False], 1)
    large = b'{"id": "' + b"x" * SEARCHED_JSON_BYTES_MAX + b'"}'
    selection, bodies = filters(json="id").selection()
    found = [selection.matches(one) for one in (stored(0, b'{"id": 1}'), stored(1, large))]
    assert (found, bodies.unread_count) == ([True, False], 1)


@pytest.mark.parametrize("name", FIELDS)
def test_without_bodies_no_field_finds_contents_out(name: str) -> None:
    with pytest.raises(NotShown, match=name):
        Filters.of(Parameters([(name, "x")]), shows_bodies=False)
    assert Filters.of(Parameters([(name, " ")]), shows_bodies=False) == Filters.none()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("-1s", 4000),
        ("now", 5000),
        ("1970-01-01T00:00:02", 2000),
        ("1970-01-01T02:00:02+02:00", 2000),
        (" 7000 ", 7_000_000),
    ],
)
def test_a_time_is_a_span_or_a_date_in_utc(text: str, expected: int | None) -> None:
    assert time_of(Parameters([("from", text)]), "from", 5000) == expected


@pytest.mark.parametrize("text", ["yesterday", "-1x", "9" * 65, "2026-13-01"])
def test_another_text_is_no_time(text: str) -> None:
    with pytest.raises(BadRequest, match="from"):
        time_of(Parameters([("from", text)]), "from", 5000)
