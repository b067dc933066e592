"""Samples of a topic: every n-th message, or messages whose key's hash is in a range. Keeps no state."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import xxhash

from pymq.errors import ExpressionError
from pymq.filter.fields import FIELD_PATTERN, field
from pymq.filter.messages import FilterMessage
from pymq.filter.plugins import CompiledFilter, EachMessage, FilterPlugin, hookimpl

PARTS_MAX = 1_000_000
EXPRESSION_LENGTH_MAX = 256

_NUMBER = r"([0-9]{1,9})"
_SHARE = re.compile(rf"\s*{_NUMBER}\s*/\s*{_NUMBER}(?:\s+by\s+({FIELD_PATTERN}))?\s*")
_RANGE = re.compile(rf"\s*hash\(\s*({FIELD_PATTERN})\s*\)\s*%\s*{_NUMBER}\s+in\s+{_NUMBER}\s*\.\.\s*{_NUMBER}\s*")


class SampleFilter:
    """``1/10``: every tenth message of a queue. ``1/10 by FIELD`` and ``hash(FIELD) % 10 in 0..2``: by key."""

    name = "sample"
    doc = "A share of the messages: '1/10', '1/10 by KEYS', 'hash(KEYS) % 10 in 0..2'; the same keys every time."

    def compile(self, expression: str) -> CompiledFilter:
        if len(expression) > EXPRESSION_LENGTH_MAX:
            raise ExpressionError(
                EXPRESSION_LENGTH_MAX + 1, f"{len(expression)} characters, the limit is {EXPRESSION_LENGTH_MAX}"
            )
        if share := _SHARE.fullmatch(expression):
            taken, parts = int(share[1]), int(share[2])
            _check(taken <= parts and taken > 0, share.start(1), "write a share from 1/n to n/n")
            _check(parts <= PARTS_MAX, share.start(2), f"{parts} parts, the limit is {PARTS_MAX}")
            if share[3] is None:
                return EachMessage(lambda message: message.queue_offset % parts < taken)
            return EachMessage(_by_hash(share[3], parts, 0, taken - 1))
        if part := _RANGE.fullmatch(expression):
            parts, first, last = int(part[2]), int(part[3]), int(part[4])
            _check(0 < parts <= PARTS_MAX, part.start(2), f"{parts} parts, the limits are 1 and {PARTS_MAX}")
            _check(first <= last < parts, part.start(3), f"write a range within 0..{parts - 1}")
            return EachMessage(_by_hash(part[1], parts, first, last))
        raise ExpressionError(1, "expected '1/10', '1/10 by KEYS' or 'hash(KEYS) % 10 in 0..2'")


def _by_hash(name: str, parts: int, first: int, last: int) -> Callable[[FilterMessage], bool | None]:
    get = field(name)

    def taken(message: FilterMessage) -> bool | None:
        value = get(message)
        return None if value is None else first <= xxhash.xxh3_64_intdigest(value) % parts <= last

    return taken


def _check(holds: bool, at: int, text: str) -> None:
    if not holds:
        raise ExpressionError(at + 1, text)


@hookimpl
def pymq_filters() -> Sequence[FilterPlugin]:
    return [SampleFilter()]
