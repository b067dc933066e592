"""A broker on a simulated machine: the product's own composition root on a simulated loop, disk and clock.

Two parts are replaced: worker threads, and the runner of periodic work, which runs all due jobs in one event.
Everything else is production code.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pymq.broker.assembly.broker as composition
from pymq.broker.assembly.broker import Broker
from pymq.broker.assembly.parts import BrokerParts, Sizes
from pymq.broker.replication.peer_proof import PeerProof
from pymq.broker.replication.roles.role_file import RoleRecord
from pymq.broker.replication.tables.table_pieces import PieceSizes
from pymq.broker.work.jobs import Job, log
from pymq.clock import Clock
from pymq.config import BrokerConfig, load_broker_config
from pymq.config.tls import DISABLED
from pymq.errors import PymqError, UsageError
from pymq.net.turn_watch import TurnWatch
from pymq.security.credentials import Credentials
from pymq.store.store import MessageStore
from tests.simulation.disk import SimDisk
from tests.simulation.history import History
from tests.simulation.loop import SimLoop, SimWorkerThreads, start
from tests.simulation.machine import Machine
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import MS, Timeline

ROOT = "/data"
PORT = 10911
SEGMENT_BYTES = 65_536
TIMER_SLOT_COUNT = 8192  # more than two hours, by which clocks jump; the file has 512 KiB
ID_IN_A_REFUSAL = re.compile(r"--id (\d+)")
SYNC_DELAYS_US = (200, 2_000, 30_000)  # the usual duration of an fsync, by machine
SMALL = {
    "storePathRootDir": ROOT,
    "listenPort": PORT,
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": 2_000,
    "maxHashSlotNum": 50,
    "maxIndexNum": 400,
    "mappedFileSizeTimerLog": 10_400,
    "traceTopicEnable": "false",
    "defaultTopicQueueNums": 1,
}


class _Turn:
    """Holds the next time of a job that does not run at each tick."""

    __slots__ = ("due_us", "name", "period_us")

    def __init__(self, job: Job) -> None:
        self.name = job.name
        self.period_us = job.period_ms * MS
        self.due_us = 0


class SimJobRunner:
    """Replaces :class:`pymq.broker.work.jobs.JobRunner`: each tick runs all due jobs in one event."""

    tick_us = 100 * MS

    def __init__(
        self,
        jobs: list[Job],
        after_each: Callable[[], None],
        turns: TurnWatch,
        activity: Callable[[], int] | None = None,
    ) -> None:
        """``turns`` stays idle: simulated work takes no time. Each tick is one, also without ``activity``."""
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
        """Make a job due in at most ``delay_ms``; the next tick after that runs it. No effect after :meth:`stop`."""
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
def simulated_parts(tick_us: int, piece_sizes: PieceSizes) -> Iterator[None]:
    """Give simulated threads and jobs, and small timer wheels, to the brokers that are made within this context."""
    names: Any = composition
    real = names.WorkerThreads, names.JobRunner, names.BrokerParts
    names.WorkerThreads, names.JobRunner = SimWorkerThreads, SimJobRunner
    names.BrokerParts = partial(_make_parts, piece_sizes=piece_sizes)
    SimJobRunner.tick_us = tick_us
    try:
        yield
    finally:
        names.WorkerThreads, names.JobRunner, names.BrokerParts = real
        _opened_stores.clear()


_opened_stores: list[tuple[Clock, MessageStore]] = []  # by living processes, with their machines' clocks


def _make_parts(*arguments: Any, piece_sizes: PieceSizes) -> BrokerParts:
    runtime, role, place, owner, registrations, settings, _ = arguments
    sizes = Sizes(timer_slot_count=TIMER_SLOT_COUNT, pieces=piece_sizes)
    parts = BrokerParts(runtime, role, place, owner, registrations, settings, sizes)
    _opened_stores.append((runtime.clock, parts.store))
    return parts


def drop_read_caches(clock: Clock) -> None:
    """Free what the stores of a dead process keep of their files.

    The process' objects stay until the run ends, because collecting them runs their coroutines to their ends. An era
    has hundreds of such processes, and each keeps up to 20 MiB.
    """
    for _, store in [opened for opened in _opened_stores if opened[0] is clock]:
        store._windows.chunks.clear()
        store._windows.batch_buffer = bytearray()
        if store._digests is not None:
            store._digests.table._pages.clear()
            store._digests.table._dirty.clear()
    _opened_stores[:] = [opened for opened in _opened_stores if opened[0] is not clock]


class SimBroker(Machine):
    """A broker on its machine. ``save_us``: how long a save of a table may take, beyond what all checks allow."""

    save_us = 0

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
        has_proofs: bool = False,
        port: int = PORT,
    ) -> None:
        """``has_proofs``: its slaves prove to have the servers' credentials."""
        super().__init__(name, host, port, timeline, network, history)
        self.on_serving: Callable[[], None] = lambda: None
        self._credentials = Credentials("servers", "of-the-simulation") if has_proofs else None
        self.configured_id = configured_id
        self.disk = SimDisk(self.clock.now_ms, rng.choice(SYNC_DELAYS_US))
        self.disk.on_failed_sync = lambda: self._be_still("sync")
        self.disk.on_fill = self._disk_filled
        self.start_count = 0
        self._served_start = 0  # the number of the start after which it last served
        self.needs_other_id = False  # it refused to start as the master that its flags make it
        self.named_id = configured_id  # the id that this refusal named
        self.refused_start = ""  # why it refused last
        self._still_because = {"dead"}  # also "paused", "full" (its disk), "sync" (its disk can't)
        self._still_since_us = 0
        self._stillness: list[tuple[int, int]] = []
        self._full_spans: list[tuple[int, int]] = []
        self._settings = {**SMALL, "bindAddress": host, "brokerIP1": host, "insecure": "true", **settings}
        self._rng = rng
        self._broker: Broker | None = None
        self._loop: SimLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._graves: list[Any] = []

    # -- what the checkers and the fault plan look at ------------------------------------------------------------

    @property
    def parts(self) -> BrokerParts | None:
        """The parts it serves with; None while it is dead, starts, or changes its role."""
        return self._broker.parts if self._broker is not None and self.process.is_alive else None

    @property
    def is_serving(self) -> bool:
        """True when it answers requests."""
        return self.parts is not None and self._broker is not None and self._broker._jobs is not None

    @property
    def opened_end(self) -> int:
        """The end of its log at its latest start. Known after its death too: a client may get an answer after that."""
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
    def role_record(self) -> RoleRecord | None:
        """The role that it has or changes to, with the reason; None while it is dead or looks for another master."""
        switch = self._broker.switch if self._broker is not None and self.process.is_alive else None
        return switch.record if switch is not None else None

    @property
    def is_broken(self) -> bool:
        """True when its store takes no writes until a restart."""
        parts = self.parts
        return parts is not None and parts.store._log.broken is not None

    @property
    def entry(self) -> tuple[int, str]:
        """The newest epoch of its open log, with its id; (0, "") when there is none."""
        parts = self.parts
        entries = parts.replication.epoch_file.history.entries if parts is not None else ()
        return (entries[-1].epoch, entries[-1].epoch_id) if entries else (0, "")

    # -- life and death -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the program with its flags."""
        assert not self.process.is_alive
        self.start_count += 1
        self.note("starts")
        chance = random.Random(self._rng.getrandbits(64))
        loop = self.begin_process(chance, self.disk)
        settings = {"tls.server.mode": DISABLED, **self._settings, "brokerId": self.configured_id}
        config = load_broker_config(None, {key: str(value) for key, value in settings.items()})
        broker = self._make_broker(config, random.Random(chance.getrandbits(64)))
        if self._credentials is not None:  # simulated clients don't sign, so there is no ACL file
            broker.security.peer_proof = PeerProof(is_required=True, prove=self._credentials.prove)
        self._broker, self._loop = broker, loop
        self._serving = start(loop, self._serve(broker))

    def _make_broker(self, config: BrokerConfig, rng: random.Random) -> Broker:
        return Broker(
            config,
            clock=self.clock,
            files=self.disk.files,
            rng=rng,
            now_s=self._timeline.now_s,
            credentials=self._credentials,
        )

    async def _serve(self, broker: Broker) -> None:
        """Run the broker until it fails, as the broker command does."""
        try:
            await broker.start()
            self._move("dead", "paused", "sync")
            self.needs_other_id = False
            self._served_start = self.start_count
            self.note(f"serves as id {broker.config.broker_id}")
            self.on_serving()
            await broker.wait_failed()
        except (PymqError, OSError) as error:
            self._ended(error)
            await self._stop(broker)

    def _ended(self, error: Exception) -> None:
        """Record that the broker gave up. The only valid reasons are a failing disk and another master."""
        self.note(f"ends: {error}")
        if self._served_start == self.start_count:
            self._history.incident(self._timeline.now_us, "stop", self.name)
        self._history.operations["brokers that gave up"] += 1
        self.refused_start = str(error) if isinstance(error, UsageError) else ""
        named = ID_IN_A_REFUSAL.search(str(error))
        self.needs_other_id = isinstance(error, UsageError) and named is not None
        if self.needs_other_id and named is not None:
            self.named_id = int(named[1])
        if self.refused_start and not self.needs_other_id:
            self._history.operations["starts refused beside an unclear member"] += 1
        if not (self.disk.was_faulty or isinstance(error, UsageError)):
            self._history.violated(f"{self.name} ends: {type(error).__name__}: {error}")

    async def _stop(self, broker: Broker) -> None:
        try:
            await broker.stop()
        except (PymqError, OSError) as error:
            self.note(f"stopped uncleanly: {error}")
        self.kill()

    def stop(self) -> None:
        """Stop in good order (SIGTERM), even during a start."""
        assert self._broker is not None and self._loop is not None and self._serving is not None
        start(self._loop, self._end(self._broker, self._serving))

    async def _end(self, broker: Broker, serving: asyncio.Task[None]) -> None:
        """Cancel what the broker does, then stop it, as the broker command does."""
        if not serving.done():
            serving.cancel()
            await asyncio.wait([serving])
            await self._stop(broker)

    def kill(self) -> None:
        self._bury()
        super().kill()
        self.disk.after_kill()

    def lose_power(self) -> None:
        """Switch the machine off. What its disk has not synced may be lost."""
        self._bury()
        super().lose_power()
        self.disk.lose_power(self._rng)

    def pause(self) -> None:
        super().pause()
        self._be_still("paused")

    def resume(self) -> None:
        if self.process.is_paused and self.is_alive:
            super().resume()
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
        """Return whether its disk was full at any time between these."""
        is_now = "full" in self._still_because and self._still_since_us < end_us
        return is_now or any(start_us < b and a < end_us for a, b in self._full_spans)

    def moving_us(self, start_us: int, end_us: int) -> int:
        """Return how long it ran, and could sync, between two times. Negative when ``end_us`` comes first."""
        now_us = self._timeline.now_us
        still = [*self._stillness, *([(self._still_since_us, now_us)] if self._still_because else ())]
        return end_us - start_us - sum(max(0, min(end_us, b) - max(start_us, a)) for a, b in still)

    def _bury(self) -> None:
        self._be_still("dead")
        self._graves.append((self._broker, self._loop))
        self._broker = self._loop = None
        drop_read_caches(self.clock)
