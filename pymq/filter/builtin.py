"""The two built-in filters, as plugins: the brokers' languages for clients, filter servers and commands."""

from __future__ import annotations

from collections.abc import Sequence

from pymq.errors import ExpressionError, FilterError
from pymq.filter.messages import FilterMessage
from pymq.filter.plugins import CompiledFilter, EachMessage, FilterPlugin, hookimpl
from pymq.filter.raw_properties import SEPARATOR
from pymq.filter.sql92 import compile_sql

TAG = "tag"
SQL92 = "sql92"


class TagFilter:
    """RocketMQ's tags, compared exactly."""

    name = TAG
    doc = "The message's tag: 'paid || new', or '*' for all."

    def compile(self, expression: str) -> CompiledFilter:
        wanted = frozenset(part.strip() for part in expression.split("||")) - {""}
        if not wanted and expression.strip():
            raise ExpressionError(1, f"{expression!r} names no tag: write TagA || TagB, or * for all messages")
        if not wanted or "*" in wanted:
            return EachMessage(lambda message: True)
        return EachMessage(lambda message: message.tags in wanted)


class Sql92Filter:
    """RocketMQ's SQL92."""

    name = SQL92
    doc = "SQL92 on properties: \"amount > 100 AND country IN ('DE', 'FR')\"."

    def compile(self, expression: str) -> CompiledFilter:
        test = compile_sql(expression).test

        def judged(message: FilterMessage) -> bool | None:
            try:
                return test(SEPARATOR + message.raw_properties)
            except ValueError as error:
                raise FilterError(f"it compares a text that is {error}") from error

        return EachMessage(judged)


class BuiltinFilters:
    """Registers the filters of this package."""

    @hookimpl
    def pymq_filters(self) -> Sequence[FilterPlugin]:
        return [TagFilter(), Sql92Filter()]
