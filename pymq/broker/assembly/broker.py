"""Broker: gives the parts servers, an event loop and name servers, and changes their role."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.addresses import listen_on_fast_port, warn_if_unreachable
from pymq.broker.assembly.farewell import answer_all, truncate_closed
from pymq.broker.assembly.front import Front
from pymq.broker.assembly.group_place import GroupPlace
from pymq.broker.assembly.parts import BrokerParts, Sizes
from pymq.broker.assembly.plain_place import PlainPlace
from pymq.broker.assembly.registering import Registering, registrar_of
from pymq.broker.assembly.runtime_settings import broker_runtime_settings
from pymq.broker.assembly.security import BrokerSecurity
from pymq.broker.assembly.slave_port import SlavePort
from pymq.broker.awaiting import awaited, pause
from pymq.broker.handlers.closed import ClosedDispatcher
from pymq.broker.raft.node_directory import role_in_plain_group, waits_in_plain_group
from pymq.broker.replication.roles.known_peers import KnownPeers, known_peers_table
from pymq.broker.replication.roles.owner import Owner
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.roles.role_file import (
    RoleFile,
    RoleRecord,
    role_name_after_change,
    role_name_at_start,
)
from pymq.broker.replication.roles.role_switch import RoleSwitch
from pymq.broker.replication.startup_check import StartupCheck
from pymq.broker.report.discovery import NameServerDiscovery
from pymq.broker.report.registration import REGISTRATION_JOB, Registrar, RegistrationRequests
from pymq.broker.runtime import Runtime
from pymq.broker.upkeep.recovery_progress import log_recovery
from pymq.broker.work.bulk_work import BulkWork
from pymq.broker.work.jobs import TICK_PERIOD_MS, Job, JobRunner
from pymq.broker.work.sliced_work import SlicedWork
from pymq.broker.work.worker_threads import WorkerThreads
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.values import SLAVE
from pymq.errors import StoreError
from pymq.filter.sql92 import compile_sql
from pymq.model.hosts import format_address
from pymq.net.client import RemotingClient
from pymq.net.limits import make_budget, server_limits
from pymq.net.machine import memory_bytes
from pymq.net.peer_client import PeerClient
from pymq.net.server import Connection, Server
from pymq.net.server_hooks import ServerHooks
from pymq.net.streams import SocketNetwork, StreamServer
from pymq.net.tls_settings import TlsContexts
from pymq.security.credentials import Credentials
from pymq.store.disk.fs import Files
from pymq.store.store import RecoveryReport

if TYPE_CHECKING:
    from pymq.broker.assembly.raft_hosting import OpenSettings, RaftHosting
    from pymq.broker.raft.group import RaftGroup

log = logging.getLogger(__name__)

DISK_THREAD_COUNT = 6  # one for the sync of the log, the others for slow work beside it


class Broker:
    """One broker on one store directory. ``parts`` is None unless it serves in a role."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        files: Files,
        rng: random.Random,
        front: Front | None = None,
        credentials: Credentials | None = None,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``front`` sees each request first; ``credentials``: as for :class:`BrokerSecurity`, which may raise
        ConfigError; ``now_s`` measures how long work takes."""
        self.config = config
        self.address = ""
        self.recovery: RecoveryReport | None = None
        self.budget = make_budget(config.memory_budget_bytes)
        self._tls = TlsContexts.of(config, clock)
        self.server = Server(
            ClosedDispatcher("the broker is starting"),
            clock=clock,
            limits=server_limits(config),
            hooks=ServerHooks(self._end_turn, self._after_turn, self._disconnected),
            budget=self.budget,
            tls=self._tls.client_ports,
            now_s=now_s,
        )
        config.add_listener(lambda changed: self.server.take_limits(server_limits(config)))
        self._clock = clock
        self._files = files
        self._rng = rng
        self._front = front
        self.security = BrokerSecurity(config, clock, credentials)
        self._known_peers = KnownPeers(config, clock, known_peers_table(files, config.store_path_root_dir))
        self.parts: BrokerParts | None = None
        # Recovered parts that do not serve yet: their log is being recovered from other members.
        self._recovered: BrokerParts | None = None
        self.switch: RoleSwitch | None = None
        self._place: GroupPlace = PlainPlace(self._known_peers)
        self._role_file = RoleFile(files, config.store_path_root_dir)
        self._role_file_lock = asyncio.Lock()
        self._jobs: JobRunner | None = None
        self._client: RemotingClient | None = None
        self._network: SocketNetwork | None = None
        self._runtime: Runtime | None = None
        self._startup_check: StartupCheck | None = None
        self._slave_port = SlavePort(
            config,
            lambda accept: StreamServer(accept, self.budget, self._tls.ports, self.server.report_refused),
        )
        self._registering = Registering()
        self._discovery = NameServerDiscovery(config, clock)
        self._is_stopping = False
        self._role_change: asyncio.Task[None] | None = None
        self._failure: asyncio.Future[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._bulk_work: BulkWork | None = None
        self._disk_threads: WorkerThreads | None = None

    async def start(self, is_stopping: Callable[[], bool] = lambda: False) -> str:
        """Look for another master, listen, open the store and register; return the address that clients use.

        Raises UsageError beside another master of its name, OSError for a port in use, StoreError for a directory that
        can't be served, StoppedError when ``is_stopping`` is True in a recovery. Then call :meth:`stop`.
        """
        config = self.config
        loop = asyncio.get_running_loop()
        self._failure = loop.create_future()
        self._disk_threads = threads = WorkerThreads(loop.call_soon_threadsafe, DISK_THREAD_COUNT, "disk")
        self._runtime_settings = broker_runtime_settings(config, self._clock, self._files, threads)
        self._runtime_settings.load()
        self._client = RemotingClient(
            clock=self._clock, on_lost=self._registering.note_lost, sign=self.security.sign, tls=self._tls.outgoing
        )
        self._network = SocketNetwork(self._client)
        self._runtime = runtime = self._make_runtime()
        await self._discovery.look()
        self._startup_check = StartupCheck(
            runtime,
            awaited=awaited,
            known_peers=self._known_peers,
            pause=pause,
        )
        last = self._role_file.load()
        record = role_in_plain_group(self._files, config, last)
        self._known_peers.load()
        self._place = await self._find_place(runtime, last)
        record, role = await self._place.first_role(self._startup_check, record)
        self.switch = RoleSwitch(self, self._clock, record, self._change_role_soon)
        wanted_port = config.listen_port
        port = await self.server.start(config.bind_address, wanted_port)
        config.listen_port = port
        await self._place.begin(self.switch)
        self.address = format_address(config.broker_ip1, port)
        self._bulk_work = BulkWork(self._disk_threads)
        config.broker_role = role_name_at_start(record, config.broker_role)
        if record.broker_id != record.configured_id:
            log.warning(
                "this broker keeps id %d, %d is configured: %s", record.broker_id, record.configured_id, record.why
            )
        parts = await self._open_parts(role, is_stopping)
        await self.save(self.switch.opened())
        self._place.opened(runtime)
        await self._slave_port.listen(parts.side)
        await listen_on_fast_port(self.server, config, wanted_port)
        await self._place.listen(self.server, runtime)
        if not self._place.serves_later(self):
            await self._serve(parts).register_all()
        await warn_if_unreachable(config)
        log.info("broker %s (id %d) listens on %s", config.broker_name, config.broker_id, self.address)
        return self.address

    async def wait_failed(self) -> None:
        """Wait forever, or raise the error of a change of role, after which this broker can't serve."""
        assert self._failure is not None
        await asyncio.shield(self._failure)

    @property
    def raft(self) -> RaftGroup | None:
        """The broker's place in its Raft group; None in a plain group."""
        return self._place.group

    def _make_runtime(self) -> Runtime:
        assert self._disk_threads is not None and self._network is not None
        return Runtime(
            config=self.config,
            clock=self._clock,
            rng=self._rng,
            files=self._files,
            network=self._network,
            run_in_thread=self._disk_threads,
            schedule_turn_end=self.server.schedule_turn_end,
            sliced_work=SlicedWork(
                asyncio.get_running_loop().call_later,
                now_s=self.server.turns.now_s,
                served_count=lambda: self.server.request_count,
                after_each=self.server.schedule_turn_end,
                watch=self._watch_slice,
            ),
            budget=self.budget,
        )

    async def _find_place(self, runtime: Runtime, last: RoleRecord | None) -> GroupPlace:
        """Return how this broker belongs to its group; ``last``: its recorded role. Raises ConfigError."""
        known_peers, peer_proof = self._known_peers, self.security.peer_proof
        if not self.config.raft_enabled:
            return PlainPlace(known_peers, peer_proof)
        # A plain group's broker does without Raft, a tenth of what a broker imports.
        from pymq.broker.assembly.raft_hosting import open_settings  # noqa: PLC0415
        from pymq.broker.assembly.raft_place import RaftPlace  # noqa: PLC0415
        from pymq.broker.assembly.waiting_place import WaitingPlace  # noqa: PLC0415

        members = await open_settings(self.config, self._files, self._rng)
        if waits_in_plain_group(self._files, runtime.root, last):
            return WaitingPlace(
                runtime, members, self._host, lambda: self.parts, known_peers=known_peers, peer_proof=peer_proof
            )
        was_master = last is not None and last.role.is_master
        return RaftPlace(members, self._host, was_master=was_master, known_peers=known_peers)

    def _host(self, members: OpenSettings, *, was_master: bool) -> RaftHosting:
        from pymq.broker.assembly.raft_hosting import RaftHosting  # noqa: PLC0415 - as in _find_place

        assert self._runtime is not None and self.switch is not None
        return RaftHosting(
            self._runtime,
            members,
            make_client=lambda: PeerClient(clock=self._clock, sign=self.security.sign, tls=self._tls.outgoing),
            switch=self.switch,
            on_serve=self._serve_again,
            was_master=was_master,
            member_gate=self.security.member_gate,
        )

    async def stop(self) -> None:
        """Unregister, answer what waits, save everything and mark the stop as clean. May be called twice."""
        if self.parts is not None and not self._is_stopping:
            await self._place.hand_over()
        self._is_stopping = True
        if self._role_change is not None:
            await asyncio.wait([self._role_change])
        self._stop_jobs()
        if self._saving is not None:
            await asyncio.wait([self._saving])
        parts = self.parts
        if parts is not None:
            await self._registering.withdraw()
            await answer_all(parts, self._watch_slice, keeps_log=True)
        await self._place.stop()
        if self._client is not None and self._network is not None:
            self._network.close()
            await self._client.close()
            self._client = None
        await self.server.stop()
        self.security.close()
        if parts is not None:
            await self._close_parts(parts)
        if self._recovered is not None:
            await asyncio.to_thread(self._recovered.give_up)
            self._recovered = None
        if self._disk_threads is not None:
            self._disk_threads.stop()
            self._disk_threads = None

    async def kill(self) -> None:
        """End as a killed process does: connections break, nothing is saved. No thread writes after the return."""
        self._is_stopping = True
        self.refuse("the broker was killed")
        parts, self.parts = self.parts, None
        await self._place.stop()
        await self._registering.kill()
        for task in (self._role_change, self._saving):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        self.server.abort_connections("killed")
        await self.server.stop()
        self._slave_port.stop()
        if parts is not None:
            parts.leave_group("this broker was killed")
            parts.stop()
        if self._client is not None and self._network is not None:
            self._network.close()
            await self._client.close()
        if self._disk_threads is not None:
            self._disk_threads.stop()
            await asyncio.to_thread(self._disk_threads.join)

    def run_jobs(self) -> None:
        """Run each periodic job now, without waiting for its time."""
        if self._jobs is not None:
            self._jobs.run_all()

    # -- parts and their role ------------------------------------------------------------------------------------

    def _note_master_role(self, master_role: str) -> None:
        assert self.switch is not None
        if self.switch.note_master_role(master_role):
            self._saving = asyncio.ensure_future(self._save_record())

    async def _save_record(self) -> None:
        assert self.switch is not None
        try:
            await self.save(self.switch.record)
        except StoreError as error:
            log.warning("the role of the group's master could not be saved: %s", error)

    async def _open_parts(self, role: Role, is_stopping: Callable[[], bool] = lambda: False) -> BrokerParts:
        """Open the store and make the parts of this role."""
        assert self._runtime is not None and self.switch is not None and self._bulk_work is not None
        self.config.broker_id = role.broker_id
        parts = BrokerParts(
            self._runtime,
            role,
            self._place,
            Owner(self.switch.ask, self._note_master_role, self._hasten_job),
            RegistrationRequests(self.config, self._registering.soon),
            self._runtime_settings,
            Sizes(memory_bytes()),
        )
        self.recovery = parts.recover(is_stopping)
        self.server.note_time()
        log_recovery(self.recovery)
        if self.config.enable_property_filter:
            compile_sql("TRUE")  # makes the parser: later, it would hold the event loop for some 70 ms
        # A master may send much to a slave at any moment.
        self._bulk_work.prepare(parts.store, is_awaited=not parts.role.is_master)
        recovered_tail = None
        if parts.replication.tail_recovery.is_in_doubt:
            assert self._startup_check is not None
            self._recovered = parts
            recovered_tail = await self._startup_check.recover_tail(parts.replication.tail_recovery)
            self._recovered = None
            self.recovery.log_end = recovered_tail.end
        parts.begin(recovered_tail)
        self.parts = parts
        self._place.attach(parts)
        return parts

    # -- the steps of a change of role, in their order (RoleSwitch) ------------------------------------------------

    def _change_role_soon(self) -> None:
        if self.switch is not None and self.config.broker_role != SLAVE:
            self.switch.note_master_role(self.config.broker_role)
        self.server.call_soon(self._start_role_change)

    def _start_role_change(self) -> None:
        assert self.switch is not None
        if self._is_stopping:
            return
        self._role_change = asyncio.ensure_future(self.switch.run())
        self._role_change.add_done_callback(self._role_changed)

    def _role_changed(self, done: asyncio.Task[None]) -> None:
        self._role_change = None
        assert self._failure is not None
        if not done.cancelled() and (error := done.exception()) is not None and not self._failure.done():
            self._failure.set_exception(error)

    def refuse(self, why: str) -> None:
        """See :class:`Steps`, also for the methods below."""
        self._stop_jobs()
        self.server.fast_path = None
        self.server.dispatcher = ClosedDispatcher(why, self._place.closed_dispatcher)

    async def withdraw(self) -> None:
        if self._place.replaces_registration:
            self._registering.replace_later()
        await self._registering.withdraw()

    async def close(self) -> None:
        parts = self.parts
        assert parts is not None
        await answer_all(parts, self._watch_slice, keeps_log=False)
        await self._close_parts(parts)

    async def truncate(self, end: int, why: str) -> None:
        await truncate_closed(self._files, self.config, self._clock, end, why)

    async def discard(self) -> None:
        await self._place.discard()

    async def save(self, record: RoleRecord) -> None:
        if self._place.keeps_role:
            return
        async with self._role_file_lock:  # an older record must not replace a newer one
            await asyncio.to_thread(self._role_file.save, record)

    async def open(self, role: Role) -> None:
        assert self.switch is not None
        self.config.broker_role = role_name_after_change(self.switch.record, self.config.broker_role)
        self._place = self._place.of_next_parts()
        parts = await self._open_parts(role)
        await self._slave_port.listen(parts.side)

    async def announce(self) -> None:
        if not self._place.serves_later(self):
            self._serve_again()

    def _serve_again(self) -> None:
        assert self.parts is not None
        # These parts know no client yet. A new connection brings a new heartbeat.
        self.server.close_connections()
        self._serve(self.parts)
        self._registering.soon()

    def _serve(self, parts: BrokerParts) -> Registrar:
        """Answer requests with these parts from now on; return what registers them."""
        assert self._bulk_work is not None and self._client is not None
        self.server.dispatcher = self.security.dispatcher(parts)
        self.server.fast_path = self.security.fast_path(parts)
        if self._front is not None:
            self._front.stand_before(self.server)
        jobs = [
            *parts.jobs(),
            *self.security.jobs(),
            Job("bulk work", TICK_PERIOD_MS, self._bulk_work.tick),
            Job(REGISTRATION_JOB, TICK_PERIOD_MS, self._registering.soon),
        ]
        self._jobs = JobRunner(
            jobs,
            self.server.schedule_turn_end,
            self.server.turns,
            activity=lambda: self.server.request_count + parts.store.physical_max_offset,
        )
        self._jobs.start()
        self.server.note_time()  # a change of role opens the store, too
        return self._registering.use(
            registrar_of(parts, self._client, self.address, asyncio.gather, self._discovery.look)
        )

    # -- closing -------------------------------------------------------------------------------------------------

    def _watch_slice(self, run: Callable[[], None]) -> None:
        turns = self.server.turns
        begun_s = turns.begin()
        run()
        turns.end(begun_s, "slice of a large answer")

    def _hasten_job(self, name: str, delay_ms: int) -> None:
        if self._jobs is not None:
            self._jobs.hasten(name, delay_ms)

    def _stop_jobs(self) -> None:
        if self._jobs is not None:
            self._jobs.stop()
            self._jobs = None

    async def _close_parts(self, parts: BrokerParts) -> None:
        self._place.detach()
        self.parts = None
        self._slave_port.stop()
        parts.stop()
        await asyncio.to_thread(parts.close)

    # -- turns and connections -----------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        if self.parts is not None:
            self.parts.end_turn()
        self._place.end_turn()

    def _after_turn(self) -> bool:
        return self.parts is not None and self.parts.after_turn()

    def _disconnected(self, connection: Connection) -> None:
        if self.parts is not None:
            self.parts.metadata.clients.disconnect(connection)
            self.parts.metadata.filter_servers.disconnect(connection)
            self.parts.requests.disconnect(connection)
