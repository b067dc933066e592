"""What a query's WHERE says about where its rows are: topics, queues, offsets, tags, properties. Only ever narrows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pymq.spark.property_terms import joined_terms, sql_term
from pymq.spark.ranges import QueueRange

_BY_VALUE = ("topic", "brokerName", "queueId", "tags")


class Prefilter:
    """Conditions gathered one by one; all of them hold for every row wanted. Kinds it doesn't know change nothing."""

    def __init__(self) -> None:
        self._allowed: dict[str, frozenset[Any]] = {}
        self._from_offset = 0
        self._to_offset: int | None = None
        self._sql_terms: list[str] = []

    def take(self, condition: Any) -> None:
        """Takes one of Spark's filters into account. They are told by their class's name: no Spark is needed here."""
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

    def topics(self, topics: Sequence[str]) -> list[str]:
        """The topics that can have rows."""
        allowed = self._allowed.get("topic")
        return [topic for topic in topics if allowed is None or topic in allowed]

    def apply(self, ranges: Iterable[QueueRange]) -> list[QueueRange]:
        """The ranges that can have rows, cut to the offsets wanted."""
        kept: list[QueueRange] = []
        for part in ranges:
            first = max(part.from_offset, self._from_offset)
            last = part.to_offset if self._to_offset is None else min(part.to_offset, self._to_offset)
            if first < last and self._serves(part):
                kept.append(replace(part, from_offset=first, to_offset=last))
        return kept

    def tag_expression(self) -> str | None:
        """For the broker's filter; None when rows of any tag, or tags that can't be written so, may be wanted."""
        tags = self._allowed.get("tags")
        if not tags or not all(_can_be_written(tag) for tag in tags):
            return None
        return " || ".join(sorted(tags))

    def sql(self) -> str | None:
        """SQL92 that holds for every row wanted; None when nothing can be said so, or it would be over a limit."""
        return joined_terms(self._sql_terms)

    def _serves(self, part: QueueRange) -> bool:
        wanted = {"topic": part.topic, "brokerName": part.broker_name, "queueId": part.queue_id}
        return all(name not in self._allowed or value in self._allowed[name] for name, value in wanted.items())

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
