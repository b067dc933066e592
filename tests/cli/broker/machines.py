"""Real machines of workers, in processes, for tests that need servers on real sockets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT_S = 60


class Process:
    """A ``pymq`` command that prints a ready object."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "pymq", *arguments, "--json"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self.lines.extend, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        line = self._process.stdout.readline()
        self.ready: dict[str, Any] = json.loads(line) if line else {}

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Return the exit code, once all that it has started has ended as well."""
        code = self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        assert self._process.stdout is not None and self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()
        return code

    def kill(self) -> None:
        """Kill it, and don't wait for what it has started."""
        self.send(signal.SIGKILL)
        self._process.wait(TIMEOUT_S)

    def stop(self) -> int:
        """End it in order and return its exit code."""
        self.send(signal.SIGTERM)
        return self.wait()

    @property
    def log(self) -> str:
        return "".join(self.lines)


@contextmanager
def running(*arguments: str) -> Iterator[Process]:
    """Run a command during the block; kill what is left of it."""
    process = Process(*arguments)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def name_server() -> Iterator[str]:
    """Run a name server; yield its address."""
    with running("namesrv", "--port", "0") as server:
        yield server.ready["namesrv"]


def machine_arguments(directory: Path, namesrv: str, count: int | str, *more: str) -> list[str]:
    """Return the command line of a machine on any free ports."""
    return [
        *("broker", "--workers", str(count), "--store", str(directory), "--namesrv", namesrv, "--port", "0"),
        *("--log-level", "warning", *more),
    ]


def is_alive(pid: int) -> bool:
    """Return whether a process runs that is no child of this one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
