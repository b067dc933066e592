"""Reports the progress of Spark's tasks to the driver by datagrams; the next one makes up for a lost one."""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

INTERVAL_S = 0.2
_DATAGRAM_MAX_BYTES = 256


class RowSender:
    """Sends a task's row count to the driver at intervals; does nothing with an empty ``target``."""

    def __init__(self, target: str, task: str) -> None:
        self._task = task
        self._rows = 0
        self._next_s = 0.0
        self._socket: socket.socket | None = None
        if target:
            address, _, self._token = target.rpartition("/")
            host, _, port = address.rpartition(":")
            self._address = host, int(port)
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def add(self, rows: int) -> None:
        """Count rows and send the sum once per interval."""
        self._rows += rows
        if self._socket is not None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + INTERVAL_S
            message = json.dumps([self._token, self._task, self._rows]).encode()
            with suppress(OSError):
                self._socket.sendto(message, self._address)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()


class RowListener:
    """Sums the tasks' counts in a thread of the driver and calls ``on_rows`` with each new sum."""

    def __init__(self, on_rows: Callable[[int], None], host: str = "127.0.0.1") -> None:
        self._on_rows = on_rows
        self._token = secrets.token_hex(8)
        self._rows: dict[str, int] = {}
        self._stopping = threading.Event()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.settimeout(INTERVAL_S)
        bound_host, port = self._socket.getsockname()
        self.target = f"{bound_host}:{port}/{self._token}"
        self._thread = threading.Thread(target=self._listen, name="pymq-export-progress", daemon=True)

    def __enter__(self) -> RowListener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with suppress(OSError):  # wakes the thread; without it the end comes an interval later
            self._socket.sendto(b"{}", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                message = json.loads(self._socket.recv(_DATAGRAM_MAX_BYTES))
            except (OSError, ValueError):
                continue
            if isinstance(message, list) and len(message) == 3 and message[0] == self._token:
                _, task, rows = message
                if rows > self._rows.get(task, 0):
                    self._rows[task] = rows
                    self._on_rows(sum(self._rows.values()))
