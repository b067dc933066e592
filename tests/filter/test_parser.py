"""Errors name the column and the expected token; a text over a limit is refused at once."""

import pytest

from pymq.errors import ExpressionError
from pymq.filter.nodes import And, Constant, Equal, IsTrue, Kind, Not, Or, Order, Property, Relation
from pymq.filter.parser import EXPRESSION_LENGTH_MAX, TOKEN_COUNT_MAX, parse
from pymq.filter.tree import IN_COUNT_MAX, NESTING_DEPTH_MAX

A, B, FIVE = Property("a"), Property("b"), Constant(5, Kind.INTEGER)


def refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 5", Equal(A, FIVE)),
        ("NOT a = 5", Equal(Not(IsTrue(A)), FIVE)),
        ("a > 5 = TRUE", Equal(Order(Relation.GREATER, A, FIVE), Constant(True, Kind.BOOLEAN))),
        ("a OR b AND a", Or((IsTrue(A), And((IsTrue(B), IsTrue(A)))))),
        ("(a OR b) AND a", And((Or((IsTrue(A), IsTrue(B))), IsTrue(A)))),
        ("a AND b AND a", And((IsTrue(A), IsTrue(B), IsTrue(A)))),
        ("a = 'it''s'", Equal(A, Constant("it's", Kind.TEXT))),
        ("a = 2147483648", Equal(A, Constant(2147483648, Kind.LONG))),
        ("a = 5L", Equal(A, FIVE)),
        ("a /* c */ = --c\n 5", Equal(A, FIVE)),
    ],
)
def test_precedence_and_literals(text: str, tree: object) -> None:
    assert parse(text).tree == tree


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "expected"),
        ("a >", 4, "a name"),
        ("a > )", 5, "found )"),
        ("a IS b", 6, "NOT or NULL"),
        ("a != 5", 3, "<>"),
        ("b = 1 AND a = 'x", 15, "closing quote"),
        ("a = 5 /* c", 7, "comment"),
        ("(a = 5", 7, "expected )"),
        ("a = 5 AND 5", 7, "neither true nor false"),
        ("5", 1, "neither true nor false"),
        ("a > 'x'", 3, "numbers"),
        ("a = NULL", 3, "IS NULL"),
        ("TRUE = 5", 6, "can't be compared"),
        ("a BETWEEN 5 AND 1", 3, "lower number first"),
        ("-a IN ('x')", 4, "property's name"),
        ("a IN (5)", 7, "'text'"),
        ("a = 9223372036854775808", 5, "over 9223372036854775807"),
        ("a = 0.0", 5, "write 0 as 0"),
        ("a = 1e400", 5, "range of a double"),
        ("a = '\ud800'", 6, "surrogate"),
    ],
)
def test_errors_name_the_column(text: str, column: int, words: str) -> None:
    error = refusal(text)
    assert error.column == column and words in str(error)
    assert str(error).startswith(f"column {column}: ")


@pytest.mark.parametrize(
    ("text", "column"), [("a = 5", None), ("a = 5 b = 6", 7), ("a = 5 -3", 7), ("a = 5)", 6), ("a like 'x'", 3)]
)
def test_ignored_text_behind_an_expression_is_reported(text: str, column: int | None) -> None:
    assert parse(text).ignored_from == column


def test_length() -> None:
    longest = "a = '" + "x" * (EXPRESSION_LENGTH_MAX - 6) + "'"
    assert len(longest) == EXPRESSION_LENGTH_MAX and parse(longest).tree
    assert f"the limit is {EXPRESSION_LENGTH_MAX}" in str(refusal(longest + " "))


def test_word_count() -> None:
    most = "a AND " * (TOKEN_COUNT_MAX // 2 - 1) + "+a"
    assert isinstance(parse(most).tree, And)
    error = refusal(most + " AND a")
    assert error.column == len(most) + 2 and str(TOKEN_COUNT_MAX) in str(error)


def test_nesting() -> None:
    assert parse("NOT " * (NESTING_DEPTH_MAX - 2) + "a").tree.depth == NESTING_DEPTH_MAX
    error = refusal("NOT " * (NESTING_DEPTH_MAX - 1) + "a")
    assert error.column == 1 and f"deeper than {NESTING_DEPTH_MAX}" in str(error)


@pytest.mark.parametrize("prefix", ["(", "+", "- ", "NOT "])
def test_prefixes_in_a_row(prefix: str) -> None:
    error = refusal(prefix * (NESTING_DEPTH_MAX + 1) + "a")
    assert error.column == len(prefix) * NESTING_DEPTH_MAX + 1 and "in a row" in str(error)


def test_most_parentheses() -> None:
    assert parse("(" * NESTING_DEPTH_MAX + "a" + ")" * NESTING_DEPTH_MAX).tree == IsTrue(A)


def test_a_long_chain_is_not_deep() -> None:
    assert parse(" AND ".join(["a = 5"] * 500)).tree.depth == 3


def test_in_list() -> None:
    texts = ", ".join(f"'{number}'" for number in range(IN_COUNT_MAX))
    assert parse(f"a IN ({texts})").tree
    error = refusal(f"a IN ({texts}, 'more')")
    assert error.column == 3 and f"the limit is {IN_COUNT_MAX}" in str(error)


@pytest.mark.parametrize(
    "part", ["(", "-", "NOT ", "/*", "'", "a AND ", "a = ", "1", "1.", "--", "''", "a BETWEEN 1 AND "]
)
def test_hostile_texts_are_refused(part: str) -> None:
    refusal(part * (EXPRESSION_LENGTH_MAX // len(part)) + "#")


def test_letters_that_fold_to_ascii_are_refused() -> None:
    for text in ("a ıs null", "a ın ('x')", "ſ = 5"):
        assert "unexpected character" in str(refusal(text))
