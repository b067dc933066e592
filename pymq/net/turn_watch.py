"""TurnWatch: counts and logs the pieces of work that held the event loop for too long.

An event loop runs one piece of work at a time: the frames of one read, the end of a turn, one job. While one runs,
every other connection waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from pymq.clock import Clock
from pymq.errors import ProtocolViolation
from pymq.rate_limited_log import RateLimitedLog
from pymq.wire.codes import request_name
from pymq.wire.command import decode_command

log = logging.getLogger(__name__)

LONG_TURN_MS = 100  # of CPU time; work that took longer with less was delayed by the machine
BUSY_LINE_MS = 60_000  # between two lines about a busy machine, and before the first one
# CPU time is read at most this often on the way of requests: it takes 0.3 us, a tenth of a small request.
CPU_SAMPLE_MS = 1
# A late timer shows work that nothing measured. Work of LONG_TURN_MS + HEARTBEAT_MS is always seen.
HEARTBEAT_MS = 250
NAMED_REQUESTS_MAX = 16  # of a read that took long; the log and the metric name their kinds
OTHER = "other"  # work that nothing measured


class TurnWatch:
    """Judges work by the CPU time that it took. Belongs to the event loop's thread.

    Work that took long with little CPU time waited, for a processor that others had, or for a disk: that is counted
    apart, and the log says once a minute that the machine is busy.

    Work calls :meth:`begin` before and :meth:`end` after itself. Work that nothing measures delays the heartbeat, and
    is counted as OTHER.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        now_s: Callable[[], float] = time.perf_counter,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.long_turns: Counter[str] = Counter()  # by the work's name
        self.delayed_count = 0  # work that waited for LONG_TURN_MS or more
        self.longest_s = 0.0
        self.longest_cpu_s = 0.0
        self.now_s = now_s
        # Work that took no longer needs no look: neither long nor the longest in CPU time.
        self.unnoted_s = 0.0
        self.sample_due_s = float("-inf")
        self._cpu_s = cpu_s
        self._sampled_cpu_s = 0.0
        self._beat_at_s = 0.0
        self._beat_cpu_s = 0.0
        self._measured_s = 0.0  # since the last heartbeat, of work that was noted
        self._heartbeat: asyncio.TimerHandle | None = None
        self._clock = clock
        self._busy_line_ms = clock.monotonic_ms() + BUSY_LINE_MS
        self._delayed = _Delayed()
        self._log = RateLimitedLog(log, clock, "turns of the event loop")

    def start(self) -> None:
        """Watch the running event loop for work that nothing measures.

        Call it once the process serves: a start blocks the loop for long. A second call changes nothing.
        """
        if self._heartbeat is None:
            self.skip()
            self._schedule()

    def stop(self) -> None:
        """End what :meth:`start` began."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            self._heartbeat = None

    def skip(self) -> None:
        """Forget the time since the last heartbeat: the loop was blocked for a reason, as by a recovery."""
        self._beat_at_s, self._beat_cpu_s, self._measured_s = self.now_s(), self._cpu_s(), 0.0

    def begin(self) -> float:
        """Return the present time for :meth:`end`."""
        now_s = self.now_s()
        if now_s > self.sample_due_s:
            self.sample(now_s)
        return now_s

    def sample(self, now_s: float) -> None:
        """Read the CPU time, once ``now_s`` is past ``sample_due_s``."""
        self.sample_due_s = now_s + CPU_SAMPLE_MS / 1000
        self._sampled_cpu_s = self._cpu_s()

    def cpu_taken_s(self, took_s: float) -> float:
        """Return the CPU time of the work that runs, out of the ``took_s`` since it began.

        The rest is what other processes had of the CPU. The sample is up to CPU_SAMPLE_MS older than the work's begin,
        and so is the error of this time.
        """
        return min(took_s, self._cpu_s() - self._sampled_cpu_s)

    def end(self, begun_s: float, what: str, describe: Callable[[], str] = str) -> None:
        """Judge work that began at ``begun_s``. ``what`` names it, out of few names; ``describe`` adds to the log."""
        if self.now_s() - begun_s > self.unnoted_s:
            self.note(begun_s, what, describe)

    def note(self, begun_s: float, what: str, describe: Callable[[], str] = str) -> None:
        """Count work if it was long, and keep its time if it was the longest."""
        took_s = self.now_s() - begun_s
        self._measured_s += took_s
        self._judge(took_s, self.cpu_taken_s(took_s), what, describe)

    def note_frames(self, begun_s: float, frames: list[bytes], address: str) -> None:
        """As :meth:`note`, for serving the requests of one read from ``address``."""
        names = _request_names(frames)
        what, kinds = (names[0], "") if len(names) == 1 else ("several requests", f": {', '.join(names)}")
        self.note(begun_s, what, lambda: f"({len(frames)} frames{kinds}) from {address}")

    def _judge(self, took_s: float, cpu_s: float, what: str, describe: Callable[[], str]) -> None:
        self.longest_s = max(self.longest_s, took_s)
        self.longest_cpu_s = max(self.longest_cpu_s, cpu_s)
        self.unnoted_s = min(self.longest_cpu_s, LONG_TURN_MS / 1000)
        if took_s * 1000 <= LONG_TURN_MS:
            return
        if cpu_s * 1000 <= LONG_TURN_MS:
            self._note_delayed(took_s, cpu_s, what)
            return
        self.long_turns[what] += 1
        details = describe()
        self._log.write(
            what,
            f"the event loop ran one piece of work for {took_s * 1000:.0f} ms ({cpu_s * 1000:.0f} ms of CPU time), the "
            f"limit is {LONG_TURN_MS} ms: {what}{' ' if details else ''}{details}; every client waited meanwhile",
        )

    def _note_delayed(self, took_s: float, cpu_s: float, what: str) -> None:
        self.delayed_count += 1
        self._delayed.add(took_s, cpu_s, what)
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._busy_line_ms:
            self._busy_line_ms = now_ms + BUSY_LINE_MS
            log.warning("%s", self._delayed.text())
            self._delayed = _Delayed()

    def _schedule(self) -> None:
        # At whole multiples, so that the process wakes up for several timers at once.
        # A time just below a multiple, as floats give it, counts as that multiple: else the next beat would be now.
        loop = asyncio.get_running_loop()
        beat_number = int(loop.time() * 1000 / HEARTBEAT_MS + 0.001) + 1
        self._heartbeat = loop.call_at(beat_number * HEARTBEAT_MS / 1000, self.beat)

    def beat(self) -> None:
        """Look for unmeasured work since the last heartbeat."""
        now_s, cpu_s = self.now_s(), self._cpu_s()
        late_s = now_s - self._beat_at_s - HEARTBEAT_MS / 1000 - self._measured_s
        if late_s * 1000 > LONG_TURN_MS:
            self._judge(late_s, min(late_s, cpu_s - self._beat_cpu_s), OTHER, str)
        self._beat_at_s, self._beat_cpu_s, self._measured_s = now_s, cpu_s, 0.0
        if self._heartbeat is not None:
            self._schedule()


class _Delayed:
    """The delayed work since the last line about it."""

    def __init__(self) -> None:
        self._count = 0
        self._worst = (0.0, 0.0, "")

    def add(self, took_s: float, cpu_s: float, what: str) -> None:
        self._count += 1
        self._worst = max(self._worst, (took_s, cpu_s, what))

    def text(self) -> str:
        took_s, cpu_s, what = self._worst
        times = f"{self._count} times" if self._count > 1 else "once"
        return (
            f"the machine is busy: {times} since the last such line the event loop waited for a processor or a disk, "
            f"at most {took_s * 1000:.0f} ms ({cpu_s * 1000:.0f} ms of CPU time), in {what}; every client waited "
            "meanwhile"
        )


def _request_names(frames: list[bytes]) -> list[str]:
    """Return the kinds of the first requests in ``frames``, without repetitions."""
    names: dict[str, None] = {}
    for payload in frames[:NAMED_REQUESTS_MAX]:
        try:
            command = decode_command(payload)
        except ProtocolViolation:
            continue
        # A peer chooses the code: what has no name must not become a metric's label.
        name = "answer" if command.is_response else request_name(command.code)
        names["request without a name" if name.startswith("code ") else name] = None
    return list(names) or ["part of a frame"]
