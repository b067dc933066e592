"""Subscriptions that select the same have the same text."""

from __future__ import annotations

import pytest

from pymq.model.selection import TEXT_LENGTH_MAX, selection_text


@pytest.mark.parametrize(
    ("expression_type", "expression", "text"),
    [
        ("TAG", "B||A", "A || B"),
        (None, " A || B ", "A || B"),
        ("TAG", None, "*"),
        ("TAG", "", "*"),
        ("TAG", "||", "*"),
        ("TAG", "A || *", "*"),
        ("SQL92", " a > 5 ", "SQL92: a > 5"),
    ],
)
def test_equal_selections_have_one_text(expression_type: str | None, expression: str | None, text: str) -> None:
    assert selection_text(expression_type, expression) == text


def test_long_expressions_are_cut_and_still_differ() -> None:
    texts = {selection_text("SQL92", "x" * 10_000 + end) for end in ("", "y", "z")}
    assert len(texts) == 3 and all(len(text) <= TEXT_LENGTH_MAX for text in texts)


def test_a_class_filter_is_no_tag() -> None:
    assert selection_text("TAG", "A", is_class_filter=True) == "class filter: A"
