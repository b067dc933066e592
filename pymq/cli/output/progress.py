"""Progress of long work on a terminal's stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_MIB = 1 << 20


class Progress(Protocol):
    """Receives the progress of long work, in the unit that it was created with."""

    def advance(self, count: int) -> None: ...
    def set_total(self, total: int) -> None: ...


class _Silent:
    def advance(self, count: int) -> None:
        pass

    def set_total(self, total: int) -> None:
        pass


class _RichProgress:
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar = bar
        self._task = task

    def advance(self, count: int) -> None:
        self._bar.advance(self._task, count)

    def set_total(self, total: int) -> None:
        self._bar.update(self._task, total=total)


@contextmanager
def progress(description: str, total: int | None = None, *, wanted: bool = True) -> Iterator[Progress]:
    """Show a bar with count and rate on stderr during the block, if ``wanted`` and stderr is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    class Rate(TextColumn):
        def render(self, task: Any) -> Any:
            from rich.text import Text

            return Text(f"{task.speed or 0:,.0f}/s")

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(""),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        yield _RichProgress(bar, bar.add_task(description, total=total))


@contextmanager
def progress_in_mib(description: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a bar in MiB; yields a function that takes the number of bytes done since its last call."""
    done = shown = 0
    with progress(f"{description} (MiB)", total_bytes // _MIB) as bar:

        def advance(size: int) -> None:
            nonlocal done, shown
            done += size
            if done // _MIB > shown:
                bar.advance(done // _MIB - shown)
                shown = done // _MIB

        yield advance
