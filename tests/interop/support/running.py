"""A client program that runs until its standard input ends, and prints a line for each action."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.interop.support.maven import compiled
from tests.interop.support.tools import own_places, require

JVM_FLAGS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
KILLED_TIMEOUT_S = 30.0


def compiled_program(program: str, artifact_set: str = "client-5.3.3") -> str:
    """Return the class path of such a program; compile it when needed."""
    return compiled(program, artifact_set)


class RunningProgram:
    """One process. A separate thread calls ``on_line`` for every line, which keeps its line end."""

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        on_line: Callable[[str], None],
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """``env``: what its environment has besides this process's."""
        directory.mkdir(parents=True, exist_ok=True)
        self._on_line = on_line
        self._log = (directory / "program.log").open("wb")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._process.poll()

    def write_line(self, line: str) -> None:
        """Write one line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def end(self, timeout_s: float) -> int:
        """End its input, wait, kill it after a timeout, read all lines, and return its exit code."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reader.join(timeout_s)
        self._process.stdout.close()
        self._log.close()
        return code

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self.end(KILLED_TIMEOUT_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._on_line(line)


class RunningJava(RunningProgram):
    """One JVM."""

    def __init__(
        self,
        program: str,
        arguments: list[str],
        directory: Path,
        on_line: Callable[[str], None],
        *,
        artifact_set: str = "client-5.3.3",
        jvm_flags: Sequence[str] = (),
    ) -> None:
        """``program``: a folder of tests/interop/java whose class has the folder's name, with a capital."""
        (java,) = require("java")
        flags = [*JVM_FLAGS, *own_places(directory), f"-Drocketmq.client.logRoot={directory}/logs"]
        flags += jvm_flags
        command = [java, *flags, "-cp", compiled_program(program, artifact_set), f"interop.{program.capitalize()}"]
        super().__init__([*command, *arguments], directory, on_line)
