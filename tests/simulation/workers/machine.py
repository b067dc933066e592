"""A machine of workers: the product's own supervisor in a simulated process, and a broker in a process for each worker.

Only the operating system's side is replaced: how a process starts, is asked to end, and is found to have ended.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from pymq.errors import PymqError
from pymq.store.disk.fs import make_directory
from pymq.store.disk.workers_file import Layout
from pymq.workers.directory import wait_until_free
from pymq.workers.restarts import ENDS_MAX, WINDOW_MS
from pymq.workers.supervisor import Supervised, Supervisor
from tests.simulation.broker_node import PORT, ROOT, SimBroker
from tests.simulation.history import History
from tests.simulation.loop import SimLoop, start
from tests.simulation.machine import Machine
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import MS, Process, Timeline

SIGKILL = 9
FORK_US = 20 * MS  # until the process of a worker runs


class WorkerNode(SimBroker):
    """The broker of one worker. Only its machine starts it."""

    machine: WorkersMachine
    exit_code = 0  # of the process, once it has ended
    save_us = 200 * MS  # a tick, and two fsyncs

    def start(self) -> None:
        """Have the machine start it: switch the machine on, or send it SIGHUP."""
        if self.machine.is_alive:
            self.machine.reload()
        else:
            self.machine.start()

    def launch(self) -> None:
        """Start the process, as the machine does."""
        self.exit_code = -SIGKILL
        super().start()

    def make_lock_file(self) -> None:
        """Make the file of its lock, which files in memory don't need, but who waits until it is free."""
        files = self.disk.files
        fault, files.fault = files.fault, None
        make_directory(files, ROOT)
        files.open(f"{ROOT}/lock", create=True).close()
        files.fault = fault

    def _ended(self, error: Exception) -> None:
        self.exit_code = error.exit_code if isinstance(error, PymqError) else 1
        super()._ended(error)
        if not self.disk.was_faulty:  # there is no other master whose name it could have
            self._history.violated(f"{self.name} ends: {type(error).__name__}: {error}")

    def end(self) -> None:
        """Stop in good order (SIGTERM, or the end of the standard input), once it is not paused."""
        if self.is_alive and self._broker is not None:
            self.process.now(self._end_now, self.process)

    def _end_now(self, life: Process) -> None:
        if life is self.process and self.is_alive:
            self.exit_code = 0
            self.stop()


class SimWorkerProcess:
    """Replaces :class:`pymq.workers.process.WorkerProcess`."""

    def __init__(self, node: WorkerNode, loop: SimLoop) -> None:
        self._node = node
        self._loop = loop
        self._life: Process | None = None
        self._is_ready: asyncio.Future[bool] = loop.create_future()
        self._code: asyncio.Future[int] = loop.create_future()
        self.pid = node.start_count + 1
        self.ready: dict[str, Any] = {}

    def launch(self) -> None:
        self._node.launch()
        self._life = self._node.process
        self._life.on_death.append(self._died)
        self._node.on_serving = self._serves

    @property
    def is_ready(self) -> bool:
        return bool(self.ready) and not self._code.done()

    def _serves(self) -> None:
        self._hear(self._set_ready)

    def _died(self) -> None:
        self._node.on_serving = lambda: None
        self._hear(self._set_ended, self._node.exit_code)

    def _hear(self, call: Callable[..., None], *arguments: Any) -> None:
        """Tell the supervisor, if it lives then."""
        self._loop.process.after(1 * MS, self._loop.enter, call, *arguments)

    def _set_ready(self) -> None:
        if not self._is_ready.done():
            self.ready = {"broker": self._node.address}
            self._is_ready.set_result(True)

    def _set_ended(self, code: int) -> None:
        if not self._is_ready.done():
            self._is_ready.set_result(False)
        self._code.set_result(code)

    async def wait_ready(self) -> bool:
        return await asyncio.shield(self._is_ready)

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    def pin(self, core: int) -> None:
        return None

    def end(self, *, at_once: bool = False) -> None:
        if self._life is self._node.process and self._life.is_alive:
            if at_once:
                self._node.kill()
            else:
                self._node.end()


