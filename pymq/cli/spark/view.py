"""What ``pymq spark-export`` shows on a terminal: a bar for one run, a live view for one that follows."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from pymq.cli.output import print_note, printable
from pymq.spark.session.job_progress import NoProgress

if TYPE_CHECKING:
    from pymq.spark.session.job_progress import ExportProgress

RATE_WINDOW_S = 10.0
TOPICS_SHOWN_MAX = 10
BATCHES_KEPT = 100
NAME_WIDTH_MAX = 40
BAR_WIDTH = 20


class Kept(NoProgress):
    """Says what a failed or interrupted run has committed, and what is tried again: for a pipe or a dumb terminal."""

    def trying_again(self, why: str) -> None:
        print_note(f"pymq: trying again: {why}")

    def kept(self, rows: int, output: str) -> None:
        if rows:
            print_note(f"pymq: {rows} rows of this run are committed in {output}: the same command continues there")


class Rate:
    """Rows a second over the last ten seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, done: int) -> None:
        """Take the number of rows so far."""
        self._samples.append((self._now_s(), done))

    @property
    def per_s(self) -> float:
        """The rate; 0 before two samples are there, and when no row came in the window."""
        begin_s = self._now_s() - RATE_WINDOW_S
        while len(self._samples) > 1 and self._samples[1][0] <= begin_s:
            self._samples.popleft()
        if len(self._samples) < 2:
            return 0.0
        (first_s, first), (_, last) = self._samples[0], self._samples[-1]
        return (last - first) / max(self._now_s() - max(first_s, begin_s), 0.001)


class _Batch(NamedTuple):
    rows: int
    seconds: float


class Bar(Kept):
    """The line of one run: rows, planned rows, rate, time so far, and time left."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._begun_s = now_s()
        self._phase = "planning"
        self._done = self._planned = 0
        self._rate = Rate(now_s)

    def phase(self, text: str) -> None:
        self._phase = text

    def rows(self, done: int, planned: int) -> None:
        self._done, self._planned = done, planned
        self._rate.note(done)

    def lines(self) -> list[str]:
        """Return what to show now."""
        words = [f"{self._phase:<12}"]
        if self._planned:
            full = BAR_WIDTH * self._done // self._planned
            words += [f"[{'=' * full:<{BAR_WIDTH}}]", f"{self._done:,}/{self._planned:,}"]
        words.append(clock_text(self._now_s() - self._begun_s))
        if rate := self._rate.per_s:
            words += [f"{rate:,.0f}/s", f"{clock_text((self._planned - self._done) / rate)} left"]
        return [" ".join(words)]


class FollowView(Kept):
    """The lines of a run that follows: rows a second, what each topic is behind, and the batches' times."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._begun_s = now_s()
        self._phase = "planning"
        self._done = 0
        self._rate = Rate(now_s)
        self._behind: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self._batches: deque[_Batch] = deque(maxlen=BATCHES_KEPT)
        self._batch_count = 0

    def phase(self, text: str) -> None:
        self._phase = text

    def rows(self, done: int, planned: int) -> None:
        self._done = done
        self._rate.note(done)

    def topics(self, behind: Mapping[str, int], rows: Mapping[str, int]) -> None:
        self._behind, self._rows = dict(behind), dict(rows)

    def batch(self, rows: int, seconds: float) -> None:
        self._batches.append(_Batch(rows, seconds))
        self._batch_count += 1

    def lines(self) -> list[str]:
        """Return what to show now."""
        shown = clock_text(self._now_s() - self._begun_s)
        return [
            f"{self._phase} | {self._done:,} rows | {self._rate.per_s:,.0f}/s | {shown}",
            *self._topic_lines(),
            *self._batch_lines(),
        ]

    def _topic_lines(self) -> list[str]:
        behind = self._behind
        if not behind:
            return []
        names = sorted(behind, key=lambda name: (-behind[name], -self._rows.get(name, 0), name))
        width = max(5, *(min(len(printable(name)), NAME_WIDTH_MAX) for name in names[:TOPICS_SHOWN_MAX]))
        lines = [f"{'topic':<{width}}  {'behind':>14}  {'exported':>14}"]
        for name in names[:TOPICS_SHOWN_MAX]:
            text = printable(name)
            text = text if len(text) <= width else f"{text[: width - 1]}…"
            lines.append(f"{text:<{width}}  {behind[name]:>14,}  {self._rows.get(name, 0):>14,}")
        if more := names[TOPICS_SHOWN_MAX:]:
            lines.append(f"… {len(more)} more topics, {sum(behind[name] for name in more):,} behind")
        return lines

    def _batch_lines(self) -> list[str]:
        if not self._batches:
            return []
        last, times = self._batches[-1], [batch.seconds for batch in self._batches]
        mean, longest = sum(times) / len(times), max(times)
        return [
            f"batches: {self._batch_count:,}, the last {last.rows:,} rows in {last.seconds:.1f} s; "
            f"mean {mean:.1f} s, longest {longest:.1f} s"
        ]


def clock_text(seconds: float) -> str:
    """Return a duration as ``4:05``, or ``1:04:05`` from an hour on."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


@contextmanager
def export_progress(*, follows: bool) -> Iterator[ExportProgress]:
    """Show progress on stderr while the block runs, when stderr is a terminal that can draw."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield Kept()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    view: Bar | FollowView = FollowView() if follows else Bar()

    def drawn() -> Text:
        return Text("\n".join(view.lines()), no_wrap=True, overflow="ellipsis")

    with Live(get_renderable=drawn, console=Console(stderr=True), transient=True, refresh_per_second=4):
        yield view
