"""A program that a test starts and talks about: what it has printed, and how it ends."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class RunningProgram:
    """Both streams are kept in ``printed``. Call :meth:`close` at last."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.printed = ""
        self._has_printed_all = False
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.printed += line
                self._changed.notify_all()
        with self._changed:
            self._has_printed_all = True
            self._changed.notify_all()

    def wait_until(self, said: Callable[[str], bool], what: str, timeout_s: float) -> None:
        """Wait until it has printed what ``said`` looks for; ``what`` names that in the error."""
        with self._changed:
            self._changed.wait_for(lambda: said(self.printed) or self._has_printed_all, timeout_s)
            assert said(self.printed), f"it printed:\n{self.printed}\nand not:\n{what}"

    def wait(self, timeout_s: float) -> int:
        """Wait for its end, and for all that it printed. Return its exit code."""
        code = self.process.wait(timeout_s)
        self._thread.join(timeout_s)
        return code

    def close(self) -> None:
        """End it, if it runs, and let go of it."""
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
