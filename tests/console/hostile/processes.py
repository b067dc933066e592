"""A console in a process of its own, its memory and descriptors, and a browser that asks it over a socket."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Final

MIB: Final = 1024 * 1024
STOP_TIMEOUT_S: Final = 30.0


class ConsoleProcess:
    """``pymq console`` on a free port; a context manager. ``log``: what it wrote to stderr."""

    def __init__(self, *namesrv: str, log_level: str = "warning") -> None:
        self._command = [sys.executable, "-m", "pymq", "console", "--json", "--port", "0", "--log-level", log_level]
        self._command += ["--namesrv", ";".join(namesrv)]
        self._process: subprocess.Popen[str] | None = None
        self._log: list[str] = []
        self.url = self.host = ""
        self.port = self.pid = 0

    def __enter__(self) -> ConsoleProcess:
        process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._process = process
        assert process.stdout is not None and process.stderr is not None
        threading.Thread(target=_read, args=(process.stderr, self._log), daemon=True).start()
        line = process.stdout.readline()
        assert line, self.log
        ready = json.loads(line)
        self.url, self.pid = ready["console"], ready["pid"]
        self.host = self.url.partition("://")[2]
        self.port = int(self.host.rpartition(":")[2])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()

    def start_again(self) -> None:
        """End the process and start another, on another port."""
        self.__exit__(None, None, None)
        self.__enter__()

    @property
    def log(self) -> str:
        return "".join(self._log)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def rss_bytes(self) -> int:
        """Return the memory that the process has now."""
        return self._status_bytes("VmRSS")

    def peak_rss_bytes(self) -> int:
        """Return the most memory that the process has had since :meth:`reset_peak`."""
        return self._status_bytes("VmHWM")

    def reset_peak(self) -> None:
        """Make the memory of this moment the peak."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def descriptor_count(self) -> int:
        """Return how many file descriptors the process has."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def _status_bytes(self, key: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
        raise KeyError(key)

    async def get(self, path: str, query: str = "", source: str = "127.0.0.1") -> tuple[int, bytes]:
        """Return status and body of a page below the context; ``source``: the address that the browser comes from."""
        target = f"/at/{CONTEXT}/{path}" + (f"?{query}" if query else "")
        head = f"GET {target} HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n\r\n"
        answer = await self.send(head.encode(), source)
        status = int(answer.split(b" ", 2)[1])
        return status, answer.partition(b"\r\n\r\n")[2]

    async def send(self, data: bytes, source: str = "127.0.0.1") -> bytes:
        """Send bytes over a new connection; return all that comes until the console closes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
        try:
            writer.write(data)
            return await reader.read()
        finally:
            writer.close()


CONTEXT: Final = "default"


def _read(stream: IO[str], lines: list[str]) -> None:
    with stream:
        for line in stream:
            lines.append(line)
