"""JSONPath (RFC 9535) on JSON bodies: a message matches when the query finds a value in its body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from jsonpath import JSONPathEnvironment, JSONPathError

from pymq.errors import ExpressionError, FilterError
from pymq.filter.json_body import json_body, node_count_max
from pymq.filter.messages import FilterMessage
from pymq.filter.plugins import CompiledFilter, EachMessage, FilterPlugin, hookimpl

EXPRESSION_LENGTH_MAX = 4096
STEPS_MAX = 1_000_000  # limit of values that a query may visit in one body

_ENVIRONMENT = JSONPathEnvironment(strict=True)
for _name in ("match", "search"):  # they use Python's re, where a pattern can take forever; use the regex filter
    del _ENVIRONMENT.function_extensions[_name]
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


class JsonPathFilter:
    """The filter ``$.items[?@.price > 5]``; an expression that begins with ``?`` is a condition on the whole body."""

    name = "jsonpath"
    doc = "JSONPath finds a value in the JSON body: '$.items[?@.price > 5]'; '?@.total > 100' tests the body itself."

    def compile(self, expression: str) -> CompiledFilter:
        if len(expression) > EXPRESSION_LENGTH_MAX:
            raise ExpressionError(
                EXPRESSION_LENGTH_MAX + 1, f"{len(expression)} characters, the limit is {EXPRESSION_LENGTH_MAX}"
            )
        text = expression.strip()
        whole = text.startswith("?")
        if not whole and not text.startswith("$"):
            raise ExpressionError(1, "begin with $ for a query, or ? for a condition on the body")
        try:
            query = _ENVIRONMENT.compile(f"$[{text}]" if whole else text)
        except (JSONPathError, OverflowError, ValueError, RecursionError) as error:
            raise ExpressionError(_column(error), _reason(error)) from error
        cost = Cost.of(text)

        def found(message: FilterMessage) -> bool:
            document = json_body(message)
            cost.check(message.body, document)
            try:
                return query.match([document] if whole else document) is not None
            except (JSONPathError, RecursionError) as error:
                raise FilterError(f"the query fails on this body: {_reason(error)}") from error

        return EachMessage(found)


class Cost(NamedTuple):
    """The parts of a query, outside of quotes, that make it visit more values than a body has.

    ``deep``: descents and conditions, each of which may visit a value once for every level above it; ``roots``:
    queries from ``$`` in conditions, each of which may visit all values again; ``commas``: lists of selectors, which
    double values; ``terms``: the number of joined conditions.
    """

    deep: int
    roots: int
    commas: int
    terms: int

    @classmethod
    def of(cls, text: str) -> Cost:
        bare = _QUOTED.sub("", text)
        return cls(
            deep=bare.count("..") + bare.count("?"),
            roots=bare.count("$") - bare.startswith("$"),
            commas=bare.count(","),
            terms=1 + bare.count("&&") + bare.count("||"),
        )

    def check(self, body: bytes, document: Any) -> None:
        """Raises FilterError when the query could visit more than STEPS_MAX values of this body."""
        nodes = node_count_max(body)
        levels = _depth(document) if self.deep > 1 else 1
        steps = nodes ** (1 + self.roots) * levels ** max(0, self.deep - 1) * 2**self.commas * self.terms
        if steps > STEPS_MAX:
            shown = steps if steps < 10**12 else "over 10^12"
            raise FilterError(
                f"the query could visit {shown} values of this body, the limit is {STEPS_MAX}: use fewer .., ?, "
                "lists and inner $"
            )


def _depth(document: Any) -> int:
    """Returns the number of levels of a JSON value, 1 for a plain one."""
    levels, row = 0, [document]
    while row:
        levels += 1
        row = [
            child
            for one in row
            if isinstance(one, (dict, list))
            for child in (one.values() if isinstance(one, dict) else one)
        ]
    return levels


def _reason(error: Exception) -> str:
    """Returns the first line of the library's text."""
    if isinstance(error, RecursionError):
        return "nested too deeply: write it flatter"
    return (str(error).splitlines() or [type(error).__name__])[0]


def _column(error: Exception) -> int:
    token = getattr(error, "token", None)
    return max(0, int(getattr(token, "index", 0))) + 1


@hookimpl
def pymq_filters() -> Sequence[FilterPlugin]:
    return [JsonPathFilter()]
