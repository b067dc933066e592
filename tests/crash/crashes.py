"""Crashes of a broker at calls of its disk, for runs that go on with what is left."""

from __future__ import annotations

import random

from pymq.store.disk.memory_fs import MemoryFiles


class CrashError(BaseException):
    """The process is gone."""


class Crashes:
    """Ends a process at one of its next calls of the disk; ``image`` is what the disk then holds."""

    def __init__(self, rng: random.Random, *, loses_power: bool) -> None:
        """``loses_power``: a crash may lose what was not synced; else it is a kill, which keeps what was written."""
        self._rng = rng
        self._loses_power = loses_power
        self.image: MemoryFiles | None = None

    def await_one(self, files: MemoryFiles, calls_max: int) -> None:
        """Have one of the next calls, of fewer than ``calls_max``, raise CrashError."""
        calls_left = self._rng.randrange(1, calls_max)

        def fault(call: str, path: str) -> None:
            nonlocal calls_left
            calls_left -= 1
            if calls_left == 0:
                files.fault = None
                self.crash(files)
                raise CrashError

        files.fault = fault

    def crash(self, files: MemoryFiles) -> None:
        """Crash now."""
        if not self._loses_power:
            self.image = files.after_kill()
            return
        rng = random.Random(self._rng.random())
        self.image = files.after_power_loss(lambda *_: rng.random() < 0.5, lambda *_: True)

    def left(self) -> MemoryFiles:
        """Return what the crash left; once."""
        image, self.image = self.image, None
        assert image is not None, "nothing has crashed"
        return image
