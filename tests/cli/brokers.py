"""A name server and the brokers of one name, each in its own process: tests stop, kill and restart them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Any

from pymq.cli import main as cli
from pymq.client.sync_admin import Admin
from tests.cli.common.test_servers import STOP_TIMEOUT_S, first_line, process
from tests.ports import free_port_block

DEADLINE_S = 90.0
POLL_S = 0.05
SETTINGS = ("mappedFileSizeCommitLog=1048576", "maxHashSlotNum=1000", "maxIndexNum=4000")


class Brokers:
    """Brokers by a name of the test's choice. A restarted broker keeps its port, flags and directory."""

    def __init__(self, home: Path, **namesrv_settings: str) -> None:
        """``namesrv_settings`` holds settings of the name server by their names."""
        self.home = home
        self._namesrv_flags = [part for key, value in namesrv_settings.items() for part in ("--set", f"{key}={value}")]
        self.namesrv = ""
        self.addresses: dict[str, str] = {}
        self._flags: dict[str, list[str]] = {}
        self._ports: dict[str, int] = {}
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Brokers:
        server = self._stack.enter_context(
            process("namesrv", "--port", "0", "--json", *self._namesrv_flags, home=self.home)
        )
        self.namesrv = json.loads(first_line(server))["namesrv"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, name: str, *flags: str, **settings: str) -> str:
        """Start the broker, the first time with ``flags``, and return its address once it serves."""
        if name not in self._flags:
            pairs = [*SETTINGS, *(f"{key}={value}" for key, value in settings.items())]
            sets = [part for pair in pairs for part in ("--set", pair)]
            self._flags[name] = [*flags, "--store", str(self.directory(name)), *sets]
            self.move(name)
        running = self._spawn(name, str(self._ports[name]))
        line = first_line(running)
        assert line, f"{name} did not start: exit code {running.wait(STOP_TIMEOUT_S)}\n{self._logs()}"
        self._running[name] = running
        self.addresses[name] = json.loads(line)["broker"]
        return self.addresses[name]

    def move(self, name: str) -> None:
        """Let the broker's next start be on another port."""
        self._ports[name] = free_port_block()

    def restart_with_id(self, name: str, broker_id: int) -> str:
        """Start a stopped broker with another id, and return its address."""
        flags = self._flags[name]
        flags[flags.index("--id") + 1] = str(broker_id)
        return self.start(name)

    def start_refused(self, name: str, *flags: str) -> int:
        """Return the exit code of a broker that must not start."""
        self._flags[name] = [*flags, "--store", str(self.directory(name))]
        running = self._spawn(name, "0")
        assert first_line(running) == ""
        return running.wait(STOP_TIMEOUT_S)

    def _spawn(self, name: str, port: str) -> subprocess.Popen[str]:
        arguments = ["broker", "--namesrv", self.namesrv, "--port", port, "--json", *self._flags[name]]
        return self._stack.enter_context(process(*arguments, home=self.home))

    def _logs(self) -> str:
        """Return the last lines of each process's log."""
        logs = sorted(self.home.glob("*.log"), key=lambda path: path.stat().st_mtime)
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1000:]}" for log in logs)

    def directory(self, name: str) -> Path:
        return self.home / name

    def stop(self, name: str) -> None:
        """Send SIGTERM and wait for the end."""
        self._end(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        """Send SIGKILL and wait for the end."""
        self._end(name, signal.SIGKILL)

    def signal(self, name: str, which: Signals) -> None:
        """Send a running broker a signal, such as SIGSTOP or SIGCONT."""
        os.kill(self._running[name].pid, which)

    def _end(self, name: str, how: Signals) -> None:
        running = self._running.pop(name)
        os.kill(running.pid, how)
        running.wait(STOP_TIMEOUT_S)

    def run(self, *arguments: str) -> int:
        """Run a command on this cluster and return its exit code."""
        return cli.run([*arguments, "--namesrv", self.namesrv])

    def json(self, capsys: Any, *arguments: str) -> Any:
        """Run a command and return the JSON that it prints."""
        capsys.readouterr()
        code = self.run(*arguments)
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return json.loads(captured.out)

    def bodies(self, capsys: Any, topic: str) -> list[str]:
        """Return all bodies of a topic."""
        capsys.readouterr()
        assert self.run("tail", topic, "--from", "start", "-F", "-o", "raw") == 0
        return [line for line in capsys.readouterr().out.splitlines() if line]

    def wait_for(self, capsys: Any, **ids: int) -> None:
        """Wait until each named broker has the given id and every slave among them has caught up."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = self._listed(capsys)
            if all(self._is_expected(found.get(self.addresses[name]), broker_id) for name, broker_id in ids.items()):
                return
            assert time.monotonic() < deadline, found
            time.sleep(POLL_S)

    def wait_for_ack(self, capsys: Any, master: str) -> None:
        """Wait until a master knows that its slaves have its log, and has told the name server who they are."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            (status,) = self.json(capsys, "broker", "status", self.addresses[master], "-o", "json")
            if status["slaves"] and all(one["ack_offset"] == status["log_end"] > 0 for one in status["slaves"]):
                break
            assert time.monotonic() < deadline, status
            time.sleep(POLL_S)
        # A master answers this after the registration that it sends with the first ack.
        self.json(capsys, "broker", "status", self.addresses[master], "-o", "json")

    def wait_for_route(self, master: str) -> None:
        """Wait until the name server lists a broker ("host:port") as the master."""
        deadline = time.monotonic() + DEADLINE_S
        with Admin(namesrv=self.namesrv) as admin:
            while master not in [data.master_address for data in admin.cluster.info().broker_addr_table.values()]:
                assert time.monotonic() < deadline, f"{master} is not listed as the master"
                time.sleep(POLL_S)

    def _listed(self, capsys: Any) -> dict[str, dict[str, Any]]:
        """Return the brokers by address; empty when the name server does not answer in time."""
        capsys.readouterr()
        code = self.run("cluster", "list", "-o", "json")
        out = capsys.readouterr().out
        return {one["address"]: one for one in json.loads(out)} if code == 0 else {}

    @staticmethod
    def _is_expected(found: dict[str, Any] | None, broker_id: int) -> bool:
        if found is None or found["broker_id"] != broker_id or found["problems"]:
            return False
        return broker_id == 0 or found["lag_bytes"] == 0

    def log(self, name: str) -> bytes:
        """Return the bytes of its CommitLog."""
        return b"".join(file.read_bytes() for file in sorted((self.directory(name) / "commitlog").iterdir()))
