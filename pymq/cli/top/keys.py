"""Single keys from a terminal, without echo."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import termios
    import tty
except ImportError:  # a system without them: the view runs without keys
    termios = None  # type: ignore[assignment]

_SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[Z": "back tab",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
}
_NAMES = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape"}


def split_keys(text: str) -> Iterator[str]:
    """Yield the names of special keys, and other keys as they are; unknown sequences are skipped."""
    at = 0
    while at < len(text):
        found = next((sequence for sequence in _SEQUENCES if text.startswith(sequence, at)), None)
        if found is not None:
            yield _SEQUENCES[found]
            at += len(found)
        elif text[at] == "\x1b" and at + 1 < len(text) and text[at + 1] in "[O":
            at += 2
            while at < len(text) and not text[at].isalpha() and text[at] != "~":
                at += 1
            at += 1
        else:
            yield _NAMES.get(text[at], text[at])
            at += 1


@contextmanager
def keys_of_terminal() -> Iterator[asyncio.Queue[str]]:
    """Yield a queue of the keys that are pressed, while the block runs; an empty one if stdin is no terminal."""
    pressed: asyncio.Queue[str] = asyncio.Queue()
    if termios is None or not sys.stdin.isatty():
        yield pressed
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(descriptor, 1024)
        if not data:
            loop.remove_reader(descriptor)
            pressed.put_nowait("q")  # the terminal is gone
        for key in split_keys(data.decode("utf-8", "replace")):
            pressed.put_nowait(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield pressed
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
