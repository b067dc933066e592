"""A clock that a test moves under a real process: ``sitecustomize`` shifts what Python reads from the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_SITE = """
import os, time

_wall_ns, _monotonic_ns, _get_ns = time.time_ns, time.monotonic_ns, time.clock_gettime_ns


def _shift_s(place):
    with open(os.environ["PYMQ_MOVED_CLOCK"]) as file:
        return int(file.read().split()[place])


time.time_ns = lambda: _wall_ns() + _shift_s(0) * 10**9
time.time = lambda: time.time_ns() / 1e9
time.monotonic_ns = lambda: _monotonic_ns() + _shift_s(1) * 10**9
time.clock_gettime_ns = lambda clock: _get_ns(clock) + _shift_s(1) * 10**9
"""


class MovedClock:
    """Moves the clocks of all processes that are started after it is made."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        directory.mkdir()
        (directory / "sitecustomize.py").write_text(_SITE)
        self._file = directory / "shift"
        self._wall_s = self._running_s = 0
        self._write()
        patch.setenv("PYMQ_MOVED_CLOCK", str(self._file))
        path = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", f"{directory}{os.pathsep}{path}" if path else str(directory))

    def jump(self, by_s: int) -> None:
        """Move the wall clock alone."""
        self._wall_s += by_s
        self._write()

    def let_pass(self, duration_s: int) -> None:
        """Move all clocks."""
        self._running_s += duration_s
        self.jump(duration_s)

    def _write(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{self._wall_s} {self._running_s}")
        fresh.replace(self._file)
