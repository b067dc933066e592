"""Tracks the pulls of a range that are in flight: several pulls overlap, and their messages are delivered in order.

No I/O. An answer may cover less than the request (servers limit count and bytes), so the start of the next pull is a
guess. The window learns how much an answer covers, requests missing parts again, and keeps answers that are early.
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter
from typing import NamedTuple

from pymq.spark.planning.ranges import PULL_COUNT_MAX
from pymq.spark.records.layout import Chunk

_GROW_AFTER_FULL = 16
_MARGIN_FROM = 64


class Ask(NamedTuple):
    """Pull the messages with offsets [start, stop)."""

    start: int
    stop: int


class PulledRange(NamedTuple):
    """Offsets [start, end) from ``data``, in order; ``moved`` when the broker no longer had them."""

    start: int
    end: int
    data: Chunk
    moved: bool


class PullWindow:
    """The state of one range's pulls: those in flight, the early answers, and the offsets left to request."""

    def __init__(self, start: int, stop: int, *, count_max: int = PULL_COUNT_MAX, depth: int = 2) -> None:
        assert start <= stop and count_max > 0 and depth > 0
        self.cursor = start
        self.stop = stop
        self._count_max = count_max
        self._depth = depth
        self._stride = count_max
        self._full_count = 0
        self._last_short = 0
        self._learned = False
        self._left: list[tuple[int, int]] = [(start, stop)] if start < stop else []
        self._in_flight: list[Ask] = []
        self._early: list[PulledRange] = []

    @property
    def done(self) -> bool:
        return self.cursor >= self.stop

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    @property
    def has_early(self) -> bool:
        """True while answers wait for earlier ones."""
        return bool(self._early)

    def next_ask(self) -> Ask | None:
        """Return the next pull to send; None if enough are in flight or no offsets are left."""
        # Until the first answer its usual size is unknown, and a guess would only leave gaps.
        if len(self._in_flight) >= (self._depth if self._learned else 1) or not self._left:
            return None
        start, stop = self._left.pop(0)
        middle = min(start + self._stride, stop)
        if middle < stop:
            self._left.insert(0, (middle, stop))
        ask = Ask(start, middle)
        self._in_flight.append(ask)
        return ask

    def answered(self, ask: Ask, next_offset: int, data: Chunk, *, moved: bool = False) -> list[PulledRange]:
        """Take an answer that covers [ask.start, next_offset); return the segments to deliver now, in order."""
        assert next_offset > ask.start
        self._in_flight.remove(ask)
        if data:
            self._learn(ask, next_offset)
        if next_offset < ask.stop:
            insort(self._left, (next_offset, ask.stop))
        early = PulledRange(ask.start, min(next_offset, self.stop), data, moved)
        insort(self._early, early, key=attrgetter("start"))
        ready: list[PulledRange] = []
        while self._early and self._early[0].start <= self.cursor:
            segment = self._early.pop(0)
            if segment.end > self.cursor:
                ready.append(segment._replace(start=self.cursor))
                self.cursor = segment.end
        self._drop_passed()
        return ready

    def give_back(self, ask: Ask) -> None:
        """Take back a pull without a usable answer, to request it again."""
        self._in_flight.remove(ask)
        if ask.stop > self.cursor:
            insort(self._left, (max(ask.start, self.cursor), ask.stop))

    def give_back_all(self) -> None:
        """Take back all pulls in flight after a lost connection, to request them again."""
        for ask in list(self._in_flight):
            self.give_back(ask)

    def _learn(self, ask: Ask, next_offset: int) -> None:
        self._learned = True
        got = next_offset - ask.start
        if next_offset < ask.stop:
            # With a limit by count, all answers have the same size. With a limit by bytes they vary, and each answer
            # that is shorter than its request costs a round trip for the rest: so the next requests are a bit smaller.
            steady = self._last_short in (0, got) or got < _MARGIN_FROM
            self._stride = got if steady else got - got // 8
            self._last_short = got
            self._full_count = 0
            return
        self._full_count += 1
        if self._full_count >= _GROW_AFTER_FULL and self._stride < self._count_max:
            self._stride = min(2 * self._stride, self._count_max)
            self._full_count = 0

    def _drop_passed(self) -> None:
        while self._left and self._left[0][0] < self.cursor:
            _, stop = self._left.pop(0)
            if stop > self.cursor:
                self._left.insert(0, (self.cursor, stop))
