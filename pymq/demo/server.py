"""Runs the tour's `pymq standalone`: starts it, reads its addresses, and stops it with a signal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

STOP_TIMEOUT_S = 30.0


class DemoServer:
    """A standalone PyMQ with its console, on free loopback ports, with its data in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None
        self.namesrv = ""
        self.broker = ""
        self.console = ""  # the URL of its pages
        self.pid = 0

    def start(self) -> None:
        """Start it and return once it is ready. Raises RuntimeError when it ends instead; its log is on stderr."""
        ports = ("--namesrv-port", "0", "--port", "0", "--console-port", "0")
        command = [sys.executable, "-m", "pymq", "standalone", "--dir", str(self._directory), *ports, "--json"]
        # In a new session: Ctrl-C ends the tour, and the tour ends the server.
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"pymq standalone ended with exit code {self._process.wait()} before it was ready")
        ready = json.loads(line)
        self.namesrv, self.broker, self.pid = ready["namesrv"], ready["broker"], ready["pid"]
        self.console = ready["console"]

    def command(self, *arguments: str) -> list[str]:
        """Return a pymq command line for this server."""
        return [sys.executable, "-m", "pymq", *arguments, "--namesrv", self.namesrv]

    def stop(self) -> int:
        """Stop it with SIGTERM; return the exit code, 0 for a clean stop."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
