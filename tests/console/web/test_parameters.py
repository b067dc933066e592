"""Parameters have types and bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pymq.console.web.parameters import TEXT_LENGTH_MAX, BadRequest, Parameters

Read = Callable[[Parameters], object]


def fields(**values: str) -> Parameters:
    return Parameters(values.items())


def test_fields_are_read_with_their_types() -> None:
    found = fields(name="orders", page="-3", kind="fifo", on="on", off="0")
    assert found.text("name") == "orders"
    assert found.number("page", minimum=-3, maximum=5) == -3
    assert found.choice("kind", None, ("normal", "fifo")) == "fifo"
    assert found.flag("on") and not found.flag("off") and not found.flag("absent")
    assert found.text("absent", "x") == "x"
    assert found.number("absent", 7, minimum=1, maximum=9) == 7
    assert Parameters([("q", "0"), ("q", "2")]).all("q", count_max=2) == ["0", "2"]


@pytest.mark.parametrize(
    ("values", "read", "problem"),
    [
        ([], lambda found: found.text("name"), "name: it is missing"),
        ([("name", "a"), ("name", "a")], lambda found: found.text("name"), "name: given 2 times"),
        ([("name", "a\0b")], lambda found: found.text("name"), "name: it has a NUL"),
        ([("name", "x" * (TEXT_LENGTH_MAX + 1))], lambda found: found.text("name"), "4,097 characters: at most 4,096"),
        ([("page", "1.5")], lambda found: found.number("page", minimum=1, maximum=9), "'1.5' is not a whole number"),
        ([("page", "١")], lambda found: found.number("page", minimum=1, maximum=9), "is not a whole number"),
        ([("page", "")], lambda found: found.number("page", minimum=1, maximum=9), "is not a whole number"),
        ([("page", str(2**63))], lambda found: found.number("page", minimum=1, maximum=9), "is not between 1 and 9"),
        ([("page", "9" * 5000)], lambda found: found.number("page", minimum=1, maximum=9), "5,000 characters"),
        ([("page", "0")], lambda found: found.number("page", minimum=1, maximum=9), "0 is not between 1 and 9"),
        ([("page", "10")], lambda found: found.number("page", minimum=1, maximum=9), "10 is not between 1 and 9"),
        ([("kind", "\x1b[31m")], lambda found: found.choice("kind", None, ("a",)), r"is not one of a"),
        ([("yes", "true")], lambda found: found.flag("yes"), "'true' is not one of"),
        ([("q", "1")] * 3, lambda found: found.all("q", count_max=2), "q: given 3 times: at most 2"),
    ],
)
def test_a_wrong_field_is_named(values: list[tuple[str, str]], read: Read, problem: str) -> None:
    with pytest.raises(BadRequest) as raised:
        read(Parameters(values))
    assert problem in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert raised.value.status == 400


@pytest.mark.parametrize("number", [1, 9])
def test_bounds_are_included(number: int) -> None:
    assert fields(page=str(number)).number("page", minimum=1, maximum=9) == number


def test_the_longest_text_is_taken() -> None:
    assert len(fields(name="x" * TEXT_LENGTH_MAX).text("name")) == TEXT_LENGTH_MAX
