"""Builds nodes from what the grammar recognizes, with RocketMQ's checks of which node may stand where.

Each method has the name of its rule or alias in ``sql92.lark`` and gets the rule's tokens and child nodes.
Java: the create methods of ComparisonExpression, LogicExpression, UnaryExpression and ConstantExpression.
"""

from __future__ import annotations

import math

from lark import Token, Transformer, v_args

from pymq.errors import ExpressionError
from pymq.filter.java_numbers import INTEGER_MAX, LONG_MAX
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

NESTING_DEPTH_MAX = 100
IN_COUNT_MAX = 1000

_INTEGER_DIGITS_MAX = 19


def column_of(token: Token) -> int:
    """Return where a token begins, counted in characters from 1."""
    return (token.start_pos or 0) + 1


@v_args(inline=True)
class TreeBuilder(Transformer):  # type: ignore[type-arg]
    """Builds the tree without keeping state between calls. Methods raise ExpressionError."""

    def start(self, node: Node) -> Node:
        return _condition(node, 1)

    def or_expression(self, first: Node, *rest: Node | Token) -> Node:
        return _joined(Or, first, rest)

    def and_expression(self, first: Node, *rest: Node | Token) -> Node:
        return _joined(And, first, rest)

    # -- = <> IS --------------------------------------------------------------------------------------------------

    def equality(self, left: Node, operator: Token, right: Node) -> Node:
        for node in (left, right):
            if isinstance(node, Constant) and node.kind is Kind.NULL:
                raise _error(operator, f"{operator} can't compare with NULL: write IS NULL or IS NOT NULL")
        if isinstance(left, Constant) and left.is_condition and isinstance(right, Constant) and not right.is_condition:
            raise _error(operator, f"{_text(left)} can't be compared with {_text(right)}")
        equal = _checked(Equal(left, right), operator)
        return equal if operator.type == "EQUAL" else _checked(Not(equal), operator)

    def is_null(self, operand: Node, word: Token, _null: Token) -> Node:
        return _checked(IsNull(operand), word)

    def is_not_null(self, operand: Node, word: Token, _not: Token, _null: Token) -> Node:
        return _checked(Not(IsNull(operand)), word)

    # -- < BETWEEN ------------------------------------------------------------------------------------------------

    def order(self, left: Node, operator: Token, right: Node) -> Node:
        return _order(Relation(str(operator)), left, right, operator)

    def between(self, operand: Node, word: Token, low: Node, _and: Token, high: Node) -> Node:
        if isinstance(low, Constant) and isinstance(high, Constant):
            _check_bounds(low, high, word)
        above = _order(Relation.GREATER_EQUAL, operand, low, word)
        below = _order(Relation.LESS_EQUAL, operand, high, word)
        return _checked(And((above, below)), word)

    def not_between(self, operand: Node, word: Token, _word: Token, low: Node, _and: Token, high: Node) -> Node:
        below = _order(Relation.LESS, operand, low, word)
        above = _order(Relation.GREATER, operand, high, word)
        return _checked(Or((below, above)), word)

    # -- IN, CONTAINS ---------------------------------------------------------------------------------------------

    def texts(self, *tokens: Token) -> list[Token]:
        return [token for token in tokens if token.type == "TEXT"]

    def in_texts(self, operand: Node, word: Token, texts: list[Token]) -> Node:
        return _in(operand, word, texts, negated=False)

    def not_in_texts(self, operand: Node, word: Token, _word: Token, texts: list[Token]) -> Node:
        return _in(operand, word, texts, negated=True)

    def search(self, operand: Node, word: Token, text: Token) -> Node:
        return _checked(Find(Search(word.upper()), operand, _unquoted(text), negated=False), word)

    def not_search(self, operand: Node, _not: Token, word: Token, text: Token) -> Node:
        return _checked(Find(Search(word.upper()), operand, _unquoted(text), negated=True), word)

    # -- signs, NOT, parentheses, operands ------------------------------------------------------------------------

    def unary(self, sign: Token, operand: Node) -> Node:
        return operand if sign.type == "PLUS" else _checked(Negate(operand), sign)

    def logical_not(self, word: Token, operand: Node) -> Node:
        return _checked(Not(_condition(operand, column_of(word))), word)

    def group(self, _open: Token, node: Node, _close: Token) -> Node:
        return node

    def text(self, token: Token) -> Node:
        return Constant(_unquoted(token), Kind.TEXT)

    def integer(self, token: Token) -> Node:
        digits = token.rstrip("lL")
        if len(digits) > _INTEGER_DIGITS_MAX or int(digits) > LONG_MAX:
            raise _error(token, f"{_shortened(digits)} is over {LONG_MAX}: write it with a decimal point")
        number = int(digits)
        return Constant(number, Kind.INTEGER if number <= INTEGER_MAX else Kind.LONG)

    def float(self, token: Token) -> Node:
        number = float(token)
        if math.isinf(number) or number == 0:
            raise _error(token, f"{_shortened(token)} must be above 0 and in the range of a double: write 0 as 0")
        return Constant(number, Kind.DOUBLE)

    def true(self, _word: Token) -> Node:
        return Constant(True, Kind.BOOLEAN)

    def false(self, _word: Token) -> Node:
        return Constant(False, Kind.BOOLEAN)

    def null(self, _word: Token) -> Node:
        return Constant(None, Kind.NULL)

    def name(self, token: Token) -> Node:
        return Property(str(token))


