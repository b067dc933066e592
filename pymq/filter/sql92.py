"""SQL92 expressions, compiled once and cached: the entry point of this package. Does not import the parser itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import getsizeof
from typing import TYPE_CHECKING

from pymq.errors import ExpressionError
from pymq.filter.mistakes import mistake_in
from pymq.filter.raw_properties import SEPARATOR
from pymq.model.properties import encode_properties
from pymq.model.sized_cache import SizedCache

if TYPE_CHECKING:
    from pymq.filter.nodes import Node
    from pymq.filter.prefilter import Prefilter

EXPRESSION_CACHE_BYTES = 8 * 1024 * 1024
BYTES_PER_CHARACTER = 300  # of an expression's compiled form. Measured: 1 to 330


class SqlExpression:
    """One compiled expression. ``ignored_from`` is the column from which trailing text is ignored, or None.

    ``test`` returns True, False or None (unknown) for a source (pymq.filter.raw_properties). It raises ValueError when
    it compares a text that is not a number. RocketMQ treats None and errors as no match. ``mistake`` says why an
    expression that RocketMQ takes can't mean what its author meant; brokers refuse it.
    """

    __slots__ = ("_tree", "ignored_from", "mistake", "test", "text")

    def __init__(self, text: str, test: Callable[[bytes], bool | None], tree: Node, ignored_from: int | None) -> None:
        self.text = text
        self.test = test
        self.ignored_from = ignored_from
        self.mistake = mistake_in(tree, text, ignored_from)
        self._tree = tree

    @property
    def leaf_count(self) -> int:
        """The number of literals and properties: what evaluating the expression costs."""
        return self._tree.leaf_count

    def make_prefilter(self) -> Prefilter | None:
        """Return a new prefilter, which finds the records for which ``test`` may be True; None when there is none."""
        from pymq.filter.prefilter import make_prefilter  # noqa: PLC0415 - numpy is only needed where records are filtered

        return make_prefilter(self._tree)

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return the result for a message with these properties; empty values count as missing.

        Raises ValueError as ``test``.
        """
        return self.test(SEPARATOR + encode_properties(properties))


def compile_sql(text: str) -> SqlExpression:
    """Return the compiled expression of a text, cached if it was used lately. Raises ExpressionError."""
    found = _compiled[text]
    if isinstance(found, ExpressionError):
        raise ExpressionError(found.column, found.reason)
    return found


def compiled_size_bytes(text: str) -> int:
    """Return about how many bytes an expression and its compiled form take."""
    return getsizeof(text) + BYTES_PER_CHARACTER * len(text)


def _compile(text: str) -> SqlExpression | ExpressionError:
    """Cache refusals too, so that a client repeating a wrong expression with every pull costs no parsing."""
    from pymq.filter.compiler import compile_condition  # noqa: PLC0415 - lark is only needed where SQL is used
    from pymq.filter.parser import parse  # noqa: PLC0415

    try:
        tree, ignored_from = parse(text)
    except ExpressionError as error:
        return ExpressionError(error.column, error.reason)  # without the traceback and the objects it keeps alive
    return SqlExpression(text, compile_condition(tree), tree, ignored_from)


_compiled = SizedCache[str, SqlExpression | ExpressionError](
    _compile, lambda text, _: compiled_size_bytes(text), EXPRESSION_CACHE_BYTES
)
