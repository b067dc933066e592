"""What ``pymq pipeline run`` shows on a terminal: a line for each sink, with its rate and its lag."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pymq.cli.output import printable
from pymq.cli.spark.view import clock_text
from pymq.pipeline.report import Batch, History

SINK_WIDTH_MAX = 31


def lines(name: str, history: History, elapsed_s: float) -> list[str]:
    """Return what to show now; the lines fit 80 columns."""
    shown = [f"pipeline {printable(name)} | {clock_text(elapsed_s)}"]
    sinks = history.sinks()
    if not sinks:
        return [*shown, "waiting for the first batch"]
    width = max(4, *(min(len(printable(sink)), SINK_WIDTH_MAX) for sink in sinks))
    shown.append(f"{'sink':<{width}}  {'batches':>8}  {'rows read':>12}  {'rows/s':>9}  {'behind':>12}")
    for sink in sinks:
        last = history.last(sink)
        behind = "-" if last.behind_rows is None else f"{last.behind_rows:,}"
        shown.append(
            f"{printable(sink)[:width]:<{width}}  {history.batches(sink):>8,}  {history.rows(sink):>12,}  "
            f"{last.rows_per_s:>9,.0f}  {behind:>12}"
        )
    return shown


@contextmanager
def watching(name: str, history: History) -> Iterator[Callable[[Batch], None]]:
    """Yield what takes finished batches; show them on stderr while the block runs, when that is a terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield history.add
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    begun_s = time.monotonic()

    def drawn() -> Text:
        text = "\n".join(lines(name, history, time.monotonic() - begun_s))
        return Text(text, no_wrap=True, overflow="ellipsis")

    with Live(get_renderable=drawn, console=Console(stderr=True), transient=True, refresh_per_second=4):
        yield history.add
