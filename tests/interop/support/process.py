"""Starts and stops the server and client processes of the interop tests."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import IO

STOP_TIMEOUT_S = 30


_PORT_TAKEN = ("bindexception", "address already in use", " is in use")


class Server:
    """A server subprocess in its own process group, with its output in a log file."""

    def __init__(self, name: str, command: list[str], directory: Path, env: dict[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log_path = directory / f"{name}.log"
        self._log: IO[bytes] = self.log_path.open("wb")
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if name == "pymq" else self._log,
            stderr=self._log,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )

    def assert_running(self) -> bool:
        """Return True; raise AssertionError with the end of the log when the process has ended."""
        code = self.process.poll()
        assert code is None, f"{self.name} ended with {code}:\n{self.log_tail()}"
        return True

    def found_port_taken(self) -> bool:
        """Return True when it ended because another process took one of its ports."""
        log = self.log_path.read_text(errors="replace").lower()
        return self.process.poll() is not None and any(words in log for words in _PORT_TAKEN)

    def log_tail(self, line_count: int = 40) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-line_count:])

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """End the process with SIGTERM, then SIGKILL after ``timeout_s``; return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._close_files()
        return self.process.returncode

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_TIMEOUT_S)
        self._close_files()

    def _close_files(self) -> None:
        self._log.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
