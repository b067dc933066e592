"""Runs a real ``pymq standalone`` in a separate process, for tests that need servers on real sockets."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import IO

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


class StandaloneProcess:
    """Runs ``python -m pymq standalone --json`` on free loopback ports; a context manager that starts and stops it.

    ``directory``: the broker's data directory; None for one that is removed at the end. ``settings``: broker keys for
    ``--set``, with RocketMQ's names. After :meth:`start`, ``namesrv`` and ``broker`` ("host:port") and ``pid`` are set;
    with ``--metrics-port`` in ``arguments`` also ``metrics``, with ``--grpc-port`` also ``grpc``, and with
    ``--console-port`` also ``console``, a URL.

    Raises RuntimeError with the process's stderr when it does not become ready.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        settings: dict[str, str] | None = None,
        arguments: Sequence[str] = (),
        namesrv_port: int = 0,
        port: int = 0,
    ) -> None:
        where = ["--ephemeral"] if directory is None else ["--dir", os.fspath(directory)]
        self._command = [sys.executable, "-m", "pymq", "standalone", "--json", *where]
        self._command += ["--namesrv-port", str(namesrv_port), "--port", str(port), *arguments]
        for key, value in (settings or {}).items():
            self._command += ["--set", f"{key}={value}"]
        self._process: subprocess.Popen[str] | None = None
        self._stderr_lines: list[str] = []
        self.namesrv = ""
        self.broker = ""
        self.metrics = ""
        self.grpc = ""
        self.console = ""
        self.pid = 0

    def start(self) -> StandaloneProcess:
        """Start the process and return once it has printed its addresses."""
        assert self._process is None, "started twice"
        process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._process = process
        assert process.stdout is not None and process.stderr is not None
        first_line: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=_read_stdout, args=(process.stdout, first_line), daemon=True).start()
        stderr_reader = threading.Thread(target=_read_stderr, args=(process.stderr, self._stderr_lines), daemon=True)
        stderr_reader.start()
        try:
            line = first_line.get(timeout=READY_TIMEOUT_S)
        except queue.Empty:
            line = ""
        if not line:
            self.kill()
            stderr_reader.join(STOP_TIMEOUT_S)
            raise RuntimeError(f"standalone did not become ready: {self.stderr or 'its stderr is empty'}")
        ready = json.loads(line)
        self.namesrv, self.broker, self.pid = ready["namesrv"], ready["broker"], ready["pid"]
        self.metrics = ready.get("metrics", "")
        self.grpc = ready.get("grpc", "")
        self.console = ready.get("console", "")
        return self

    @property
    def stderr(self) -> str:
        """The text that the process has written to stderr so far."""
        return "".join(self._stderr_lines)

    def stop(self) -> int:
        """Send SIGTERM, wait, and return the exit code (0 for a clean stop)."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Send SIGKILL, a crash that a broker must survive; return the exit code."""
        return self._end(signal.SIGKILL)

    def _end(self, signal_number: int) -> int:
        process = self._process
        assert process is not None, "not started"
        if process.poll() is None:
            process.send_signal(signal_number)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"standalone did not stop within {STOP_TIMEOUT_S:.0f} s of the signal") from None

    def __enter__(self) -> StandaloneProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()


def _read_stdout(stream: IO[str], first_line: queue.SimpleQueue[str]) -> None:
    """Queue the first line (empty at end of file) and drain the rest, so that the process never blocks."""
    with stream:
        first_line.put(stream.readline())
        for _ in stream:
            pass


def _read_stderr(stream: IO[str], lines: list[str]) -> None:
    with stream:
        for line in stream:
            lines.append(line)