def _joined(kind: type[And] | type[Or], first: Node, rest: tuple[Node | Token, ...]) -> Node:
    """Put the terms of one level side by side, so that a long chain is not a deep tree."""
    if not rest:
        return first
    terms = [_condition(first, column_of(rest[0]))]  # type: ignore[arg-type]
    for token, term in zip(rest[::2], rest[1::2], strict=True):
        terms.append(_condition(term, column_of(token)))  # type: ignore[arg-type]
    return _checked(kind(tuple(terms)), rest[0])  # type: ignore[arg-type]


def _order(relation: Relation, left: Node, right: Node, operator: Token) -> Node:
    for node in (left, right):
        if node.is_condition or (isinstance(node, Constant) and node.kind not in NUMBERS):
            raise _error(operator, f"{operator.upper()} compares numbers, {_text(node)} is not a number")
    return _checked(Order(relation, left, right), operator)


def _check_bounds(low: Constant, high: Constant, word: Token) -> None:
    if low.kind not in NUMBERS or high.kind not in NUMBERS:
        return  # the comparisons refuse it
    in_doubles = Kind.DOUBLE in (low.kind, high.kind)
    if (float(_number(high)) < float(_number(low))) if in_doubles else (_number(high) < _number(low)):
        raise _error(word, f"{word.upper()} {low.value} AND {high.value} is empty: write the lower number first")


def _number(constant: Constant) -> int | float:
    assert isinstance(constant.value, int | float)
    return constant.value


def _in(operand: Node, word: Token, texts: list[Token], *, negated: bool) -> Node:
    if not isinstance(operand, Property):
        raise _error(word, f"IN needs a property's name before it, not {_text(operand)}")
    if len(texts) > IN_COUNT_MAX:
        raise _error(word, f"IN has {len(texts)} texts, the limit is {IN_COUNT_MAX}: use several, joined by OR")
    return _checked(In(operand, frozenset(map(_unquoted, texts)), negated), word)


def _condition(node: Node, column: int) -> Node:
    if node.is_condition:
        return node
    if isinstance(node, Property):
        return IsTrue(node)
    raise ExpressionError(column, f"{_text(node)} is neither true nor false: compare it with something")


def _checked(node: Node, token: Token) -> Node:
    if node.depth > NESTING_DEPTH_MAX:
        raise _error(token, f"nested deeper than {NESTING_DEPTH_MAX} levels: write it flatter")
    return node


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _error(token: Token, text: str) -> ExpressionError:
    return ExpressionError(column_of(token), text)


def _text(node: Node) -> str:
    """Return an operand's text for a message."""
    if isinstance(node, Property):
        return node.name
    if isinstance(node, Negate):
        return "a negated value"
    if not isinstance(node, Constant):
        return "a condition"
    if node.kind is Kind.TEXT:
        return _shortened(repr(node.value))
    return "NULL" if node.value is None else str(node.value).upper()


def _shortened(text: str, length_max: int = 40) -> str:
    return text if len(text) <= length_max else f"{text[: length_max - 3]}..."
