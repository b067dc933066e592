"""The live view: a full screen that follows samples and keys until ``q``."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pymq.cli.output import printable
from pymq.cli.top.keys import keys_of_terminal
from pymq.cli.top.plain import summary, table_rows
from pymq.cli.top.screen import SPARKS, Choice, Line, View, sort_keys, table
from pymq.errors import PymqError
from pymq.operations.top.rates import Rates
from pymq.operations.top.sample import Sampler
from pymq.units import format_count

_STYLES = {"heading": "bold", "error": "red", "bar": "reverse", "dim": "dim"}
HELP = "1 2 3 view  s sort  r reverse  / find  a all  p pause  q quit"
INTERVALS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_VIEWS = list(View)
FRAME_LINES = 4  # around the table: summary, tabs, help and the heading


class Screen:
    """The state of the live view, without a terminal: takes keys, and gives the lines of a frame."""

    def __init__(self, choice: Choice, interval_s: float, clock_text: Callable[[], str]) -> None:
        self.choice = choice
        self.interval_s = interval_s
        self.rates = Rates()
        self.is_paused = False
        self.is_done = False
        self.error = ""
        self._typed: str | None = None
        self._clock_text = clock_text
        self._page = 1

    def press(self, key: str) -> None:
        """Take a key."""
        if self._typed is not None:
            self._type(key)
        elif key in ("q", "Q", "\x03", "\x04"):
            self.is_done = True
        elif key in ("1", "2", "3"):
            self._show(_VIEWS[int(key) - 1])
        elif key in ("tab", "right", "back tab", "left"):
            step = 1 if key in ("tab", "right") else -1
            self._show(_VIEWS[(_VIEWS.index(self.choice.view) + step) % len(_VIEWS)])
        elif key in ("s", "S"):
            known = sort_keys(self.choice.view)
            step = 1 if key == "s" else -1
            self.choice.sort = known[(known.index(self.choice.sort_key) + step) % len(known)]
        elif key == "/":
            self._typed = self.choice.contains
        else:
            self._switch(key)

    def _switch(self, key: str) -> None:
        """Take a key that switches something or scrolls; ignores others."""
        if key == "r":
            self.choice.is_reversed = not self.choice.is_reversed
        elif key == "a":
            self.choice.everything = not self.choice.everything
        elif key in ("p", " "):
            self.is_paused = not self.is_paused
        elif key in ("+", "-"):
            at = min(range(len(INTERVALS_S)), key=lambda at: abs(INTERVALS_S[at] - self.interval_s))
            step = 1 if key == "+" else -1
            self.interval_s = INTERVALS_S[max(0, min(len(INTERVALS_S) - 1, at + step))]
        else:
            steps = {"down": 1, "j": 1, "up": -1, "k": -1, "page down": self._page, "page up": -self._page}
            self.choice.first_row = max(0, self.choice.first_row + steps.get(key, 0))

    def _type(self, key: str) -> None:
        """Take a key of the text to find."""
        assert self._typed is not None
        if key == "enter":
            self._typed = None
        elif key == "escape":
            self._typed, self.choice.contains = None, ""
        else:
            self._typed = self._typed[:-1] if key == "backspace" else self._typed + (key if len(key) == 1 else "")
            self.choice.contains = self._typed
        self.choice.first_row = 0

    def _show(self, view: View) -> None:
        self.choice.view, self.choice.first_row = view, 0

    def lines(self, width: int, height: int, sparks: str = SPARKS) -> list[Line]:
        """Return ``height`` lines, none longer than ``width``."""
        self._page = max(1, height - FRAME_LINES)
        heading, *rows = table(table_rows(self.rates, self.choice), self.choice, width, sparks)
        self.choice.first_row = min(self.choice.first_row, max(0, len(rows) - self._page))
        shown = rows[self.choice.first_row : self.choice.first_row + self._page]
        body = [Line(self._summary(width), "error" if self.error else ""), Line(self._tabs(len(rows), width), "dim")]
        body += [heading, *shown]
        body += [Line("")] * max(0, height - 1 - len(body))
        return [*body[: height - 1], Line(self._bottom().ljust(width)[:width], "bar")]

    def _summary(self, width: int) -> str:
        right = self._clock_text()
        left = self.error or f"pymq top - {summary(self.rates)}"
        return left[: max(0, width - len(right) - 1)].ljust(max(0, width - len(right))) + right

    def _tabs(self, count: int, width: int) -> str:
        names = [
            f"[{number} {view.value}]" if view is self.choice.view else f" {number} {view.value} "
            for number, view in enumerate(_VIEWS, 1)
        ]
        parts = ["paused"] if self.is_paused else []
        parts += [f"with {printable(self.choice.contains)!r}"] if self.choice.contains else []
        parts += [f"by {self.choice.sort_key}{' reversed' if self.choice.is_reversed else ''}"]
        parts += [format_count(count, "row"), f"every {self.interval_s:g} s"]
        return f"{' '.join(names)}  {', '.join(parts)}"[:width]

    def _bottom(self) -> str:
        return HELP if self._typed is None else f"/{printable(self._typed)}_  (enter keeps it, escape shows all)"


async def watch(sampler: Sampler, screen: Screen, console: Console, sparks: str = SPARKS) -> None:
    """Show the screen and takes samples until the user ends it."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    with keys_of_terminal() as keys, Live(console=console, screen=True, auto_refresh=False) as shown:
        tasks = [
            loop.create_task(_sample(sampler, screen, changed)),
            loop.create_task(_take_keys(keys, screen, changed)),
        ]
        with suppress(NotImplementedError, AttributeError):
            loop.add_signal_handler(signal.SIGWINCH, changed.set)
        try:
            while not screen.is_done:
                size = console.size
                shown.update(_as_text(screen.lines(size.width, size.height, sparks)), refresh=True)
                await changed.wait()
                changed.clear()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _sample(sampler: Sampler, screen: Screen, changed: asyncio.Event) -> None:
    while True:
        if not screen.is_paused:
            try:
                screen.rates.add(await sampler.sample())
                screen.error = ""
            except PymqError as error:
                screen.error = printable(str(error))
            changed.set()
        await asyncio.sleep(screen.interval_s)


async def _take_keys(keys: asyncio.Queue[str], screen: Screen, changed: asyncio.Event) -> None:
    while True:
        screen.press(await keys.get())
        changed.set()


def _as_text(lines: list[Line]) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for number, line in enumerate(lines):
        text.append("\n" if number else "")
        text.append(line.text, _STYLES.get(line.style))
    return text
