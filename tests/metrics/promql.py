"""A check of PromQL's syntax and types, for what conf/ uses of the language; unknown functions are errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

SCALAR, VECTOR, RANGE = "a scalar", "an instant vector", "a range vector"
AGGREGATIONS = {"sum", "max", "min", "avg", "count", "topk", "bottomk"}
WITH_NUMBER = {"topk", "bottomk"}
# Name -> types of the arguments, type of the result (Prometheus: promql/parser/functions.go).
FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "rate": ((RANGE,), VECTOR),
    "increase": ((RANGE,), VECTOR),
    "predict_linear": ((RANGE, SCALAR), VECTOR),
    "histogram_quantile": ((SCALAR, VECTOR), VECTOR),
    "vector": ((SCALAR,), VECTOR),
}
PRECEDENCE = {"or": 1, "and": 2, "unless": 2, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "^": 6}
COMPARISONS = {"==", "!=", "<=", "<", ">=", ">"}
PRECEDENCE |= dict.fromkeys(COMPARISONS, 3)
KEYWORDS = {*PRECEDENCE, "bool", "by", "without", "on", "ignoring", "group_left", "group_right", "offset"}
DURATION = re.compile(r"(?:\d+(?:ms|[smhdwy]))+")
TOKEN = re.compile(
    r"\s*(?:(?P<duration>(?:\d+(?:ms|[smhdwy]))+)|(?P<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?(?!\w))|(?P<name>[a-zA-Z_:][\w:]*)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\")|(?P<sign>=~|!~|==|!=|<=|>=|[-+*/%^<>=(){}\[\],]))"
)


class Token(NamedTuple):
    kind: str
    text: str


class PromqlError(ValueError):
    """The expression is not PromQL, or its types don't fit."""


def check(expression: str) -> str:
    """Return the type of an expression. Raises PromqlError."""
    parser = _Parser(list(_tokens(expression)))
    found = parser.expression(0)
    parser.end()
    return found


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise PromqlError(f"{text[at : at + 20]!r} at {at} is no token")
        yield Token(match.lastgroup, match[match.lastgroup])
        at = match.end()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise PromqlError(f"{self._tokens[self._at].text!r} follows a whole expression")

    def expression(self, level_min: int) -> str:
        left = self._operand()
        while (level := PRECEDENCE.get(self._peek().text, 0)) > level_min and self._peek().kind in ("sign", "name"):
            operator = self._next().text
            is_bool = self._takes("bool")
            is_matched = self._peek().text in ("on", "ignoring")
            if is_matched:
                self._next()
                self._labels()
                if self._peek().text in ("group_left", "group_right"):
                    self._next()
                    if self._peek().text == "(":
                        self._labels()
            right = self.expression(level - (operator == "^"))
            if is_matched and SCALAR in (left, right):
                raise PromqlError("on and ignoring match two instant vectors")
            left = _result(operator, left, right, is_bool=is_bool)
        return left

    def _operand(self) -> str:
        token = self._next()
        if token.text in ("-", "+"):
            return self._operand()
        if token.text == "(":
            found = self.expression(0)
            self._expect(")")
            return found
        if token.kind == "number":
            return SCALAR
        if token.kind == "name" and token.text in AGGREGATIONS:
            return self._aggregation(token.text)
        if token.kind == "name" and self._peek().text == "(":
            return self._call(token.text)
        if token.kind == "name" and token.text not in KEYWORDS:
            return self._selector()
        raise PromqlError(f"{token.text!r} is no operand")

    def _aggregation(self, name: str) -> str:
        grouped = self._takes("by", "without")
        if grouped:
            self._labels()
        wanted = (SCALAR, VECTOR) if name in WITH_NUMBER else (VECTOR,)
        self._arguments(name, wanted)
        if not grouped and self._takes("by", "without"):
            self._labels()
        return VECTOR

    def _call(self, name: str) -> str:
        if name not in FUNCTIONS:
            raise PromqlError(f"{name} is no function that this check knows")
        wanted, result = FUNCTIONS[name]
        self._arguments(name, wanted)
        return result

    def _arguments(self, name: str, wanted: tuple[str, ...]) -> None:
        self._expect("(")
        found = [self.expression(0)]
        while self._takes(","):
            found.append(self.expression(0))
        self._expect(")")
        if tuple(found) != wanted:
            raise PromqlError(f"{name} takes {', '.join(wanted)}, not {', '.join(found)}")

    def _selector(self) -> str:
        if self._takes("{"):
            while not self._takes("}"):
                self._matcher()
                if self._peek().text != "}":
                    self._expect(",")
        if not self._takes("["):
            return VECTOR
        if self._next().kind != "duration":
            raise PromqlError("a range needs a duration: [5m]")
        self._expect("]")
        return RANGE

    def _matcher(self) -> None:
        name, sign, text = self._next(), self._next(), self._next()
        if name.kind != "name" or sign.text not in ("=", "!=", "=~", "!~") or text.kind != "text":
            raise PromqlError(f"{name.text}{sign.text}{text.text} is no matcher")
        if "~" in sign.text:
            try:
                re.compile(text.text[1:-1])
            except re.error as error:
                raise PromqlError(f"{text.text} is no regular expression: {error}") from error

    def _labels(self) -> None:
        self._expect("(")
        while not self._takes(")"):
            if self._next().kind != "name":
                raise PromqlError("labels are names")
            if self._peek().text != ")":
                self._expect(",")

    def _peek(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else Token("end", "")

    def _next(self) -> Token:
        token = self._peek()
        if token.kind == "end":
            raise PromqlError("the expression ends too early")
        self._at += 1
        return token

    def _takes(self, *texts: str) -> bool:
        if self._peek().kind == "text" or self._peek().text not in texts:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise PromqlError(f"{self._peek().text!r} stands where {text!r} is expected")


def _result(operator: str, left: str, right: str, *, is_bool: bool) -> str:
    if RANGE in (left, right):
        raise PromqlError(f"{operator} takes no range vector")
    if operator in ("or", "and", "unless"):
        if SCALAR in (left, right):
            raise PromqlError(f"{operator} takes instant vectors alone")
    elif operator in COMPARISONS and left == right == SCALAR and not is_bool:
        raise PromqlError(f"{operator} of two scalars needs bool")
    return SCALAR if left == right == SCALAR else VECTOR
