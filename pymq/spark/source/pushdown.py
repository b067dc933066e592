"""Predicate pushdown: limits a read by a query's WHERE on topics, queues, offsets, tags and properties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pymq.spark.planning.ranges import QueueRange
from pymq.spark.source.property_terms import joined_terms, sql_term

_BY_VALUE = ("topic", "brokerName", "queueId", "tags")


class Pushdown:
    """Collects conditions that hold for every row of the result. Ignores kinds of conditions it doesn't know."""

    def __init__(self) -> None:
        self._allowed: dict[str, frozenset[Any]] = {}
        self._from_offset = 0
        self._to_offset: int | None = None
        self._sql_terms: list[str] = []

    def take(self, condition: Any) -> None:
        """Add one of Spark's filters. The name of its class identifies it, so this module doesn't import Spark."""
        kind = type(condition).__name__
        term = sql_term(condition)
        if term is not None:
            self._sql_terms.append(term)
        attribute: tuple[str, ...] = getattr(condition, "attribute", ())
        if len(attribute) != 1 or getattr(condition, "value", None) is None:
            return
        column, value = attribute[0], condition.value
        if column in _BY_VALUE and kind in ("EqualTo", "EqualNullSafe", "In"):
            values = frozenset(value if kind == "In" else (value,))
            self._allowed[column] = self._allowed.get(column, values) & values
        elif column == "queueOffset" and isinstance(value, int):
            self._take_offset(kind, value)

    def allows_topic(self, topic: str) -> bool:
        """Return whether a topic can have rows."""
        allowed = self._allowed.get("topic")
        return allowed is None or topic in allowed

    def apply(self, ranges: Iterable[QueueRange]) -> list[QueueRange]:
        """Return the ranges that can have rows, limited to the possible offsets."""
        kept: list[QueueRange] = []
        for part in ranges:
            first = max(part.from_offset, self._from_offset)
            last = part.to_offset if self._to_offset is None else min(part.to_offset, self._to_offset)
            if first < last and self._allows(part):
                kept.append(replace(part, from_offset=first, to_offset=last))
        return kept

    def tag_expression(self) -> str | None:
        """Return a tag expression for the broker; None if any tag can match, or a tag can't be written in one."""
        tags = self._allowed.get("tags")
        if not tags or not all(_can_be_written(tag) for tag in tags):
            return None
        return " || ".join(sorted(tags))

    def sql(self) -> str | None:
        """Return SQL92 that holds for every row of the result; None without terms, or if it is over a limit."""
        return joined_terms(self._sql_terms)

    def _allows(self, part: QueueRange) -> bool:
        place = {"topic": part.topic, "brokerName": part.broker_name, "queueId": part.queue_id}
        return all(name not in self._allowed or value in self._allowed[name] for name, value in place.items())

    def _take_offset(self, kind: str, value: int) -> None:
        if kind in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual"):
            self._from_offset = max(self._from_offset, value)
        if kind == "GreaterThan":
            self._from_offset = max(self._from_offset, value + 1)
        limit = {"EqualTo": value + 1, "EqualNullSafe": value + 1, "LessThanOrEqual": value + 1, "LessThan": value}.get(
            kind
        )
        if limit is not None:
            self._to_offset = limit if self._to_offset is None else min(self._to_offset, limit)


def _can_be_written(tag: Any) -> bool:
    return isinstance(tag, str) and tag not in ("", "*") and tag.strip() == tag and "|" not in tag
