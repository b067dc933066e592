"""Finds the few records of many that an expression may hold for, with numpy instead of interpreter work per record.

The prefilter evaluates a condition for all records at once: for which may it be true, and for which may it be false?
Where it can't decide, both may be. It drops the records for which the expression can't be true. The caller evaluates
the others one by one, so the result is always that of :mod:`pymq.filter.compiler`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.filter.bulk_numbers import LONG_DIGITS_MAX, Numbers, read_decimals, read_integers
from pymq.filter.bulk_properties import Bools, Int64s, PropertyTable
from pymq.filter.compiler import COMPARE, MIRRORED, folded
from pymq.filter.nodes import (
    NUMBERS,
    And,
    Constant,
    Equal,
    Find,
    In,
    IsNull,
    IsTrue,
    Kind,
    Node,
    Not,
    Or,
    Order,
    Property,
    Search,
)
from pymq.filter.raw_properties import SEPARATOR

RECORD_COUNT_MAX = 2048
RECORD_COUNT_MIN = 64
# Each property of an expression costs up to a millisecond for RECORD_COUNT_MAX records, and nothing ends it early.
LEAF_COUNT_MAX = 64
FEW_SHARE = 1 / 64  # with so few records left, skip the other conditions: the caller evaluates each record
USELESS_SHARE = 0.5  # a prefilter that keeps more than this saves nothing
REST_COUNT = 200  # number of reads without a prefilter after that
_PREFILTER_CACHE_COUNT = 4096


class Answers(NamedTuple):
    """What a condition may be for each record. Both False: surely unknown."""

    may_be_true: Bools
    may_be_false: Bools


Condition = Callable[[PropertyTable], Answers]
# Tests the values that begin at these places of the table: which are true, and for which that is sure.
ValueTest = Callable[[PropertyTable, Int64s], tuple[Bools, Bools]]


def make_prefilter(tree: Node) -> Prefilter | None:
    """Return the prefilter of an expression; None when its conditions must be evaluated record by record."""
    if tree.leaf_count > LEAF_COUNT_MAX:
        return None
    condition = _condition(tree)
    return None if condition is None else Prefilter(condition)


class Prefilter:
    """Takes records back to back and their edges; returns the indexes of those that the expression may hold for."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._looked_count = self._kept_count = self._rest_count = 0

    def __call__(self, records: bytes | bytearray, edges: Int64s) -> list[int]:
        kept: list[int] = np.flatnonzero(self._condition(PropertyTable(records, edges)).may_be_true).tolist()
        if self._looked_count >= _PREFILTER_CACHE_COUNT:
            self._looked_count //= 2
            self._kept_count //= 2
        self._looked_count += len(edges) - 1
        self._kept_count += len(kept)
        return kept

    def count(self, wanted: int) -> int:
        """Return how many records a read for ``wanted`` matches should pass, going by the share that was dropped
        lately.

        0 means none: where most records match, evaluating them one by one is faster.
        """
        if self._rest_count:
            self._rest_count -= 1
            return 0
        if self._looked_count < RECORD_COUNT_MIN:
            return RECORD_COUNT_MIN
        if self._kept_count > self._looked_count * USELESS_SHARE:
            self._looked_count = self._kept_count = 0
            self._rest_count = REST_COUNT
            return 0
        enough = wanted * self._looked_count // max(1, self._kept_count)
        return min(max(RECORD_COUNT_MIN, enough), RECORD_COUNT_MAX)


@singledispatch
def _condition(node: Node) -> Condition | None:
    """Return the condition over all records; None for a node that the prefilter can't decide."""
    return None


@_condition.register
def _(node: Constant) -> Condition:
    return lambda table: Answers(_filled(table, node.value is True), _filled(table, node.value is False))


@_condition.register
def _(node: IsTrue) -> Condition | None:
    if not isinstance(node.operand, Property):
        return None
    return _of_values(node.operand, lambda table, starts: (_nothing(starts), ~_nothing(starts)))


@_condition.register
def _(node: Not) -> Condition | None:
    condition = _condition(node.operand)
    if condition is None:
        return None

    def negated(table: PropertyTable) -> Answers:
        may_be_true, may_be_false = condition(table)
        return Answers(may_be_false, may_be_true)

    return negated


@_condition.register
def _(node: And) -> Condition | None:
    conditions, is_complete = _known(node.terms)
    if not conditions:
        return None

    def every(table: PropertyTable) -> Answers:
        may_be_true, may_be_false = conditions[0](table)
        for condition in conditions[1:]:
            if np.count_nonzero(may_be_true) <= len(table) * FEW_SHARE:
                return Answers(may_be_true, _filled(table, True))
            answers = condition(table)
            may_be_true, may_be_false = may_be_true & answers.may_be_true, may_be_false | answers.may_be_false
        return Answers(may_be_true, may_be_false if is_complete else _filled(table, True))

    return every


@_condition.register
def _(node: Or) -> Condition | None:
    conditions, is_complete = _known(node.terms)
    if not conditions:
        return None

    def some(table: PropertyTable) -> Answers:
        may_be_true, may_be_false = conditions[0](table)
        for condition in conditions[1:]:
            answers = condition(table)
            may_be_true, may_be_false = may_be_true | answers.may_be_true, may_be_false & answers.may_be_false
        return Answers(may_be_true if is_complete else _filled(table, True), may_be_false)

    return some


