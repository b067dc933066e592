"""SQL92 expressions, compiled once and kept: the door to this package. Importing it does not import the parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from pymq.errors import ExpressionError
from pymq.filter.raw_properties import SEPARATOR
from pymq.model.properties import encode_properties

if TYPE_CHECKING:
    from pymq.filter.narrowing import Narrowing
    from pymq.filter.nodes import Node

EXPRESSION_CACHE_COUNT = 512


class SqlExpression:
    """One compiled expression. ``ignored_from``: the column of trailing text that does not count, None without any.

    ``test`` answers True, False or None (unknown) for a source (pymq.filter.raw_properties) and raises ValueError when
    a text is compared that is no number: RocketMQ takes None and errors as no match.
    """

    __slots__ = ("_tree", "ignored_from", "test", "text")

    def __init__(self, text: str, test: Callable[[bytes], bool | None], tree: Node, ignored_from: int | None) -> None:
        self.text = text
        self.test = test
        self.ignored_from = ignored_from
        self._tree = tree

    def narrowing(self) -> Narrowing | None:
        """A new narrowing: finds those of many records for which ``test`` may be True; None when there is none."""
        from pymq.filter.narrowing import narrowing  # noqa: PLC0415 - numpy is only needed where records are filtered

        return narrowing(self._tree)

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """The answer for a message with these properties; empty values are none. Raises ValueError as ``test`` does."""
        return self.test(SEPARATOR + encode_properties(properties))


def compile_sql(text: str) -> SqlExpression:
    """The expression of a text, from the cache when it was asked for lately. Raises ExpressionError."""
    found = _compiled(text)
    if isinstance(found, ExpressionError):
        raise ExpressionError(found.column, found.reason)
    return found


@lru_cache(maxsize=EXPRESSION_CACHE_COUNT)
def _compiled(text: str) -> SqlExpression | ExpressionError:
    """Refusals are kept too: a client that repeats a wrong expression with every pull costs no parsing."""
    from pymq.filter.compiler import compile_condition  # noqa: PLC0415 - lark is only needed where SQL is used
    from pymq.filter.parser import parse  # noqa: PLC0415

    try:
        tree, ignored_from = parse(text)
    except ExpressionError as error:
        return ExpressionError(error.column, error.reason)  # without the traceback and all it holds
    return SqlExpression(text, compile_condition(tree), tree, ignored_from)
