"""Compiled expressions equal a slow walk of the tree, and any text is either compiled or refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import ExpressionError
from pymq.filter import nodes
from pymq.filter.compiler import compile_condition
from pymq.filter.java_numbers import INTEGER_MAX, LONG_MAX
from pymq.filter.nodes import Kind
from pymq.filter.parser import parse
from pymq.filter.raw_properties import SEPARATOR
from pymq.filter.sql92 import compile_sql
from pymq.model.properties import encode_properties
from tests.filter.oracle import Thrown, evaluate

NAMES = st.sampled_from(["a", "b", "c", "ab", "_a"])
PLAIN = st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"])
NUMBER_TEXTS = st.one_of(
    st.integers(-(2**64), 2**64).map(str), st.floats().map(repr), st.sampled_from(["NaN", "-0.0", "5f", " 5", "0x1p3"])
)
TEXTS = st.one_of(st.text(PLAIN, max_size=5), NUMBER_TEXTS, st.sampled_from(["true", "TRUE", "x", "xy"]))
NUMBER_CONSTANTS = st.one_of(
    st.integers(0, INTEGER_MAX).map(lambda value: nodes.Constant(value, Kind.INTEGER)),
    st.integers(INTEGER_MAX + 1, LONG_MAX).map(lambda value: nodes.Constant(value, Kind.LONG)),
    st.floats(min_value=5e-324, allow_infinity=False).map(lambda value: nodes.Constant(value, Kind.DOUBLE)),
)
PROPERTIES = NAMES.map(nodes.Property)
LITERALS = st.one_of(
    NUMBER_CONSTANTS,
    TEXTS.map(lambda value: nodes.Constant(value, Kind.TEXT)),
    st.booleans().map(lambda value: nodes.Constant(value, Kind.BOOLEAN)),
)
CONSTANTS = st.one_of(LITERALS, st.just(nodes.Constant(None, Kind.NULL)))


def negated(operands: st.SearchStrategy[nodes.Node]) -> st.SearchStrategy[nodes.Node]:
    return st.one_of(operands, operands.map(nodes.Negate), operands.map(nodes.Negate).map(nodes.Negate))


def larger(conditions: st.SearchStrategy[nodes.Node]) -> st.SearchStrategy[nodes.Node]:
    """Generate conditions from smaller ones."""
    terms = st.lists(conditions, min_size=2, max_size=4).map(tuple)
    anything = negated(st.one_of(PROPERTIES, LITERALS, conditions))
    ordered = negated(st.one_of(PROPERTIES, NUMBER_CONSTANTS, conditions.map(nodes.Negate)))
    return st.one_of(
        conditions.map(nodes.Not),
        terms.map(nodes.And),
        terms.map(nodes.Or),
        st.builds(nodes.Equal, anything, anything),
        st.builds(nodes.Order, st.sampled_from(nodes.Relation), ordered, ordered),
        st.builds(nodes.IsNull, negated(st.one_of(PROPERTIES, CONSTANTS, conditions))),
        st.builds(nodes.Find, st.sampled_from(nodes.Search), anything, TEXTS, st.booleans()),
    )


SMALL = st.one_of(
    PROPERTIES.map(nodes.IsTrue),
    st.sampled_from([True, False]).map(lambda value: nodes.Constant(value, Kind.BOOLEAN)),
    st.just(nodes.Constant(None, Kind.NULL)),
    st.builds(nodes.Order, st.sampled_from(nodes.Relation), PROPERTIES, negated(NUMBER_CONSTANTS)),
    st.builds(nodes.Order, st.sampled_from(nodes.Relation), PROPERTIES, PROPERTIES),
    st.builds(nodes.Equal, PROPERTIES, negated(LITERALS)),
    st.builds(nodes.Equal, negated(LITERALS), PROPERTIES),
    st.builds(nodes.Equal, PROPERTIES, PROPERTIES),
    st.builds(nodes.In, PROPERTIES, st.frozensets(TEXTS, min_size=1, max_size=6), st.booleans()),
)
CONDITIONS = st.recursive(SMALL, larger, max_leaves=8)
MESSAGES = st.dictionaries(
    NAMES, st.one_of(st.text(PLAIN, min_size=1, max_size=5), NUMBER_TEXTS, st.sampled_from(["true", "xy"]))
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(CONDITIONS, st.lists(MESSAGES, min_size=1, max_size=5))
def test_closures_equal_the_oracle(tree: nodes.Node, messages: list[dict[str, str]]) -> None:
    test = compile_condition(tree)
    for properties in messages:
        source = SEPARATOR + encode_properties(properties)
        try:
            expected: bool | str | None = evaluate(tree, properties)
        except Thrown:
            expected = "thrown"
        try:
            answer: bool | str | None = test(source)
        except ValueError:
            answer = "thrown"
        assert answer is expected or answer == expected == "thrown"


ALL_WORDS = """a b NOT AND OR BETWEEN IN IS NULL TRUE CONTAINS STARTSWITH ( ) , = <> < <= > >= + - 5 5.5 0 1e
'x' '' ' -- /* */ # !"""
WORDS = st.sampled_from([*ALL_WORDS.split(), "\n"])


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=25).map(" ".join)))
def test_any_text_is_taken_or_refused_at_a_column(text: str) -> None:
    try:
        expression = compile_sql(text)
    except ExpressionError as error:
        assert 1 <= error.column <= len(text) + 1
        return
    tree, ignored_from = parse(text)
    assert tree.is_condition and expression.ignored_from == ignored_from
    try:
        assert expression.evaluate({"a": "5", "b": "x"}) in (True, False, None)
    except ValueError:
        assert any(isinstance(node, nodes.Order | nodes.Equal) for node in _walk(tree))


def _walk(node: nodes.Node) -> list[nodes.Node]:
    return [node, *(found for child in node.children() for found in _walk(child))]
