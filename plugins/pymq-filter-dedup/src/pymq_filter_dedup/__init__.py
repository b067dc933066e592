"""Leaves out messages whose key appeared before, within a window of time or number; the number limits the memory."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence

import xxhash

from pymq.errors import ConfigError, ExpressionError, UsageError
from pymq.filter.fields import FIELD_PATTERN, field
from pymq.filter.messages import FilterMessage
from pymq.filter.plugins import CompiledFilter, EachMessage, FilterPlugin, hookimpl
from pymq.units import parse_duration_ms

KEYS_DEFAULT_COUNT = 100_000
KEYS_MAX_COUNT = 1_000_000  # about 200 bytes each
EXPRESSION_LENGTH_MAX = 256

_FORM = re.compile(
    rf"\s*by\s+(?P<field>{FIELD_PATTERN})(?:\s+within\s+(?P<time>[0-9]+\s*[a-z]+))?"
    r"(?:\s+last\s+(?P<count>[0-9]{1,9}))?\s*"
)

_Place = tuple[str, str, int, int]


class DedupFilter:
    """The filter ``by FIELD [within TIME] [last COUNT]``."""

    name = "dedup"
    keeps_state = True
    doc = "Leaves out repeated keys: 'by KEYS', 'by body within 10m', 'by orderId within 1h last 500000'."

    def compile(self, expression: str) -> CompiledFilter:
        if len(expression) > EXPRESSION_LENGTH_MAX:
            raise ExpressionError(
                EXPRESSION_LENGTH_MAX + 1, f"{len(expression)} characters, the limit is {EXPRESSION_LENGTH_MAX}"
            )
        form = _FORM.fullmatch(expression)
        if form is None:
            raise ExpressionError(1, "expected 'by FIELD', then optionally 'within 10m' and 'last 100000'")
        count = int(form["count"] or KEYS_DEFAULT_COUNT)
        if not 0 < count <= KEYS_MAX_COUNT:
            raise ExpressionError(form.start("count") + 1, f"{count} keys, the limits are 1 and {KEYS_MAX_COUNT}")
        return EachMessage(KeyWindow(form["field"], _window_ms(form), count).is_new)


def _window_ms(form: re.Match[str]) -> int | None:
    if form["time"] is None:
        return None
    try:
        return parse_duration_ms(form["time"])
    except (ConfigError, UsageError, ValueError) as error:
        raise ExpressionError(form.start("time") + 1, str(error)) from error


class KeyWindow:
    """The hashes of recent keys. Time is the brokers' store time, so a replay gives the same results.

    Each key is stored with its first message: the same message, read again after a rebalance or a lost commit, is not a
    repetition. With ``window_ms`` None only the number limits the window.
    """

    def __init__(self, name: str, window_ms: int | None, count_max: int) -> None:
        self._get = field(name)
        self._window_ms = window_ms
        self._count_max = count_max
        self._first: OrderedDict[int, tuple[_Place, int]] = OrderedDict()  # oldest key first
        self._newest_ms = 0

    def __len__(self) -> int:
        return len(self._first)

    def is_new(self, message: FilterMessage) -> bool:
        """Returns False for a repetition. A message without the field is always new."""
        value = self._get(message)
        if value is None:
            return True
        key = xxhash.xxh3_128_intdigest(value)
        place = (message.topic, message.broker_name, message.queue_id, message.queue_offset)
        now_ms = message.store_timestamp_ms
        self._forget(now_ms)
        known = self._first.get(key)
        if known is not None and (self._window_ms is None or now_ms - known[1] <= self._window_ms):
            return known[0] == place
        self._first[key] = (place, now_ms)
        self._first.move_to_end(key)
        if len(self._first) > self._count_max:
            self._first.popitem(last=False)
        return True

    def _forget(self, now_ms: int) -> None:
        self._newest_ms = max(self._newest_ms, now_ms)
        if self._window_ms is None:
            return
        while self._first:
            _, stored_ms = next(iter(self._first.values()))
            if self._newest_ms - stored_ms <= self._window_ms:
                return
            self._first.popitem(last=False)


@hookimpl
def pymq_filters() -> Sequence[FilterPlugin]:
    return [DedupFilter()]
