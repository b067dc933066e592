"""Compiles a tree to closures. Each takes a source (raw_properties) and returns True, False or None.

The types of two operands decide how they compare. That is settled here once, so a call does nothing but compare. A
closure raises ValueError where RocketMQ's evaluation throws. Java: the evaluate methods of package filter.expression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import singledispatch
from typing import Any

from pymq.filter.java_numbers import order_of, to_double, to_double_below_nan, to_integer, to_long
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
    Negate,
    Node,
    Not,
    Or,
    Order,
    Property,
    Relation,
    Search,
)
from pymq.filter.raw_properties import getter

Test = Callable[[bytes], bool | None]
Value = Callable[[bytes], Any]  # bytes for a text, or int, float, bool, None
Convert = Callable[[Any], Any]

COMPARE: dict[Relation, Callable[[Any, Any], Any]] = {
    Relation.LESS: operator.lt,
    Relation.LESS_EQUAL: operator.le,
    Relation.GREATER: operator.gt,
    Relation.GREATER_EQUAL: operator.ge,
}
MIRRORED = {
    Relation.LESS: Relation.GREATER,
    Relation.LESS_EQUAL: Relation.GREATER_EQUAL,
    Relation.GREATER: Relation.LESS,
    Relation.GREATER_EQUAL: Relation.LESS_EQUAL,
}
# A text that is compared with a number is read as a number of that type, whatever its spelling.
_READ_AS: dict[Kind, Convert] = {Kind.INTEGER: to_integer, Kind.LONG: to_long, Kind.DOUBLE: to_double_below_nan}
_FIND: dict[Search, Callable[[bytes, bytes], bool]] = {
    Search.CONTAINS: operator.contains,
    Search.STARTS_WITH: bytes.startswith,
    Search.ENDS_WITH: bytes.endswith,
}


@singledispatch
def compile_condition(node: Node) -> Test:
    """Return the closure of a condition."""
    raise AssertionError(f"{node!r} is no condition")


@compile_condition.register
def _(node: Constant) -> Test:
    value = node.value
    assert value is None or isinstance(value, bool)
    return lambda source: value


@compile_condition.register
def _(node: IsTrue) -> Test:
    get = _value(node.operand)
    return lambda source: None if get(source) is None else False


@compile_condition.register
def _(node: Not) -> Test:
    test = compile_condition(node.operand)

    def negated(source: bytes) -> bool | None:
        answer = test(source)
        return None if answer is None else not answer

    return negated


@compile_condition.register
def _(node: And) -> Test:
    tests = [compile_condition(term) for term in node.terms]
    if len(tests) == 2:
        return _both(*tests)

    def every(source: bytes) -> bool | None:
        result: bool | None = True
        for test in tests:
            answer = test(source)
            if answer is False:
                return False
            if answer is None:
                result = None
        return result

    return every


def _both(left: Test, right: Test) -> Test:
    def both(source: bytes) -> bool | None:
        first = left(source)
        if first is False:
            return False
        second = right(source)
        return second if first or second is False else None

    return both


@compile_condition.register
def _(node: Or) -> Test:
    tests = [compile_condition(term) for term in node.terms]

    def some(source: bytes) -> bool | None:
        result: bool | None = False
        for test in tests:
            answer = test(source)
            if answer:
                return True
            if answer is None:
                result = None
        return result

    return some


@compile_condition.register
def _(node: IsNull) -> Test:
    get = _value(node.operand)
    return lambda source: get(source) is None


@compile_condition.register
def _(node: In) -> Test:
    get, negated = getter(node.operand.name), node.negated
    texts = frozenset(text.encode() for text in node.texts)

    def is_in(source: bytes) -> bool | None:
        value = get(source)
        return None if value is None else (value in texts) is not negated

    return is_in


@compile_condition.register
def _(node: Find) -> Test:
    text = node.text.encode()
    if not text:
        return lambda source: False
    get, find, negated = _value(node.operand), _FIND[node.search], node.negated

    def finds(source: bytes) -> bool:
        value = get(source)
        return isinstance(value, bytes) and find(value, text) is not negated

    return finds


@compile_condition.register
def _(node: Order) -> Test:
    left, right = folded(node.left), folded(node.right)
    if isinstance(left, Property) and isinstance(right, Constant):
        return _property_order(left, node.relation, right)
    if isinstance(left, Constant) and isinstance(right, Property):
        return _property_order(right, MIRRORED[node.relation], left)
    get_left, get_right, compare = _value(left), _value(right), COMPARE[node.relation]
    convert = _order_of_texts if _kind(left) is _kind(right) is Kind.TEXT else float

    def in_order(source: bytes) -> bool | None:
        one = get_left(source)
        if one is None:
            return None
        other = get_right(source)
        return None if other is None else compare(convert(one), convert(other))

    return in_order


def _property_order(operand: Property, relation: Relation, constant: Constant) -> Test:
    get, read, compare, limit = getter(operand.name), _READ_AS[constant.kind], COMPARE[relation], constant.value

    def in_order(source: bytes) -> bool | None:
        value = get(source)
        return None if value is None else compare(read(value), limit)

    return in_order


def _order_of_texts(text: bytes) -> int:
    return order_of(to_double(text))


@compile_condition.register
def _(node: Equal) -> Test:
    left, right = folded(node.left), folded(node.right)
    same = _sameness(_kind(left), _kind(right))
    if isinstance(left, Property) and isinstance(right, Constant):
        return _property_equal(left, same, right)
    get_left, get_right = _value(left), _value(right)

    def equal(source: bytes) -> bool | None:
        one, other = get_left(source), get_right(source)
        if one is None:
            return True if other is None else None
        return False if other is None else same(one, other)

    return equal


def _property_equal(operand: Property, same: Callable[[Any, Any], bool], constant: Constant) -> Test:
    get, wanted = getter(operand.name), _constant_value(constant)

    def equal(source: bytes) -> bool | None:
        value = get(source)
        return None if value is None else same(value, wanted)

    return equal


def _sameness(left: Kind, right: Kind) -> Callable[[Any, Any], bool]:
    """Return how two values that are not null compare."""
    if Kind.BOOLEAN in (left, right) and left is not right:
        if left is Kind.TEXT:
            return lambda one, other: (one.lower() == b"true") is other
        return _fail if right is Kind.TEXT else _never
    if left is Kind.TEXT and right in NUMBERS:
        read = _READ_AS[right]
        return lambda one, other: read(one) == other
    if left in NUMBERS and right is Kind.TEXT:
        read = _READ_AS[left]
        return lambda one, other: one == read(other)
    if Kind.DOUBLE in (left, right) and {left, right} <= NUMBERS:
        return lambda one, other: float(one) == float(other)
    return operator.eq


def _fail(one: Any, other: Any) -> bool:
    raise ValueError("a condition can't be compared with a text")  # Java: a ClassCastException


def _never(one: Any, other: Any) -> bool:
    return False


# -- operands --------------------------------------------------------------------------------------------------------


def _value(node: Node) -> Value:
    """Return the closure of an operand."""
    if isinstance(node, Property):
        return getter(node.name)
    if isinstance(node, Constant):
        value = _constant_value(node)
        return lambda source: value
    if isinstance(node, Negate):
        return _negated(node)
    return compile_condition(node)


def _negated(node: Negate) -> Value:
    constant = folded(node)
    if isinstance(constant, Constant):
        return _value(constant)
    get = _value(node.operand)

    def nothing(source: bytes) -> None:
        get(source)  # may raise

    return nothing


def folded(node: Node) -> Node:
    """Return a negated number as a constant, and every other node unchanged."""
    if not isinstance(node, Negate):
        return node
    operand = folded(node.operand)
    if isinstance(operand, Constant) and operand.kind in NUMBERS:
        assert isinstance(operand.value, int | float)
        return Constant(-operand.value, operand.kind)
    return node


def _constant_value(constant: Constant) -> bytes | int | float | bool | None:
    value = constant.value
    return value.encode() if isinstance(value, str) else value


def _kind(node: Node) -> Kind:
    """Return the type of a folded operand's value."""
    if isinstance(node, Constant):
        return node.kind
    if isinstance(node, Property):
        return Kind.TEXT
    return Kind.NULL if isinstance(node, Negate) else Kind.BOOLEAN
