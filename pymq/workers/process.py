"""One worker as a child process: its start, its ready message, its answers and its end."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pymq.net.parent_link import LEFT_REQUEST, METRICS_REQUEST
from pymq.workers.forked import ForkedChild, worker_environ

ANSWER_MAX_BYTES = 256 * 1024 * 1024


class WorkerProcess:
    """A running worker. It ends with this process, however that ends, because its standard input does."""

    def __init__(self, process: Process | ForkedChild) -> None:
        self._process = process
        self._asking: dict[str, asyncio.Task[bytes]] = {}
        self._turn = asyncio.Lock()  # one request at a time
        self.ready: dict[str, Any] = {}

    @classmethod
    async def start(cls, command: Sequence[str], environ: Mapping[str, str]) -> WorkerProcess:
        """Start ``command``. Its log goes where this process's goes; Ctrl-C reaches this process alone."""
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=worker_environ(environ), start_new_session=True
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
        """Return the text of the worker's metrics. Raises EOFError, OSError when it ends meanwhile."""
        return await self._once(METRICS_REQUEST)

    async def left(self) -> dict[str, int] | None:
        """Return what the worker still has to give, by kind; None while it does not know. Raises as :meth:`metrics`."""
        found: dict[str, int] | None = json.loads(await self._once(LEFT_REQUEST))
        return found

    async def _once(self, request: str) -> bytes:
        """Ask; all who ask the same meanwhile get the same answer, also after one of them has given up."""
        task = self._asking.get(request)
        if task is None or task.done():
            task = self._asking[request] = asyncio.ensure_future(self._ask(request))
        return await asyncio.shield(task)

    async def _ask(self, request: str) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        async with self._turn:
            if self._process.stdin.is_closing():  # uvloop raises RuntimeError for a write there
                raise EOFError(f"the worker with pid {self.pid} has ended")
            self._process.stdin.write(f"{request}\n".encode())
            line = await self._process.stdout.readline()
            size = json.loads(line)["bytes"] if line else -1
            if not 0 <= size <= ANSWER_MAX_BYTES:
                raise EOFError(f"the worker with pid {self.pid} does not answer")
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
