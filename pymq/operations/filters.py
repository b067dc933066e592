"""Filters as options name them: ``NAME:EXPRESSION`` or SQL92, checked before a broker is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pymq.errors import ExpressionError, UsageError
from pymq.filter.class_names import FILTER_SERVER


class PluginChoice(NamedTuple):
    """A filter and its expression; ``via`` is set when filter servers run it."""

    name: str
    expression: str
    via: str | None


def parse_plugin(text: str | None, expression: str | None, via: str | None) -> PluginChoice | None:
    """Return the filter that the options choose, None without one. Raises UsageError."""
    if text is None:
        if expression is not None or via is not None:
            raise UsageError("--expr and --via need a filter: name it with --filter NAME")
        return None
    if via not in (None, FILTER_SERVER):
        raise UsageError(f"--via {via!r}: only {FILTER_SERVER} is possible; without --via the filter runs here")
    name, colon, behind = text.partition(":")
    if colon and expression is not None:
        raise UsageError(f"--filter {text!r} has an expression already: give one expression, there or with --expr")
    if not colon and expression is None:
        raise UsageError(f"--filter {text!r} has no expression: write NAME:EXPRESSION, or --expr EXPRESSION")
    return PluginChoice(name, behind if expression is None else expression, via)


def check_sql(sql: str, note: Callable[[str], None]) -> None:
    """Raise UsageError with the position of an error; ``note`` hears about text that brokers ignore."""
    from pymq.filter.sql92 import compile_sql  # noqa: PLC0415 - few commands need its parser

    try:
        expression = compile_sql(sql)
        if expression.mistake is not None:
            raise expression.mistake
    except ExpressionError as error:
        raise UsageError(f"--sql {sql!r} is wrong at {error}") from error
    if (ignored_from := expression.ignored_from) is not None:
        note(f"--sql: brokers ignore the text from column {ignored_from} on: {sql[ignored_from - 1 :]!r}")
