"""A broker on a simulated machine: the product's own composition root on a simulated loop, disk and clock.

Two parts of it are others here: worker threads, and the runner of periodic work, which runs all that is due in one
event. Everything else is the code that serves.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pymq.broker.broker as composition
from pymq.broker.broker import Broker
from pymq.broker.parts import BrokerParts
from pymq.broker.upkeep.jobs import Job, log
from pymq.config import load_broker_config
from pymq.errors import PymqError, UsageError
from tests.simulation.disk import SimDisk
from tests.simulation.history import History
from tests.simulation.loop import SimLoop, SimWorkerThreads, start
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import MS, SECOND, NodeClock, Process, Timeline

ROOT = "/data"
PORT = 10911
SEGMENT_BYTES = 65_536
ID_IN_A_REFUSAL = re.compile(r"--id (\d+)")
SYNC_DELAYS_US = (200, 2_000, 30_000)  # how long an fsync usually takes, by machine
SMALL = {
    "storePathRootDir": ROOT,
    "listenPort": PORT,
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": 2_000,
    "maxHashSlotNum": 50,
    "maxIndexNum": 400,
    "traceTopicEnable": "false",
    "defaultTopicQueueNums": 1,
}


class _Turn:
    """When it is the turn of a job that does not run in each event."""

    __slots__ = ("due_us", "name", "period_us")

    def __init__(self, job: Job) -> None:
        self.name = job.name
        self.period_us = job.period_ms * MS
        self.due_us = 0


class SimJobRunner:
    """In the place of :class:`pymq.broker.upkeep.jobs.JobRunner`: everything that is due, in one event now and then."""

    tick_us = 100 * MS

    def __init__(self, jobs: list[Job], after_each: Callable[[], None]) -> None:
        self.failure_count = 0
        self._jobs = [(job.run, _Turn(job) if job.period_ms * MS > self.tick_us else None) for job in jobs]
        self._after = after_each
        self._loop: SimLoop | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self._loop = loop
        self._tick(int(loop.rng.random() * self.tick_us))

    def stop(self) -> None:
        self._loop = None

    def hasten(self, name: str, delay_ms: int) -> None:
        """With the next event that comes then; not once they are stopped."""
        for _, turn in self._jobs:
            if self._loop is not None and turn is not None and turn.name == name:
                turn.due_us = min(turn.due_us, self._loop.now_us + delay_ms * MS)

    def _tick(self, delay_us: int) -> None:
        if self._loop is not None:
            self._loop.process.after(delay_us, self._run, self._loop)

    def _run(self, loop: SimLoop) -> None:
        if self._loop is loop:
            loop.enter(self._run_due, loop.now_us)
            self._tick(self.tick_us)

    def _run_due(self, now_us: int) -> None:
        for run, turn in self._jobs:
            if turn is not None:
                if now_us < turn.due_us:
                    continue
                turn.due_us = now_us + turn.period_us
            try:
                run()
            except Exception:
                self.failure_count += 1
                log.exception("a job failed: %s", run)
        self._after()


@contextmanager
def simulated_parts(tick_us: int) -> Iterator[None]:
    """For as long as this lasts brokers are made with simulated threads and jobs."""
    names: Any = composition
    real = names.WorkerThreads, names.JobRunner
    names.WorkerThreads, names.JobRunner = SimWorkerThreads, SimJobRunner
    SimJobRunner.tick_us = tick_us
    try:
        yield
    finally:
        names.WorkerThreads, names.JobRunner = real


class SimBroker:
    """``process`` is the present life, dead or alive."""

    def __init__(
        self,
        name: str,
        host: str,
        configured_id: int,
        settings: dict[str, Any],
        *,
        timeline: Timeline,
        network: SimNetwork,
        rng: random.Random,
        history: History,
    ) -> None:
        self.name = name
        self.host = host
        self.address = f"{host}:{PORT}"
        self.configured_id = configured_id
        self.clock = NodeClock(timeline)
        self.disk = SimDisk(self.clock.now_ms, rng.choice(SYNC_DELAYS_US))
        self.disk.on_failed_sync = lambda: self._be_still("sync")
        self.disk.on_fill = self._disk_filled
        self.start_count = 0
        self._served_start = 0  # number of the start after which it came to serve
        self.needs_other_id = False  # it refused to be the master its flags make it
        self.named_id = configured_id  # which it said then
        self._still_because = {"dead"}  # or paused, or its disk is full or can't sync
        self._still_since_us = 0
        self._stillness: list[tuple[int, int]] = []
        self._full_spans: list[tuple[int, int]] = []
        self._settings = {**SMALL, "bindAddress": host, "brokerIP1": host, **settings}
        self._timeline = timeline
        self._network = network
        self._rng = rng
        self._history = history
        self._broker: Broker | None = None
        self._loop: SimLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._graves: list[Any] = []
        self.process = Process(timeline, name, host)
        self.process.is_alive = False

    # -- what the checkers and the fault plan look at ------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive

    @property
    def parts(self) -> BrokerParts | None:
        """What it serves with; None while it is dead, starts, or changes its role."""
        return self._broker.parts if self._broker is not None and self.process.is_alive else None

    @property
    def is_serving(self) -> bool:
        """It answers requests."""
        return self.parts is not None and self._broker is not None and self._broker._jobs is not None

    @property
    def opened_end(self) -> int:
        """How far its log went when it was opened last; an answer may come when it is dead again."""
        brokers = [self._broker, *(broker for broker, _ in reversed(self._graves))]
        recoveries = (broker.recovery for broker in brokers if broker is not None)
        return next((recovery.log_end for recovery in recoveries if recovery is not None), 0)

    @property
    def is_master(self) -> bool:
        parts = self.parts
        return parts is not None and parts.role.is_master

    @property
    def is_sync_master(self) -> bool:
        parts = self.parts
        return parts is not None and parts.replication.sync_mode.is_on

    @property
    def is_broken(self) -> bool:
        """Its store takes no writes until a restart."""
        parts = self.parts
        return parts is not None and parts.store._log.broken is not None

    @property
    def entry(self) -> tuple[int, str]:
        """Epoch and id of the newest epoch its open log claims."""
        parts = self.parts
        entries = parts.replication.epoch_file.history.entries if parts is not None else ()
        return (entries[-1].epoch, entries[-1].epoch_id) if entries else (0, "")

    # -- life and death -----------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self._history.note(f"{self._timeline.now_us / SECOND:.4f} {self.name} {text}")

    def start(self) -> None:
        """The program is started with its flags."""
        assert not self.process.is_alive
        self.start_count += 1
        self.note("starts")
        self._network.hosts_down.discard(self.host)
        self.process = Process(self._timeline, self.name, self.host)
        chance = random.Random(self._rng.getrandbits(64))
        loop = SimLoop(self._timeline, self.process, self._network, chance, self._failed, self.disk)  # type: ignore[abstract]
        settings = {**self._settings, "brokerId": self.configured_id}
        config = load_broker_config(None, {key: str(value) for key, value in settings.items()})
        broker = Broker(config, clock=self.clock, files=self.disk.files, rng=random.Random(chance.getrandbits(64)))
        self._broker, self._loop = broker, loop
        self._serving = start(loop, self._serve(broker))

    async def _serve(self, broker: Broker) -> None:
        """As the command does."""
        try:
            await broker.start()
            self._move("dead", "paused", "sync")
            self.needs_other_id = False
            self._served_start = self.start_count
            self.note(f"serves as id {broker.config.broker_id}")
            await broker.wait_failed()
        except (PymqError, OSError) as error:
            self._ended(error)
            await self._stop(broker)

    def _ended(self, error: Exception) -> None:
        """Only a disk that fails, and another master, are reasons."""
        self.note(f"ends: {error}")
        if self._served_start == self.start_count:
            self._history.incident(self._timeline.now_us, "stop", self.name)
        self._history.operations["brokers that gave up"] += 1
        self.needs_other_id = isinstance(error, UsageError)
        named = ID_IN_A_REFUSAL.search(str(error))
        if self.needs_other_id and named is not None:
            self.named_id = int(named[1])
        if not (self.disk.was_faulty or isinstance(error, UsageError)):
            self._history.violated(f"{self.name} ends: {type(error).__name__}: {error}")

    async def _stop(self, broker: Broker) -> None:
        try:
            await broker.stop()
        except (PymqError, OSError) as error:
            self.note(f"stopped uncleanly: {error}")
        self.kill()

    def stop(self) -> None:
        """SIGTERM: an orderly end, also of a start."""
        assert self._broker is not None and self._loop is not None and self._serving is not None
        start(self._loop, self._end(self._broker, self._serving))

    async def _end(self, broker: Broker, serving: asyncio.Task[None]) -> None:
        """As the command does: what it is at is cancelled, then comes the broker's own end."""
        if not serving.done():
            serving.cancel()
            await asyncio.wait([serving])
            await self._stop(broker)

    def kill(self) -> None:
        """SIGKILL."""
        self._bury()
        self._network.process_died(self.process, with_power=False)
        self.process.die()
        self.disk.after_kill()

    def lose_power(self) -> None:
        """The machine is off; what its disk has not, is gone."""
        self._bury()
        self._network.hosts_down.add(self.host)
        self._network.process_died(self.process, with_power=True)
        self.process.die()
        self.disk.lose_power(self._rng)

    def pause(self) -> None:
        """SIGSTOP."""
        self.process.pause()
        self._be_still("paused")

    def resume(self) -> None:
        """SIGCONT."""
        if self.process.is_paused and self.is_alive:
            self.process.resume()
            self._move("paused")

    def _disk_filled(self, is_full: bool) -> None:
        if is_full:
            self._be_still("full")
        elif "full" in self._still_because:
            self._full_spans.append((self._still_since_us, self._timeline.now_us))
            self._move("full")

    def _be_still(self, why: str) -> None:
        if not self._still_because:
            self._still_since_us = self._timeline.now_us
        self._still_because.add(why)

    def _move(self, *whys: str) -> None:
        if self._still_because:
            self._still_because.difference_update(whys)
            if not self._still_because:
                self._stillness.append((self._still_since_us, self._timeline.now_us))

    def had_full_disk(self, start_us: int, end_us: int) -> bool:
        """At any time between these."""
        is_now = "full" in self._still_because and self._still_since_us < end_us
        return is_now or any(start_us < b and a < end_us for a, b in self._full_spans)

    def moving_us(self, start_us: int, end_us: int) -> int:
        """How long it ran, and could sync, between two times; negative when they come the other way round."""
        now_us = self._timeline.now_us
        still = [*self._stillness, *([(self._still_since_us, now_us)] if self._still_because else ())]
        return end_us - start_us - sum(max(0, min(end_us, b) - max(start_us, a)) for a, b in still)

    def _bury(self) -> None:
        self._be_still("dead")
        self._graves.append((self._broker, self._loop))
        self._broker = self._loop = None

    def _failed(self, what: str, error: BaseException | None) -> None:
        if self.process.is_alive:
            self._history.violated(f"{what}: {type(error).__name__}: {error}")
