"""Parses SQL92 text to a tree, within limits. Imports lark, so import this only for the first expression."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from pymq.errors import ExpressionError
from pymq.filter.nodes import Node
from pymq.filter.tree import NESTING_DEPTH_MAX, TreeBuilder, column_of

EXPRESSION_LENGTH_MAX = 32_768
TOKEN_COUNT_MAX = 2048  # parsing so many takes 20 to 30 ms

# Tokens that an operand may begin with, any number of times. A long run of them is refused before it becomes a tree.
_PREFIXES = ("MINUS", "PLUS", "NOT", "OPEN")
_END = "$END"
_SHOWN = {
    "NAME": "a name",
    "TEXT": "'text'",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "EQUAL": "=",
    "NOT_EQUAL": "<>",
    "LESS": "<",
    "LESS_EQUAL": "<=",
    "GREATER": ">",
    "GREATER_EQUAL": ">=",
    "OPEN": "(",
    "CLOSE": ")",
    "COMMA": ",",
    "PLUS": "+",
    "MINUS": "-",
    _END: "the end",
}


class Parsed(NamedTuple):
    """A tree, and the column from which trailing text is ignored (None: there is none)."""

    tree: Node
    ignored_from: int | None


def parse(text: str) -> Parsed:
    """Parse an expression into a tree. Raises ExpressionError.

    RocketMQ's parser stops at the first word that can't continue a complete expression, and ignores the rest. This one
    does the same and reports where.
    """
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise ExpressionError(
            EXPRESSION_LENGTH_MAX + 1,
            f"the expression has {len(text)} characters, the limit is {EXPRESSION_LENGTH_MAX}: shorten it",
        )
    _check_characters(text)
    steps = _lark().parse_interactive(text)
    last: Token | None = None
    ignored_from = None
    prefix_count = 0
    try:
        for count, token in enumerate(steps.lexer_thread.lex(steps.parser_state), 1):
            prefix_count = prefix_count + 1 if token.type in _PREFIXES else 0
            _check_size(token, count, prefix_count)
            try:
                steps.feed_token(token)
            except UnexpectedToken as error:
                if _END not in steps.accepts():
                    raise _unexpected(column_of(token), str(token), steps.accepts()) from error
                ignored_from = column_of(token)
                break
            last = token
        return Parsed(steps.feed_eof(last), ignored_from)
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise ExpressionError(at + 1, _strange(text[at:])) from error
    except UnexpectedToken as error:
        raise _unexpected(len(text) + 1, "the end", steps.accepts()) from error


@cache
def _lark() -> Lark:
    # ASCII: key words and names consist of plain letters only, whatever Unicode says about lower case.
    return Lark(
        files(__package__).joinpath("sql92.lark").read_text("utf-8"),
        parser="lalr",
        lexer="basic",
        transformer=TreeBuilder(),
        propagate_positions=False,
        maybe_placeholders=False,
        g_regex_flags=re.ASCII,
    )


def _check_size(token: Token, count: int, prefix_count: int) -> None:
    if count > TOKEN_COUNT_MAX:
        raise ExpressionError(
            column_of(token),
            f"more than {TOKEN_COUNT_MAX} words and signs: use IN in place of many =, or a shorter expression",
        )
    if prefix_count > NESTING_DEPTH_MAX:
        raise ExpressionError(
            column_of(token), f"more than {NESTING_DEPTH_MAX} signs, NOTs and parentheses in a row: write it flatter"
        )


def _check_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ExpressionError(error.start + 1, "half a surrogate pair is no character") from error


def _strange(rest: str) -> str:
    if rest.startswith("'"):
        return "the text that begins here has no closing quote"
    if rest.startswith("/*"):
        return "the comment that begins here has no end"
    hint = " (not equal is <>)" if rest.startswith("!") else ""
    return f"unexpected character {rest[0]!r}{hint}"


def _unexpected(column: int, found: str, accepted: set[str]) -> ExpressionError:
    expected = sorted({_SHOWN.get(name, name) for name in accepted})
    shown = found if len(found) <= 40 else f"{found[:37]}..."
    return ExpressionError(column, f"found {shown}, expected {' or '.join(expected)}")