def _known(terms: Sequence[Node]) -> tuple[list[Condition], bool]:
    """Return the conditions of the decidable terms, the cheapest first, and whether these are all terms."""
    known = [condition for term in sorted(terms, key=_is_slow) if (condition := _condition(term)) is not None]
    return known, len(known) == len(terms)


def _is_slow(node: Node) -> bool:
    """True when the node extracts values one by one."""
    return isinstance(node, In | Find) or any(map(_is_slow, node.children()))


@_condition.register
def _(node: IsNull) -> Condition | None:
    if not isinstance(node.operand, Property):
        return None
    name = node.operand.name

    def is_null(table: PropertyTable) -> Answers:
        column = table.column(name)
        return Answers(~column.is_found | ~column.is_sure, column.is_found | ~column.is_sure)

    return is_null


@_condition.register
def _(node: In) -> Condition:
    texts, negated = frozenset(text.encode() for text in node.texts), node.negated
    return _of_values(node.operand, _each(lambda value: (value in texts) is not negated))


@_condition.register
def _(node: Find) -> Condition | None:
    text, negated = node.text.encode(), node.negated
    if not isinstance(node.operand, Property) or not text:
        return None
    if node.search is Search.CONTAINS:
        test = _each(lambda value: (text in value) is not negated)
    elif node.search is Search.STARTS_WITH:
        test = _each(lambda value: value.startswith(text) is not negated)
    else:
        test = _each(lambda value: value.endswith(text) is not negated)
    return _of_values(node.operand, test, when_missing=False)


@_condition.register
def _(node: Order) -> Condition | None:
    left, right = folded(node.left), folded(node.right)
    if isinstance(left, Property) and isinstance(right, Constant):
        return _of_values(left, _number_test(COMPARE[node.relation], right))
    if isinstance(left, Constant) and isinstance(right, Property):
        return _of_values(right, _number_test(COMPARE[MIRRORED[node.relation]], left))
    return None


@_condition.register
def _(node: Equal) -> Condition | None:
    left, right = folded(node.left), folded(node.right)
    if isinstance(left, Property) and isinstance(right, Constant):
        operand, constant, when_missing = left, right, None
    elif isinstance(left, Constant) and isinstance(right, Property):
        operand, constant, when_missing = right, left, False
    else:
        return None
    if constant.kind in NUMBERS:
        return _of_values(operand, _number_test(operator.eq, constant), when_missing)
    if constant.kind is Kind.TEXT:
        return _text_equal(operand, str(constant.value).encode(), when_missing)
    if constant.kind is Kind.BOOLEAN and operand is left:
        return _of_values(operand, _each(lambda value: (value.lower() == b"true") is constant.value))
    return None


def _of_values(operand: Property, test: ValueTest, when_missing: bool | None = None) -> Condition:
    """Return a condition on one property's values; it is ``when_missing`` for a record without the property."""
    name = operand.name

    def condition(table: PropertyTable) -> Answers:
        column = table.column(name)
        may_be_true, may_be_false = _nothing(column.starts), _filled(table, when_missing is False)
        places = np.flatnonzero(column.is_found)
        is_true, is_sure = test(table, column.starts[places])
        may_be_true[places] = is_true | ~is_sure
        may_be_false[places] = ~is_true | ~is_sure
        return Answers(may_be_true | ~column.is_sure, may_be_false | ~column.is_sure)

    return condition


def _number_test(compare: Callable[[Any, Any], Any], constant: Constant) -> ValueTest:
    limit = constant.value

    def test(table: PropertyTable, starts: Int64s) -> tuple[Bools, Bools]:
        numbers = _read(table, starts, constant.kind)
        return compare(numbers.values, limit), numbers.is_sure

    return test


def _read(table: PropertyTable, starts: Int64s, kind: Kind) -> Numbers:
    """Read the values as numbers of the constant's type."""
    if kind is Kind.DOUBLE:
        return read_decimals(table, starts)
    return read_integers(table, starts, LONG_DIGITS_MAX) if kind is Kind.LONG else read_integers(table, starts)


def _text_equal(operand: Property, text: bytes, when_missing: bool | None) -> Condition | None:
    if SEPARATOR in text:
        return None  # no value contains one, but a value and what follows it could seem to match
    wanted = text + SEPARATOR
    return _of_values(
        operand, lambda table, starts: (table.begins_with(starts, wanted), ~_nothing(starts)), when_missing
    )


def _each(is_true: Callable[[bytes], bool]) -> ValueTest:
    """Return a test that extracts values one by one: slower than the others, faster than evaluating the records."""

    def test(table: PropertyTable, starts: Int64s) -> tuple[Bools, Bools]:
        answers = np.fromiter(map(is_true, table.texts(starts)), np.bool_, len(starts))
        return answers, ~_nothing(starts)

    return test


def _nothing(starts: NDArray[Any]) -> Bools:
    return np.zeros(len(starts), np.bool_)


def _filled(table: PropertyTable, value: bool) -> Bools:
    return np.full(len(table), value)
