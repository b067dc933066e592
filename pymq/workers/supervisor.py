"""The process that keeps the workers of a machine running. It serves no client and holds no message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from pymq.clock import Clock
from pymq.errors import EXIT_USAGE, PymqError, UsageError
from pymq.store.disk.workers_file import Worker
from pymq.workers.process import WorkerProcess
from pymq.workers.restarts import ENDS_MAX, WINDOW_MS, Restarts

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 110.0  # systemd's unit grants 120
# A worker that retires is asked so often, and ends after so long without anything left. Consumers commit every 5 s.
LOOK_S = 1.0
SETTLE_MS = 10_000
ANSWER_TIMEOUT_S = 8.0


class Supervised:
    """One worker: its process while there is one, and how often it has ended."""

    def __init__(self, worker: Worker, *, retires: bool = False) -> None:
        """``retires``: it takes no new messages, and ends once it has nothing left to give."""
        self.worker = worker
        self.retires = retires
        self.is_retired = False
        self.address = ""  # where it served last
        self.left: dict[str, int] | None = None  # what it still has to give, by kind; None: not known
        self.restarts = Restarts()
        self.process: WorkerProcess | None = None
        # Set once the worker serves for the first time, is left down, or must not be started again.
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.wake = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether the worker serves."""
        return self.process is not None and self.process.is_ready

    def settle(self, error: PymqError | None = None) -> None:
        if self.first.done():
            return
        if error is None:
            self.first.set_result(None)
        else:
            self.first.set_exception(error)


class Supervisor:
    """Starts the workers side by side, starts those again that end, and ends all."""

    def __init__(
        self,
        workers: Iterable[Worker],
        start: Callable[[Supervised], Awaitable[WorkerProcess]],
        *,
        clock: Clock,
        cores: Sequence[int] = (),
        retiring: Collection[int] = (),
        on_retired: Callable[[Worker], None] = lambda _: None,
    ) -> None:
        """``start`` starts the process of a worker. ``cores``: where they run, in turn; empty: anywhere. ``retiring``:
        numbers of workers that end once they are empty; ``on_retired`` hears of each that has ended so.
        """
        self.supervised = [Supervised(worker, retires=worker.number in retiring) for worker in workers]
        self._on_retired = on_retired
        self._start = start
        self._clock = clock
        self._cores = cores
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._watches: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Return once each worker serves or is left down.

        Raises UsageError when the first start of one fails for what an operator has to mend, or when all are left down.
        """
        self._tasks = [asyncio.ensure_future(self._keep(one)) for one in self.supervised]
        self._watches = [asyncio.ensure_future(self._retire(one)) for one in self.supervised if one.retires]
        await asyncio.gather(*(one.first for one in self.supervised))
        if not any(one.is_up for one in self.supervised):
            raise UsageError("no worker started: the reasons stand above")

    async def _keep(self, one: Supervised) -> None:
        """Run a worker until :meth:`stop`."""
        while not self._is_stopping:
            code = await self._run(one)
            if one.is_retired:
                log.warning("worker %s is retired: nothing is left there, and its folder stays", one.worker.name)
                self._on_retired(one.worker)
                return
            if self._is_stopping:
                break
            name, restarts = one.worker.name, one.restarts
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            if code == EXIT_USAGE and not one.first.done():
                one.settle(UsageError(f"worker {name} did not start (exit code {code}): its reason stands above"))
                return
            delay_ms = restarts.ended(self._clock.monotonic_ms())
            if delay_ms is None:
                log.error(
                    "worker %s ended with %s for the %dth time within %d s and is left down: mend what its log says, "
                    "then send SIGHUP to this process",
                    *(name, how, ENDS_MAX, WINDOW_MS // 1000),
                )
                one.settle()
                one.wake.clear()
                await one.wake.wait()
                continue
            log.warning("worker %s ended with %s and is started again", name, how)
            await asyncio.sleep(delay_ms / 1000)

    async def _run(self, one: Supervised) -> int:
        """Start a worker, wait for its end and return its exit code."""
        try:
            process = await self._start(one)
        except OSError as error:
            log.error("worker %s can't be started: %s", one.worker.name, error)
            return 1
        one.process = process
        if self._is_stopping:
            process.end()
        if self._cores:
            process.pin(self._cores[one.worker.number % len(self._cores)])
        if await process.wait_ready():
            again = " again" if one.restarts.restart_count else ""
            log.info("worker %s (pid %d) serves%s", one.worker.name, process.pid, again)
            one.address = process.ready.get("broker", one.address)
            one.settle()
        code = await process.wait()
        one.process = None
        return code

    async def _retire(self, one: Supervised) -> None:
        """End a worker once it has had nothing left to give for the time to settle."""
        empty_since_ms: int | None = None
        while not one.is_retired:
            await asyncio.sleep(LOOK_S)
            left = await self._left(one)
            if left is not None and left.keys() != (one.left or {}).keys():
                log.info("worker %s retires; left there: %s", one.worker.name, left_text(left))
            one.left = left
            if left is None or left:
                empty_since_ms = None
                continue
            now_ms = self._clock.monotonic_ms()
            empty_since_ms = now_ms if empty_since_ms is None else empty_since_ms
            if now_ms - empty_since_ms >= SETTLE_MS and one.process is not None:
                one.is_retired = True
                one.process.end()

    async def _left(self, one: Supervised) -> dict[str, int] | None:
        """Return what a worker still has to give, None when it does not say."""
        if one.process is None or not one.process.is_ready:
            return None
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await one.process.left()
        except (OSError, EOFError, TimeoutError, ValueError):
            return None

    def revive(self) -> list[str]:
        """Start the workers again that are left down; return their names."""
        revived = [one for one in self.supervised if one.restarts.forgive()]
        for one in revived:
            one.wake.set()
        return [one.worker.name for one in revived]

    async def stop(self) -> None:
        """End all workers: in order, or at once where they need more than :data:`STOP_TIMEOUT_S`."""
        self._is_stopping = True
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for one in self.supervised:
            one.wake.set()
            if one.process is not None:
                one.process.end()
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=STOP_TIMEOUT_S)
        if late:
            for one in self.supervised:
                if one.process is not None:
                    log.error("worker %s has not ended after %g s and is killed", one.worker.name, STOP_TIMEOUT_S)
                    one.process.end(at_once=True)
            await asyncio.wait(self._tasks)
        for one in self.supervised:
            if one.first.done() and not one.first.cancelled():
                one.first.exception()  # seen here, when the start was not waited for


def left_text(left: Mapping[str, int]) -> str:
    """Return what is left as one line."""
    return ", ".join(f"{kind}: {count:,}" for kind, count in sorted(left.items())) or "nothing"
