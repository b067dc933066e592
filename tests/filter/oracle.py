"""A slow oracle that walks the tree for every message with Java's types at run time, as Java's classes do.

Written against Apache RocketMQ 5.3.3's classes and apart from pymq.filter.compiler, which settles types beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pymq.filter import nodes
from pymq.filter.java_numbers import order_of, to_double, to_integer, to_long
from pymq.filter.nodes import Kind, Relation, Search


class JavaValue(NamedTuple):
    """A value with its Java class."""

    kind: Kind
    value: str | int | float | bool


class Thrown(Exception):
    """Raised where Java's evaluation throws."""


def evaluate(node: nodes.Node, properties: Mapping[str, str]) -> bool | None:
    """Return the condition's answer. Raises Thrown."""
    result = _evaluate(node, properties)
    assert result is None or result.kind is Kind.BOOLEAN
    return None if result is None else bool(result.value)


def _evaluate(node: nodes.Node, properties: Mapping[str, str]) -> JavaValue | None:
    def below(child: nodes.Node) -> JavaValue | None:
        return _evaluate(child, properties)

    match node:
        case nodes.Constant(value, kind):
            return None if value is None else JavaValue(kind, value)
        case nodes.Property(name):
            return JavaValue(Kind.TEXT, properties[name]) if name in properties else None
        case nodes.Negate(operand):
            return _negated(below(operand))
        case nodes.IsTrue(operand):
            found = below(operand)
            return None if found is None else _boolean(found == JavaValue(Kind.BOOLEAN, True))
        case nodes.Not(operand):
            found = below(operand)
            return None if found is None else _boolean(not found.value)
        case nodes.And(terms):
            return _pairwise([*terms], below, stops_at=False)
        case nodes.Or(terms):
            return _pairwise([*terms], below, stops_at=True)
        case nodes.Order(relation, left, right):
            return _ordered(relation, below(left), lambda: below(right))
        case nodes.Equal(left, right):
            return _equal(below(left), below(right))
        case nodes.IsNull(operand):
            return _equal(below(operand), None)
        case nodes.In(operand, texts, negated):
            found = below(operand)
            return None if found is None else _boolean((found.value in texts) != negated)
        case nodes.Find(search, operand, text, negated):
            return _boolean(text != "" and _found(search, below(operand), text, negated))
    raise AssertionError(node)


def _boolean(value: bool) -> JavaValue:
    return JavaValue(Kind.BOOLEAN, value)


def _negated(value: JavaValue | None) -> JavaValue | None:
    if value is None or value.kind in (Kind.TEXT, Kind.BOOLEAN):
        return None
    return JavaValue(value.kind, -value.value)  # type: ignore[operator]


def _pairwise(terms: Any, below: Any, *, stops_at: bool) -> JavaValue | None:
    """Evaluate two at a time from the left, as Java walks its tree of pairs."""
    *first, last = terms
    left = below(last) if not first else _pairwise(first, below, stops_at=stops_at)
    if not first or (left is not None and left.value is stops_at):
        return left
    right = below(last)
    if right is not None and right.value is stops_at:
        return right
    return None if left is None or right is None else _boolean(not stops_at)


def _ordered(relation: Relation, left: JavaValue | None, get_right: Any) -> JavaValue | None:
    if left is None:
        return None
    right = get_right()
    if right is None:
        return None
    if left.kind is right.kind is Kind.TEXT:
        answer = _sign(order_of(_read(Kind.DOUBLE, left.value)), order_of(_read(Kind.DOUBLE, right.value)))
    else:
        answer = _compared(left, right)
    return _boolean(
        {
            Relation.LESS: answer < 0,
            Relation.LESS_EQUAL: answer <= 0,
            Relation.GREATER: answer > 0,
            Relation.GREATER_EQUAL: answer >= 0,
        }[relation]
    )


def _equal(left: JavaValue | None, right: JavaValue | None) -> JavaValue | None:
    if left is None or right is None:
        if left is right:
            return _boolean(True)
        return None if left is None else _boolean(False)
    return _boolean(left == right or _compared(left, right) == 0)


def _compared(left: JavaValue, right: JavaValue) -> int:
    """Return Java's compareTo after its conversions; -1 for types that cannot be compared."""
    if left.kind is not right.kind:
        if left.kind is Kind.BOOLEAN:
            if right.kind is Kind.TEXT:
                raise Thrown("ClassCastException")
            return -1
        if left.kind is Kind.TEXT:
            left = JavaValue(right.kind, _read(right.kind, left.value))
        elif right.kind is Kind.TEXT:
            right = JavaValue(left.kind, _read(left.kind, right.value))
        elif right.kind is Kind.BOOLEAN:
            return -1
        elif Kind.DOUBLE in (left.kind, right.kind):
            left, right = (JavaValue(Kind.DOUBLE, float(side.value)) for side in (left, right))
    if isinstance(left.value, float) and isinstance(right.value, float):
        return _sign(order_of(left.value), order_of(right.value))
    return _sign(left.value, right.value)


def _sign(left: Any, right: Any) -> int:
    return (left > right) - (left < right)


def _read(kind: Kind, text: Any) -> bool | int | float:
    if kind is Kind.BOOLEAN:
        return text.lower() == "true"
    reader = {Kind.INTEGER: to_integer, Kind.LONG: to_long, Kind.DOUBLE: to_double}[kind]
    try:
        return reader(text.encode())
    except ValueError as error:
        raise Thrown("NumberFormatException") from error


def _found(search: Search, value: JavaValue | None, text: str, negated: bool) -> bool:
    if value is None or value.kind is not Kind.TEXT:
        return False
    found = {
        Search.CONTAINS: lambda whole: text in whole,
        Search.STARTS_WITH: lambda whole: whole.startswith(text),
        Search.ENDS_WITH: lambda whole: whole.endswith(text),
    }[search](value.value)
    return found != negated
