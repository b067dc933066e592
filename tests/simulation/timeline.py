"""The one order of everything that happens: events by time, and by number where times are equal. No real time here."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

MS = 1_000  # the unit of simulated time is a microsecond
SECOND = 1_000_000

Call = Callable[..., object]

EVENTS_MAX = 20_000_000  # of one run: more is a loop in which time stands still


class Timer:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("arguments", "call")

    def __init__(self, call: Call, arguments: tuple[Any, ...]) -> None:
        self.call: Call | None = call
        self.arguments = arguments

    def cancel(self) -> None:
        self.call = None
        self.arguments = ()


class Timeline:
    """Simulated time. ``now_us`` moves from one event to the next; what lies between costs nothing."""

    def __init__(self) -> None:
        self.now_us = 0
        self.event_count = 0
        self._heap: list[tuple[int, int, Timer]] = []
        self._number = 0

    def after(self, delay_us: int, call: Call, *arguments: Any) -> Timer:
        """``call`` happens ``delay_us`` from now."""
        timer = Timer(call, arguments)
        self._number += 1
        heapq.heappush(self._heap, (self.now_us + delay_us, self._number, timer))
        return timer

    def run_until(self, time_us: int) -> None:
        """Everything that is due up to ``time_us`` happens."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= time_us:
            self.now_us, _, timer = pop(heap)
            call = timer.call
            if call is not None:
                self.event_count += 1
                assert self.event_count < EVENTS_MAX, "no end of events"
                call(*timer.arguments)
        self.now_us = max(self.now_us, time_us)


class Process:
    """One life of a program: what it plans happens only while it lives, and stands still while it is paused."""

    __slots__ = ("_late", "_timeline", "host", "is_alive", "is_paused", "name", "on_death")

    def __init__(self, timeline: Timeline, name: str, host: str) -> None:
        self._timeline = timeline
        self.name = name
        self.host = host
        self.is_alive = True
        self.is_paused = False
        self.on_death: list[Call] = []
        self._late: deque[tuple[Call, tuple[Any, ...]]] = deque()

    def after(self, delay_us: int, call: Call, *arguments: Any) -> Timer:
        """As :meth:`Timeline.after`, for as long as this process lives."""
        return self._timeline.after(delay_us, self._happen, call, arguments)

    def _happen(self, call: Call, arguments: tuple[Any, ...]) -> None:
        if not self.is_alive:
            return
        if self.is_paused or self._late:
            self._late.append((call, arguments))
        else:
            call(*arguments)

    def pause(self) -> None:
        """SIGSTOP: nothing happens any more, but time goes on."""
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT: all that came meanwhile happens at once, in its order."""
        if self.is_paused and self.is_alive:
            self.is_paused = False
            self._timeline.after(0, self._catch_up)

    def _catch_up(self) -> None:
        while self._late and self.is_alive and not self.is_paused:
            call, arguments = self._late.popleft()
            call(*arguments)

    def die(self) -> None:
        """SIGKILL."""
        self.is_alive = False
        self._late.clear()
        tellers, self.on_death = self.on_death, []
        for tell in tellers:
            tell()


START_MS = 1_700_000_000_000


class NodeClock:
    """A machine's clocks: its wall time is wrong by ``skew_ms``, which faults change."""

    __slots__ = ("_timeline", "skew_ms")

    def __init__(self, timeline: Timeline, skew_ms: int = 0) -> None:
        self._timeline = timeline
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return START_MS + self._timeline.now_us // MS + self.skew_ms

    def monotonic_ms(self) -> int:
        return self._timeline.now_us // MS

    def local_time(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)
