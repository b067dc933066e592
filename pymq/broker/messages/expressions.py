"""Expressions: the message filters of subscriptions. Each SQL92 expression is compiled once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.messages.message_filter import MessageFilter, is_tag_type, tag_filter
from pymq.errors import ExpressionError, Refusal
from pymq.filter.raw_properties import source_of
from pymq.filter.sql92 import EXPRESSION_CACHE_BYTES, SqlExpression, compile_sql, compiled_size_bytes
from pymq.model.sized_cache import SizedCache
from pymq.store.store import FILTER_STEP_COUNT
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.config import BrokerConfig

log = logging.getLogger(__name__)

EXPRESSION_SQL92 = "SQL92"
SUBSCRIPTION_LENGTH_MAX = 32_768  # as EXPRESSION_LENGTH_MAX of pymq.filter.parser, which imports much
TAG_COUNT_MAX = 1024
PLAIN_LENGTH_MAX = 2 * TAG_COUNT_MAX - 1  # a shorter expression is within all limits
_SHOWN_LENGTH = 200
# Leaves of an expression that are evaluated between two looks at the time: 45 ms for properties of 32 KB, which no
# index helps to search, and a millisecond for usual ones.
STEP_LEAF_COUNT = 2048


class Expressions:
    """Makes message filters of subscriptions of any type. Groups with the same expression share its compiled form.

    ``is_bulk_ready``: see :meth:`MessageStore.set_bulk_ready`. Filters that are made before have no prefilter, which
    needs numpy; there are few messages to look at then.
    """

    def __init__(
        self, *, config: BrokerConfig, stats: StatsManager, is_bulk_ready: Callable[[], bool] = lambda: True
    ) -> None:
        self._config = config
        self._stats = stats
        self._is_bulk_ready = is_bulk_ready
        self._sql_filter = SizedCache[tuple[str, bool], MessageFilter](  # by text, and whether it has a prefilter
            self._make, lambda key, _: compiled_size_bytes(key[0]), EXPRESSION_CACHE_BYTES
        )

    def message_filter(
        self, expression_type: str | None, text: str | None, wrong: int = ResponseCode.SUBSCRIPTION_PARSE_FAILED
    ) -> MessageFilter:
        """Return a subscription's filter. Raises Refusal, with code ``wrong`` for an expression that is wrong."""
        if text is not None and len(text) > PLAIN_LENGTH_MAX:
            check_size(expression_type, text, wrong)
        if is_tag_type(expression_type):
            return tag_filter(text)
        if expression_type != EXPRESSION_SQL92:
            raise Refusal(
                wrong,
                f"expression type {expression_type} is unknown: brokers run TAG and SQL92; other filters run in a "
                "filter server (pymq filter-server) or in the client",
            )
        if not self._config.enable_property_filter:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by SQL92 (enablePropertyFilter is false): set "
                "it to true, or use tags",
            )
        try:
            return self._sql_filter[text or "", self._is_bulk_ready()]
        except ExpressionError as error:
            raise Refusal(wrong, f"the SQL92 expression {_shown(text or '')} is wrong at {error}") from error

    def _make(self, key: tuple[str, bool]) -> MessageFilter:
        text, is_bulk_ready = key
        expression = compile_sql(text)
        if expression.mistake is not None:
            raise ExpressionError(expression.mistake.column, expression.mistake.reason)
        if expression.ignored_from is not None:
            log.warning(
                "SQL92 expression %s: the text from column %d is ignored, as in RocketMQ",
                _shown(text),
                expression.ignored_from,
            )
        return MessageFilter(
            accept=_RecordTest(expression, self._stats).accepts,
            prefilter=expression.make_prefilter() if is_bulk_ready else None,
            size_bytes=compiled_size_bytes(text),
            step_count=max(1, min(FILTER_STEP_COUNT, STEP_LEAF_COUNT // expression.leaf_count)),
        )


class _RecordTest:
    """Evaluates an expression for stored records. A message for which that fails does not match."""

    __slots__ = ("_expression", "_failed", "_stats", "_test")

    def __init__(self, expression: SqlExpression, stats: StatsManager) -> None:
        self._expression = expression
        self._test = expression.test
        self._stats = stats
        self._failed = False

    def accepts(self, record: memoryview) -> bool:
        try:
            return self._test(source_of(record)) is True
        except ValueError as error:
            self._note(error)
            return False

    def _note(self, error: ValueError) -> None:
        self._stats.filter_errors += 1
        if not self._failed:
            self._failed = True
            log.warning(
                "SQL92 expression %s: a message compares a text that is %s; it does not match, nor do further ones "
                "like it",
                _shown(self._expression.text),
                error,
            )


def check_size(expression_type: str | None, text: str, wrong: int = ResponseCode.SUBSCRIPTION_PARSE_FAILED) -> None:
    """Raise Refusal with code ``wrong`` for an expression that is too long, or names too many tags."""
    if len(text) > SUBSCRIPTION_LENGTH_MAX:
        raise Refusal(
            wrong,
            f"the expression {_shown(text)} has {len(text)} characters, the limit is {SUBSCRIPTION_LENGTH_MAX}: "
            "shorten it, or subscribe to everything and select in the client",
        )
    tag_count = text.count("||") + 1
    if is_tag_type(expression_type) and tag_count > TAG_COUNT_MAX:
        raise Refusal(
            wrong,
            f"the expression {_shown(text)} names {tag_count} tags, the limit is {TAG_COUNT_MAX}: name fewer, or "
            "subscribe to everything and select in the client",
        )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_LENGTH else f"{text[: _SHOWN_LENGTH - 3]}...")
