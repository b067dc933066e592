"""Broker: the composition root. Makes the parts, wires them to the table of requests, runs the periodic work."""

from __future__ import annotations

import asyncio
import importlib
import logging
import random
from collections.abc import Callable
from types import ModuleType

from pymq.broker.jobs import Job, JobRunner
from pymq.broker.parts import BrokerParts
from pymq.broker.problem_log import ProblemLog
from pymq.broker.registration import Registrar
from pymq.broker.replication.role import Role
from pymq.broker.routes import broker_dispatcher
from pymq.broker.worker_threads import WorkerThreads
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import StoreUnavailableError
from pymq.model.hosts import format_address
from pymq.net.client import RemotingClient
from pymq.net.limits import server_limits
from pymq.net.server import Connection, Server
from pymq.store.fs import Files
from pymq.store.recovery import RecoveryReport
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher
from pymq.wire.streams import StreamHandler

log = logging.getLogger(__name__)

TICK_PERIOD_MS = 100
SLOW_TICK_PERIOD_MS = 1000
DISK_THREAD_COUNT = 6  # one for the sync of the log, others for what may take long beside it
BULK_MODULE = "pymq.store.uniform_batch"  # brings numpy
# Java clients of 4.2 to 4.4 send to this port by default (vipChannelEnabled).
FAST_PORT_DISTANCE = 2


