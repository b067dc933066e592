"""One worker as a child process: its start, its ready message, its metrics and its end."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pymq.net.parent_link import METRICS_REQUEST
from pymq.net.runtime import ENDS_WITH_INPUT
from pymq.net.service_manager import VARIABLE as SERVICE_VARIABLE

METRICS_MAX_BYTES = 256 * 1024 * 1024


class WorkerProcess:
    """A running worker. It ends with this process, however that ends, because its standard input does."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._asking: asyncio.Task[bytes] | None = None
        self.ready: dict[str, Any] = {}

    @classmethod
    async def start(cls, command: Sequence[str], environ: Mapping[str, str]) -> WorkerProcess:
        """Start ``command``. Its log goes where this process's goes; Ctrl-C reaches this process alone."""
        own = {key: value for key, value in environ.items() if key != SERVICE_VARIABLE} | {ENDS_WITH_INPUT: "1"}
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=own, start_new_session=True
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether the worker has said that it serves, and has not ended."""
        return bool(self.ready) and self._process.returncode is None

    async def wait_ready(self) -> bool:
        """Wait for the ready message; return False when the worker ends before it."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        self.ready = json.loads(line) if line.endswith(b"\n") else {}
        return bool(self.ready)

    async def wait(self) -> int:
        """Wait for the end and return the exit code, below 0 for a signal."""
        return await self._process.wait()

    async def metrics(self) -> bytes:
        """Return the text of the worker's metrics. Raises EOFError, OSError when it ends meanwhile.

        All who ask at the same time get the same answer, also after one of them has given up.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(METRICS_REQUEST)
        line = await self._process.stdout.readline()
        size = json.loads(line)["metrics"] if line else -1
        if not 0 <= size <= METRICS_MAX_BYTES:
            raise EOFError(f"the worker with pid {self.pid} sent no metrics")
        return await self._process.stdout.readexactly(size)

    def pin(self, core: int) -> None:
        """Let the worker run on one core alone, where the system can do that."""
        if hasattr(os, "sched_setaffinity"):
            with suppress(OSError):
                os.sched_setaffinity(self.pid, {core})

    def end(self, *, at_once: bool = False) -> None:
        """Ask the worker to end in order, or end it ``at_once``."""
        with suppress(ProcessLookupError):
            if at_once:
                self._process.kill()
            else:
                self._process.terminate()