class WorkersMachine(Machine):
    """The process that runs the workers, and the power of their machine."""

    def __init__(
        self, layout: Layout, nodes: list[WorkerNode], timeline: Timeline, network: SimNetwork, history: History
    ) -> None:
        super().__init__(layout.machine, nodes[0].host, PORT, timeline, network, history)
        self._layout = layout
        self.nodes = nodes
        self.supervisor: Supervisor | None = None
        self.is_stopping = False
        self.ends_ms: dict[str, deque[int]] = {}  # of workers that this process has seen end, for the checkers
        self._loop: SimLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._graves: list[Any] = []
        for node in nodes:
            node.machine = self

    def one(self, node: WorkerNode) -> Supervised | None:
        """Return what the supervisor keeps of a worker; None while there is no supervisor."""
        if self.supervisor is None or not self.is_alive:
            return None
        return next(one for one in self.supervisor.supervised if one.worker.name == node.name)

    def start(self) -> None:
        if self.is_alive:
            return
        self.note("starts")
        self.is_stopping = False
        self.ends_ms = {node.name: deque() for node in self.nodes}
        self._loop = self.begin_process(random.Random(1))
        self._graves.append(self._loop)
        self._serving = start(self._loop, self._serve(self._loop))

    async def _serve(self, loop: SimLoop) -> None:
        """Run the workers, as ``pymq broker --workers`` does."""
        ends_ms = self.ends_ms  # not those of a later process

        async def begin(one: Supervised) -> Any:
            node = next(node for node in self.nodes if node.name == one.worker.name)
            process = SimWorkerProcess(node, loop)
            await asyncio.sleep(FORK_US / 1e6)
            if node.is_alive:  # it was paused before it had its lock
                ends_ms[node.name].append(self.clock.monotonic_ms())
                raise OSError(f"the last process of {node.name} has not ended")
            if self.has_many_ends(node):
                self._history.violated(f"{node.name} has ended {ENDS_MAX} times within a minute, and is started again")
            process.launch()
            node.process.on_death.append(lambda: ends_ms[node.name].append(self.clock.monotonic_ms()))
            self._history.operations["starts of workers"] += 1
            return process

        supervisor = None
        try:
            for node in self.nodes:
                node.make_lock_file()
                await wait_until_free(node.disk.files, [ROOT], self.note)
            supervisor = self.supervisor = Supervisor(self._layout.active, begin, clock=self.clock)
            await supervisor.start()
            self.note("is ready")
        except PymqError as error:
            self.note(f"ends: {error}")
            if supervisor is not None:
                await supervisor.stop()
            self.kill()

    def has_many_ends(self, node: WorkerNode, ago_ms: int = 0) -> bool:
        """Return whether a worker must be left down for its many ends: now, or at any time since ``ago_ms``."""
        since_ms = self.clock.monotonic_ms() - WINDOW_MS - ago_ms
        return sum(each > since_ms for each in self.ends_ms[node.name]) >= ENDS_MAX

    def reload(self) -> None:
        """Start workers again that were left down (SIGHUP)."""
        if self.supervisor is not None and self._loop is not None and not self.is_stopping:
            for node in self.nodes:
                self.ends_ms[node.name].clear()
            self._loop.enter(self.supervisor.revive)

    def stop(self) -> None:
        """Stop all workers in good order, then the machine's process (SIGTERM)."""
        assert self._loop is not None and self._serving is not None
        self.is_stopping = True
        start(self._loop, self._end(self._serving))

    async def _end(self, serving: asyncio.Task[None]) -> None:
        if not serving.done():
            serving.cancel()
            await asyncio.wait([serving])
        if self.supervisor is not None:
            await self.supervisor.stop()
        self.kill()

    def kill(self) -> None:
        """End the machine's process at once: its workers stop in good order, because their standard input ends."""
        super().kill()
        self.supervisor = None
        for node in self.nodes:
            node.end()

    def lose_power(self) -> None:
        super().lose_power()
        self.supervisor = None
        for node in self.nodes:
            if node.is_alive:
                node.lose_power()
            else:
                node.disk.lose_power(node._rng)
