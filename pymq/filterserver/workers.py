"""WorkerPool: worker processes that judge records. One that hangs or dies is killed and replaced; its task fails."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Any, TypeVar

from pymq.errors import PymqError
from pymq.filterserver.work import LENGTH, Answer, Compile, Compiled, Forget, Judge, Judged, Task, decode_answer, framed

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "pymq.filterserver.worker")
START_TIME_MAX_S = 30.0  # of a process with its imports, on a machine that is busy
COMPILE_TIME_MAX_S = 20.0  # a filter may import what it needs
TASK_TIME_MAX_S = 8.0  # above what a filter may take for a batch: who is over this can't be reasoned with
WORKER_COUNT_MAX = 64

AnswerT = TypeVar("AnswerT", Compiled, Judged)


class WorkerFailedError(PymqError):
    """A worker process hung or died at its task, and was replaced."""


class Filter:
    """A filter and its expression. Every subscription has one of its own: filters may keep state."""

    _ids = count(1)

    def __init__(self, name: str, expression: str) -> None:
        self.filter_id = next(Filter._ids)
        self.name = name
        self.expression = expression
        self.keeps_state = False  # known once it is compiled


class WorkerPool:
    """``count`` processes, started when they are first needed.

    A filter that keeps state sees all messages of its subscription in one process, others go to whichever is free.
    """

    def __init__(
        self,
        count: int,
        *,
        command: Sequence[str] = COMMAND,
        compile_time_max_s: float = COMPILE_TIME_MAX_S,
        task_time_max_s: float = TASK_TIME_MAX_S,
    ) -> None:
        assert 0 < count <= WORKER_COUNT_MAX
        self._workers = [_Process(command, compile_time_max_s, task_time_max_s) for _ in range(count)]

    @property
    def count(self) -> int:
        return len(self._workers)

    @property
    def restart_count(self) -> int:
        """Processes that were killed, or died, and were replaced."""
        return sum(worker.failure_count for worker in self._workers)

    @property
    def kill_count(self) -> int:
        """Those of them that were killed because they took too long."""
        return sum(worker.kill_count for worker in self._workers)

    @property
    def running_count(self) -> int:
        return sum(worker.is_running for worker in self._workers)

    async def compile(self, wanted: Filter) -> str:
        """Why the filter can't be used; empty when it can."""
        try:
            return await self._pick(wanted).compile(wanted)
        except WorkerFailedError as error:
            return f"{error} while it compiled the expression"

    async def judge(self, wanted: Filter, broker_name: str, records: bytes) -> Judged:
        """Raises WorkerFailedError."""
        return await self._pick(wanted).judge(wanted, broker_name, records)

    async def forget(self, unwanted: Filter) -> None:
        """Frees what workers hold for a filter."""
        for worker in self._workers:
            await worker.forget(unwanted)

    async def stop(self) -> None:
        """Kills the processes."""
        for worker in self._workers:
            await worker.stop()

    def _pick(self, wanted: Filter) -> _Process:
        if wanted.keeps_state:
            return self._workers[wanted.filter_id % len(self._workers)]
        return min(self._workers, key=lambda worker: worker.waiting_count)


class _Process:
    """One process, or the place of one that is not running. Its tasks are done one after the other."""

    def __init__(self, command: Sequence[str], compile_time_max_s: float, task_time_max_s: float) -> None:
        self._command = command
        self._compile_time_max_s = compile_time_max_s
        self._task_time_max_s = task_time_max_s
        self._running: asyncio.subprocess.Process | None = None
        self._known: set[int] = set()
        self._turn = asyncio.Lock()
        self.waiting_count = 0
        self.failure_count = 0
        self.kill_count = 0

    @property
    def is_running(self) -> bool:
        return self._running is not None

    async def compile(self, wanted: Filter) -> str:
        self.waiting_count += 1
        try:
            async with self._turn:
                return await self._make_known(wanted)
        finally:
            self.waiting_count -= 1

    async def judge(self, wanted: Filter, broker_name: str, records: bytes) -> Judged:
        self.waiting_count += 1
        try:
            async with self._turn:
                if error := await self._make_known(wanted):
                    raise WorkerFailedError(error)
                return await self._ask(Judge(wanted.filter_id, broker_name, records), Judged)
        finally:
            self.waiting_count -= 1

    async def forget(self, unwanted: Filter) -> None:
        async with self._turn:
            if unwanted.filter_id in self._known and self._running is not None:
                self._known.discard(unwanted.filter_id)
                assert self._running.stdin is not None
                self._running.stdin.write(framed(Forget(unwanted.filter_id)))

    async def stop(self) -> None:
        running, self._running = self._running, None
        self._known.clear()
        if running is not None:
            if running.returncode is None:
                running.kill()
            await running.wait()

    async def _make_known(self, wanted: Filter) -> str:
        if wanted.filter_id in self._known:
            return ""
        answer = await self._ask(Compile(wanted.filter_id, wanted.name, wanted.expression), Compiled)
        if not answer.error:
            self._known.add(wanted.filter_id)
            wanted.keeps_state = answer.keeps_state
        return answer.error

    async def _ask(self, task: Task, kind: type[AnswerT]) -> AnswerT:
        if self._running is None:
            await self._start()
        limit_s = self._compile_time_max_s if isinstance(task, Compile) else self._task_time_max_s
        answer = await self._within(limit_s, self._exchange(task))
        assert isinstance(answer, kind)
        return answer

    async def _within(self, limit_s: float, exchange: Coroutine[Any, Any, Answer]) -> Answer:
        """What ``exchange`` returns. The process does not outlive a failure: a late answer would be mistaken."""
        try:
            async with asyncio.timeout(limit_s):
                return await exchange
        except TimeoutError:
            self.kill_count += 1
            raise await self._failed(f"a filter worker took more than {limit_s:g} s and was killed") from None
        except (OSError, asyncio.IncompleteReadError):
            raise await self._failed("a filter worker died") from None
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def _exchange(self, task: Task) -> Answer:
        assert self._running is not None and self._running.stdin is not None
        self._running.stdin.write(framed(task))
        await self._running.stdin.drain()
        return await self._read()

    async def _read(self) -> Answer:
        assert self._running is not None
        answers = self._running.stdout
        assert answers is not None
        (size,) = LENGTH.unpack(await answers.readexactly(LENGTH.size))
        answer: Answer = decode_answer(await answers.readexactly(size))
        return answer

    async def _start(self) -> None:
        self._running = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is for the server, which ends its workers itself
        )
        await self._within(START_TIME_MAX_S, self._read())

    async def _failed(self, why: str) -> WorkerFailedError:
        self.failure_count += 1
        await self.stop()
        log.warning("%s; another one takes its place", why)
        return WorkerFailedError(why)
