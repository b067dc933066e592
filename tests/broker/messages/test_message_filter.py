"""Tag expressions become the codes that Java's clients and brokers compute."""

from __future__ import annotations

import pytest

from pymq.broker.messages.message_filter import is_tag_type, tag_codes


@pytest.mark.parametrize("expression", [None, "", "  ", "*", " * "])
def test_everything(expression: str | None) -> None:
    assert tag_codes(expression) is None


@pytest.mark.parametrize("expression", ["TagA || TagB", "TagA||TagB", " TagB ||TagA || ", "||TagA||||TagB"])
def test_blanks_around_tags_do_not_count(expression: str) -> None:
    # String.hashCode() of "TagA" and "TagB".
    assert tag_codes(expression) == frozenset({2598919, 2598920})


def test_an_expression_without_a_tag_matches_nothing() -> None:
    assert tag_codes("||") == frozenset()


def test_one_bar_is_part_of_a_tag() -> None:
    codes = tag_codes("A|B")
    assert codes is not None and len(codes) == 1 and codes != tag_codes("A")


@pytest.mark.parametrize(("kind", "fits"), [(None, True), ("", True), ("TAG", True), ("SQL92", False), ("tag", False)])
def test_types(kind: str | None, fits: bool) -> None:
    assert is_tag_type(kind) is fits
