"""PyMQ's own servers under test: `pymq standalone` in a subprocess."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from tests.interop.support.process import Server

READY_TIMEOUT_S = 90
REPOSITORY = Path(__file__).parent.parent.parent.parent


def user_settings(directory: Path) -> dict[str, str]:
    """Return the settings of a server that checks users, with the super user root and the secret root-secret."""
    root = directory / "root.yml"
    root.write_text("accessKey: root\nsecretKey: root-secret\n")
    root.chmod(0o600)
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{root}",
    }


class PymqServer:
    """One standalone process; `namesrv` and `broker` are the addresses of its ready line."""

    kind = "pymq"
    cluster = "DefaultCluster"
    broker_name = "broker-a"

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        store: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.directory = directory
        self.store = store or directory / "data"
        command = [sys.executable, "-m", "pymq", "standalone", "--dir", str(self.store)]
        command += ["--namesrv-port", "0", "--port", "0", "--json", *options]
        for key, value in (settings or {}).items():
            command += ["--set", f"{key}={value}"]
        self._command = command
        self._start()

    def _start(self) -> None:
        self._server = Server("pymq", self._command, self.directory, env={"PYTHONPATH": str(REPOSITORY)})
        ready = self._ready_line()
        self.namesrv: str = ready["namesrv"]
        self.broker: str = ready["broker"]

    def _ready_line(self) -> dict[str, str]:
        lines: list[bytes] = []
        stdout = self._server.process.stdout
        assert stdout is not None
        reader = threading.Thread(target=lambda: lines.append(stdout.readline()), daemon=True)
        reader.start()
        reader.join(READY_TIMEOUT_S)
        if not lines or not lines[0]:
            tail = self._server.log_tail()
            code = self._server.stop()
            raise AssertionError(
                f"pymq standalone printed no ready line within {READY_TIMEOUT_S} s (exit {code}):\n{tail}"
            )
        decoded: dict[str, str] = json.loads(lines[0])
        return decoded

    def stop(self) -> int:
        """End the process and return its exit code."""
        return self._server.stop()

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        self._server.kill()

    def log_tail(self) -> str:
        """Return the last lines of the server's log."""
        return self._server.log_tail()