class Broker:
    """One broker on one store directory. ``parts`` holds everything it is made of once it has started."""

    def __init__(self, config: BrokerConfig, *, clock: Clock, files: Files, rng: random.Random) -> None:
        self.config = config
        self.address = ""
        self.recovery: RecoveryReport | None = None
        self.server = Server(
            Dispatcher([], "broker"),
            clock=clock,
            limits=server_limits(config),
            on_turn_end=self._end_turn,
            on_disconnect=self._disconnected,
        )
        self._clock = clock
        self._files = files
        self._rng = rng
        self.parts: BrokerParts | None = None
        self._jobs: JobRunner | None = None
        self._client: RemotingClient | None = None
        self._registrar: Registrar | None = None
        self._registration: asyncio.Task[None] | None = None
        self._numpy: asyncio.Future[ModuleType] | None = None
        self._disk_threads: WorkerThreads | None = None

    async def start(self, is_stopping: Callable[[], bool] = lambda: False) -> str:
        """Listens, opens the store, registers at the name servers; returns the address clients are told.

        Raises OSError for a port that is taken, StoreError for a directory that can't be served, StoppedError when
        ``is_stopping`` says so during a recovery: cancelling can't end that. Then call :meth:`stop`.
        """
        config = self.config
        wanted_port = config.listen_port
        port = await self.server.start(config.bind_address, wanted_port)
        config.listen_port = port
        self.address = format_address(config.broker_ip1, port)
        loop = asyncio.get_running_loop()
        self._disk_threads = WorkerThreads(loop.call_soon_threadsafe, DISK_THREAD_COUNT, "disk")
        # No request is read before this coroutine waits, and by then everything is in place.
        parts = BrokerParts(
            config,
            clock=self._clock,
            files=self._files,
            rng=self._rng,
            run_in_thread=self._disk_threads,
            schedule_turn_end=self.server.schedule_turn_end,
            role=Role(config.broker_id),
            network=_Unconnected(),
            change_role=lambda change: log.error("not yet: %s", change.why),
        )
        self.recovery = parts.open(is_stopping)
        self.server.note_time()
        _tell_recovery(self.recovery)
        parts.store.set_bulk_ready(False)
        self.parts = parts
        self.server.dispatcher = broker_dispatcher(parts)
        self.server.fast_path = parts.fast_sends
        self._jobs = JobRunner(self._job_list(parts), self.server.schedule_turn_end)
        self._jobs.start()
        if wanted_port > FAST_PORT_DISTANCE:
            await self._listen_on_fast_port(wanted_port - FAST_PORT_DISTANCE)
        self._client = RemotingClient(clock=self._clock)
        self._registrar = Registrar(
            client=self._client,
            gather=asyncio.gather,
            clock=self._clock,
            config=config,
            topics=parts.topics,
            address=self.address,
            wake=self._register_soon,
        )
        parts.when_registered = self._registrar.when_registered
        await self._registrar.register_all()
        log.info("broker %s (id %d) listens on %s", config.broker_name, config.broker_id, self.address)
        return self.address

    async def stop(self) -> None:
        """Unregisters, answers what waits, writes everything and marks the stop as clean. May be called twice."""
        parts, self.parts = self.parts, None
        if self._jobs is not None:
            self._jobs.stop()
            self._jobs = None
        if self._registrar is not None and self._client is not None:
            if self._registration is not None:
                await asyncio.wait([self._registration])
            await self._registrar.unregister_all()
            await self._client.close()
            self._registrar = self._client = None
        if parts is not None:
            parts.writer.commit()
            await self._answer_waiting(parts)
            parts.pulls.long_polls.release_all()
        await self.server.stop()
        if parts is not None:
            parts.flusher.stop()
            parts.cleaner.stop()
            parts.caretaker.stop()
            parts.topics.stop()
            parts.groups.stop()
            await asyncio.to_thread(parts.close)
        if self._disk_threads is not None:
            self._disk_threads.stop()
            self._disk_threads = None

    async def _answer_waiting(self, parts: BrokerParts) -> None:
        """SYNC_FLUSH: what was committed is brought to the disk and answered before the connections go."""
        if parts.writer.is_awaiting_sync:
            try:
                parts.writer.synced(await asyncio.to_thread(parts.store.sync, log_only=True))
            except (StoreUnavailableError, OSError) as error:
                parts.writer.sync_failed(str(error))

    # -- turns and connections -----------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        parts = self.parts
        if parts is not None:
            parts.writer.commit()
            parts.pulls.long_polls.wake()

    def _disconnected(self, connection: Connection) -> None:
        if self.parts is not None:
            self.parts.clients.disconnect(connection)

    async def _listen_on_fast_port(self, port: int) -> None:
        try:
            await self.server.start(self.config.bind_address, port)
        except OSError as error:
            log.warning("no fast port %d for clients before 4.5: %s", port, error)

    # -- periodic work -------------------------------------------------------------------------------------------

    def _job_list(self, parts: BrokerParts) -> list[Job]:
        config = self.config
        return [
            Job("delayed delivery", TICK_PERIOD_MS, parts.delays.tick),
            Job("parked pulls", TICK_PERIOD_MS, parts.pulls.long_polls.tick),
            Job("store housekeeping", TICK_PERIOD_MS, parts.store.tick),
            Job("late flushes", TICK_PERIOD_MS, parts.writer.tick),
            Job("flush", config.flush_interval_commit_log_ms, parts.flusher.tick),
            Job("retention", TICK_PERIOD_MS, parts.cleaner.tick),
            Job("old segments", TICK_PERIOD_MS, parts.caretaker.tick),
            Job("store problems", SLOW_TICK_PERIOD_MS, ProblemLog(parts.store).tick),
            Job("topics", SLOW_TICK_PERIOD_MS, parts.topics.tick),
            Job("groups", SLOW_TICK_PERIOD_MS, parts.groups.tick),
            Job("cursors", SLOW_TICK_PERIOD_MS, parts.cursors.tick),
            Job("clients", SLOW_TICK_PERIOD_MS, parts.clients.tick),
            Job("leases", SLOW_TICK_PERIOD_MS, parts.leaser.tick),
            Job("bulk work", TICK_PERIOD_MS, self._load_numpy_on_traffic),
            Job("statistics", SLOW_TICK_PERIOD_MS, parts.stats.tick),
            Job("registration", SLOW_TICK_PERIOD_MS, self._register_soon),
        ]

    def _register_soon(self) -> None:
        """Starts a round of registrations unless one runs."""
        if self._registrar is None or not self._registrar.is_due():
            return
        if self._registration is None or self._registration.done():
            self._registration = asyncio.ensure_future(self._registrar.register_all())

    def _load_numpy_on_traffic(self) -> None:
        """Loads numpy in a thread once messages come: an idle broker does without, a busy one is not held up."""
        parts = self.parts
        if self._numpy is not None or parts is None or self.recovery is None:
            return
        if parts.store.physical_max_offset == self.recovery.log_end:
            return
        store = parts.store
        self._numpy = asyncio.get_running_loop().run_in_executor(None, importlib.import_module, BULK_MODULE)
        self._numpy.add_done_callback(lambda done: store.set_bulk_ready(done.exception() is None))


class _Unconnected:
    """Stands in until brokers connect to each other."""

    def connect(self, address: str, handler: StreamHandler) -> None:
        asyncio.get_running_loop().call_soon(handler.closed, "not yet")

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        asyncio.get_running_loop().call_soon(on_answer, "not yet")


def _tell_recovery(report: RecoveryReport) -> None:
    """Says what an operator should know of the start: an unclean stop, what was cut, what is damaged."""
    if not report.clean:
        log.warning(
            "the last stop was unclean: %d records read again, %d bytes cut, the log ends at %d",
            report.records_scanned,
            report.bytes_cut,
            report.log_end,
        )
    for start, end in report.damaged:
        log.error("the log is damaged from offset %d to %d: what was there can't be read", start, end)
    for note in report.notes:
        log.warning("%s", note)
