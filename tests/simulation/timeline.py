"""The one order of everything that happens: events by time, and by number where times are equal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any

MS = 1_000  # the unit of simulated time is a microsecond
SECOND = 1_000_000

Call = Callable[..., object]

EVENTS_MAX = 20_000_000  # in one run; more events mean a loop in which time stands still


class Timer:
    """A planned call: it happens unless it is cancelled or its process is dead by then."""

    __slots__ = ("arguments", "call", "process")

    def __init__(self, process: Process | None, call: Call, arguments: tuple[Any, ...]) -> None:
        self.process = process
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
        self._soon: deque[Timer] = deque()  # due now, after the earlier plans in the heap that are due now
        self.soon = self._soon.append  # does what :meth:`plan` does without a delay
        self._number = 0

    def now_s(self) -> float:
        """Return the present time in seconds."""
        return self.now_us / 1e6

    def after(self, delay_us: int, call: Call, *arguments: Any) -> Timer:
        """Plan a call for ``delay_us`` from now."""
        return self.plan(delay_us, Timer(None, call, arguments))

    def plan(self, delay_us: int, timer: Timer) -> Timer:
        """Plan a timer that the caller made for ``delay_us`` from now."""
        if delay_us <= 0:
            self._soon.append(timer)
        else:
            self._number += 1
            heappush(self._heap, (self.now_us + delay_us, self._number, timer))
        return timer

    def run_until(self, time_us: int) -> None:
        """Make all calls that are due up to ``time_us``."""
        heap, soon = self._heap, self._soon
        while True:
            if not soon:
                if not heap or heap[0][0] > time_us:
                    break
                self.now_us = heap[0][0]
                while heap and heap[0][0] == self.now_us:
                    soon.append(heappop(heap)[2])
            timer = soon.popleft()
            call, process = timer.call, timer.process
            if call is None:
                continue
            self.event_count += 1
            assert self.event_count < EVENTS_MAX, "no end of events"
            if process is None or process.is_running:
                call(*timer.arguments)
            else:
                process.hold(call, timer.arguments)
        self.now_us = max(self.now_us, time_us)


class Process:
    """One life of a program: its planned calls happen only while it lives, and wait while it is paused."""

    __slots__ = ("_late", "_timeline", "host", "is_alive", "is_paused", "is_running", "name", "on_death")

    def __init__(self, timeline: Timeline, name: str, host: str) -> None:
        self._timeline = timeline
        self.name = name
        self.host = host
        self.is_alive = True
        self.is_paused = False
        self.is_running = True  # alive, not paused, and done with what a pause held back
        self.on_death: list[Call] = []
        self._late: deque[tuple[Call, tuple[Any, ...]]] = deque()

    def after(self, delay_us: int, call: Call, *arguments: Any) -> Timer:
        """Plan a call for ``delay_us`` from now, if this process lives then."""
        return self._timeline.plan(delay_us, Timer(self, call, arguments))

    def now(self, call: Call, *arguments: Any) -> None:
        """Make a call from outside: at once, or when this process goes on, if ever."""
        if self.is_running:
            call(*arguments)
        else:
            self.hold(call, arguments)

    def hold(self, call: Call, arguments: tuple[Any, ...]) -> None:
        """Keep a call that is due while the process does not run, until it goes on, if ever."""
        if self.is_alive:
            self._late.append((call, arguments))

    def pause(self) -> None:
        """Suspend all calls while time goes on (SIGSTOP)."""
        self.is_paused = True
        self.is_running = False

    def resume(self) -> None:
        """Make all held calls at once, in their order (SIGCONT)."""
        if self.is_paused and self.is_alive:
            self.is_paused = False
            self._timeline.after(0, self._catch_up)

    def _catch_up(self) -> None:
        while self._late and self.is_alive and not self.is_paused:
            call, arguments = self._late.popleft()
            call(*arguments)
        self.is_running = self.is_alive and not self.is_paused

    def die(self) -> None:
        """End the process at once (SIGKILL)."""
        self.is_alive = self.is_running = False
        self._late.clear()
        tellers, self.on_death = self.on_death, []
        for tell in tellers:
            tell()


START_MS = 1_700_000_000_000


class NodeClock:
    """The clocks of a machine. Its wall time is wrong by ``skew_ms``, which faults change."""

    __slots__ = ("_timeline", "skew_ms")
    problem = None

    def __init__(self, timeline: Timeline, skew_ms: int = 0) -> None:
        self._timeline = timeline
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return START_MS + self._timeline.now_us // MS + self.skew_ms

    def monotonic_ms(self) -> int:
        return self._timeline.now_us // MS

    def local_time(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)
