"""WorkerPool: worker processes that filter records. A process that hangs or dies is replaced; its task fails."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Any, TypeVar

from pymq.errors import PymqError
from pymq.filterserver.work import (
    LENGTH,
    Answer,
    Compile,
    Compiled,
    FilterRecords,
    Forget,
    RecordOutcomes,
    Task,
    decode_answer,
    framed,
)

log = logging.getLogger(__name__)

# -P keeps the working directory off the import path: a file named like a module there would run in the worker.
COMMAND = (sys.executable, "-P", "-m", "pymq.filterserver.worker")
START_TIME_MAX_S = 30.0  # for a process and its imports, on a busy machine
COMPILE_TIME_MAX_S = 20.0  # includes a filter's imports
TASK_TIME_MAX_S = 8.0  # above a filter's own limit per batch: the process does not respond
WORKER_COUNT_MAX = 64

AnswerT = TypeVar("AnswerT", Compiled, RecordOutcomes)


class WorkerFailedError(PymqError):
    """A worker process hung or died at its task, and was replaced."""


class Filter:
    """A filter and its expression. Every subscription has its own, because filters may keep state."""

    _ids = count(1)

    def __init__(self, name: str, expression: str) -> None:
        self.filter_id = next(Filter._ids)
        self.name = name
        self.expression = expression
        self.keeps_state = False  # set when it is compiled


class WorkerPool:
    """``count`` processes, each started when it is first needed.

    A filter that keeps state sees all messages of its subscription in one process. Other filters use any free process.
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
        """The number of processes that died or were killed, and were replaced."""
        return sum(worker.failure_count for worker in self._workers)

    @property
    def kill_count(self) -> int:
        """The number of processes that were killed because they took too long."""
        return sum(worker.kill_count for worker in self._workers)

    @property
    def running_count(self) -> int:
        return sum(worker.is_running for worker in self._workers)

    async def compile(self, target: Filter) -> str:
        """Compile a filter. Returns why it can't be used, or an empty text."""
        try:
            return await self._pick(target).compile(target)
        except WorkerFailedError as error:
            return f"{error} while it compiled the expression"

    async def filter_records(self, target: Filter, broker_name: str, records: bytes) -> RecordOutcomes:
        """Filter records, back to back. Raises WorkerFailedError."""
        return await self._pick(target).filter_records(target, broker_name, records)

    async def forget(self, target: Filter) -> None:
        """Free the workers' data of a filter."""
        for worker in self._workers:
            await worker.forget(target)

    async def stop(self) -> None:
        """Kill the processes."""
        for worker in self._workers:
            await worker.stop()

    def _pick(self, target: Filter) -> _Process:
        if target.keeps_state:
            return self._workers[target.filter_id % len(self._workers)]
        return min(self._workers, key=lambda worker: worker.waiting_count)


class _Process:
    """One process, or the slot of one that is not running. It does its tasks one after the other."""

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

    async def compile(self, target: Filter) -> str:
        self.waiting_count += 1
        try:
            async with self._turn:
                return await self._make_known(target)
        finally:
            self.waiting_count -= 1

    async def filter_records(self, target: Filter, broker_name: str, records: bytes) -> RecordOutcomes:
        self.waiting_count += 1
        try:
            async with self._turn:
                if error := await self._make_known(target):
                    raise WorkerFailedError(error)
                return await self._ask(FilterRecords(target.filter_id, broker_name, records), RecordOutcomes)
        finally:
            self.waiting_count -= 1

    async def forget(self, target: Filter) -> None:
        async with self._turn:
            if target.filter_id in self._known and self._running is not None:
                self._known.discard(target.filter_id)
                assert self._running.stdin is not None
                self._running.stdin.write(framed(Forget(target.filter_id)))

    async def stop(self) -> None:
        running, self._running = self._running, None
        self._known.clear()
        if running is not None:
            if running.returncode is None:
                running.kill()
            await running.wait()

    async def _make_known(self, target: Filter) -> str:
        if target.filter_id in self._known:
            return ""
        answer = await self._ask(Compile(target.filter_id, target.name, target.expression), Compiled)
        if not answer.error:
            self._known.add(target.filter_id)
            target.keeps_state = answer.keeps_state
        return answer.error

    async def _ask(self, task: Task, kind: type[AnswerT]) -> AnswerT:
        if self._running is None:
            await self._start()
        limit_s = self._compile_time_max_s if isinstance(task, Compile) else self._task_time_max_s
        answer = await self._within(limit_s, self._exchange(task))
        assert isinstance(answer, kind)
        return answer

    async def _within(self, limit_s: float, exchange: Coroutine[Any, Any, Answer]) -> Answer:
        """Await ``exchange``. A failure ends the process, because a late answer would be taken for the next one's."""
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
            start_new_session=True,  # Ctrl-C in a terminal goes only to the server, which stops its workers itself
        )
        await self._within(START_TIME_MAX_S, self._read())

    async def _failed(self, why: str) -> WorkerFailedError:
        self.failure_count += 1
        await self.stop()
        log.warning("%s; another one takes its place", why)
        return WorkerFailedError(why)
