"""Finds expressions that RocketMQ takes and that can't mean what their author meant.

A property alone (``name``, ``name AND a = 1``) is no condition: its value is a text, and no text is true. RocketMQ's
parser also stops at the first word that it can't use, so ``name LIKE 'x%'`` and ``x-y = '2'`` become a property alone.
"""

from __future__ import annotations

from pymq.errors import ExpressionError
from pymq.filter.nodes import And, Constant, IsTrue, Node, Not, Or, Property


def mistake_in(tree: Node, text: str, ignored_from: int | None) -> ExpressionError | None:
    """Return why no message, or others than those that were meant, would match; None when nothing is known.

    ``ignored_from``: the column from which the text is ignored, or None.
    """
    if ignored_from is not None and (last := _last_bare(tree)) is not None:
        word = text[ignored_from - 1 :].split(maxsplit=1)[0][:20]
        return ExpressionError(
            ignored_from,
            f"{word!r} can't follow the property {last.name}: there is no LIKE and no arithmetic, and names have no "
            "hyphens; write CONTAINS, STARTSWITH, ENDSWITH, or a comparison",
        )
    if (bare := _never_true(tree)) is not None:
        return ExpressionError(
            1, f"no message would match: the property {bare.name} alone is no condition, compare it with something"
        )
    return None


def _last_bare(node: Node) -> Property | None:
    """Return the property alone with which an expression ends."""
    while isinstance(node, And | Or | Not):
        node = node.children()[-1]
    return _bare(node)


def _never_true(node: Node) -> Property | None:
    """Return a property alone because of which a condition is never true."""
    if isinstance(node, And):
        return next((bare for term in node.terms if (bare := _never_true(term)) is not None), None)
    if isinstance(node, Or):
        causes = [_never_true(term) for term in node.terms if not _is_false(term)]
        return causes[0] if causes and None not in causes else None
    return _bare(node)


def _bare(node: Node) -> Property | None:
    return node.operand if isinstance(node, IsTrue) and isinstance(node.operand, Property) else None


def _is_false(node: Node) -> bool:
    return isinstance(node, Constant) and not node.value
