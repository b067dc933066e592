"""Runs `pymq standalone` for a measurement: name server and broker in one process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from bench import process
from bench.control import BenchError


class PyMQBroker:
    """A standalone PyMQ on free loopback ports, with its files under ``directory``.

    Args:
        directory: created if it does not exist.
        command: the pymq command; default ``-m pymq`` of the running interpreter.
        settings: keys of broker.conf.
    """

    name = "PyMQ"

    def __init__(
        self, directory: Path, command: list[str] | None = None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._directory = directory
        self._settings = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        self._command = command or [sys.executable, "-m", "pymq"]
        self._process: subprocess.Popen[str] | None = None
        self.namesrv = ""
        self.broker = ""
        self.metrics = ""  # where it serves metrics, if it does
        self.ready_s = 0.0

    @property
    def pids(self) -> list[int]:
        return [self.broker_pid]

    @property
    def broker_pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, within_s: float = process.START_DEADLINE_S) -> None:
        """Starts the process and waits for its ready line; ``ready_s`` is the time from the start to that line.

        Raises:
            BenchError: the process ended, or was not ready within ``within_s``.
        """
        begin = self._spawn()
        self._await_ready(within_s)
        self.ready_s = time.monotonic() - begin

    def _await_ready(self, within_s: float = process.START_DEADLINE_S) -> None:
        assert self._process is not None
        line = process.first_line(self._process, within_s)
        if not line:
            self._process.wait()
            raise BenchError(f"pymq standalone did not become ready: {self.last_words()}")
        self.take_ready(json.loads(line))

    def take_ready(self, ready: dict[str, str]) -> None:
        """Notes the addresses that the ready line names."""
        self.namesrv, self.broker, self.metrics = ready["namesrv"], ready["broker"], ready.get("metrics", "")

    def last_words(self) -> str:
        """Returns the end of the process's log."""
        return self._errors.read_text()[-2000:].strip()

    def restart(self) -> float:
        """Starts it again at the same addresses without waiting; returns the monotonic time of the start."""
        return self._spawn()

    def _spawn(self) -> float:
        self._directory.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                [
                    *self._command,
                    "standalone",
                    "--dir",
                    str(self.store_directory),
                    *self._ports(),
                    *self._settings,
                    "--json",
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        return begin

    def _ports(self) -> list[str]:
        """Returns the port options: free ports at first, the same ports later."""
        namesrv_port, broker_port = (address.rpartition(":")[2] or "0" for address in (self.namesrv, self.broker))
        return ["--namesrv-port", namesrv_port, "--port", broker_port]

    @property
    def _errors(self) -> Path:
        return self._directory / "standalone.err"

    @property
    def store_directory(self) -> Path:
        return self._directory / "data"

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        assert self._process is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def stop_broker(self) -> None:
        """Stops it cleanly after :meth:`restart`, once it is ready: an earlier signal would interrupt its recovery."""
        self._await_ready()
        self.stop()

    def stop(self, within_s: float = process.STOP_DEADLINE_S) -> None:
        if self._process is not None:
            process.stop(self._process, within_s)
            assert self._process.stdout is not None
            self._process.stdout.close()

    def topic_list_command(self) -> list[str]:
        return [*self._command, "topic", "list", "--namesrv", self.namesrv]

    def environment(self) -> dict[str, str]:
        return dict(os.environ)
