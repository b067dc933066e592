"""Hosting: what a running broker needs beside its parts to belong to a Raft group: sockets, jobs, and the way out."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pymq.broker.handlers.closed_status import closed_status_routes
from pymq.broker.handlers.raft import RaftHandlers
from pymq.broker.raft.answer_proof import AnswerProof
from pymq.broker.raft.driver import tick_ms_of
from pymq.broker.raft.gate import MessageGate
from pymq.broker.raft.group import RaftGroup
from pymq.broker.raft.group_proofs import GroupProofs
from pymq.broker.raft.group_tables import GroupTables
from pymq.broker.raft.joining import Joining
from pymq.broker.raft.joining_mark import JoiningMark
from pymq.broker.raft.log_reader import LogReader
from pymq.broker.raft.members import GroupSettings, check_addresses, group_warnings, read_group
from pymq.broker.raft.node_directory import RUN_RECORD_FILE
from pymq.broker.raft.peers import Peers
from pymq.broker.raft.secret_file import SecretFile, open_secret
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.replication.roles.role_file import RoleRecord
from pymq.broker.routes import raft_rows
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import Job, JobRunner
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.values import SYNC_MASTER
from pymq.errors import RaftRefusedError, UsageError
from pymq.net.peer_client import PeerClient
from pymq.net.server import Server
from pymq.store.disk.fs import Files
from pymq.wire.dispatch import Dispatcher, Gate

if TYPE_CHECKING:
    from pymq.broker.replication.roles.role_switch import RoleSwitch

log = logging.getLogger(__name__)

SECRET_LOOK_TICKS = 20  # the file of the secret is read again after so many
HAND_OVER_S = 2.0  # how long an orderly stop waits for another leader


class OpenSettings(NamedTuple):
    """A member's group, with what its settings point to. ``hosts``: node id -> its IP addresses."""

    settings: GroupSettings
    hosts: Mapping[str, Sequence[str]]
    secret: SecretFile


class RaftHosting:
    """The group of one broker, from its start to its stop.

    For the group it is the broker that takes the node's role (:mod:`pymq.broker.raft.hosted_broker`).
    """

    def __init__(
        self,
        runtime: Runtime,
        members: OpenSettings,
        *,
        make_client: Callable[[], PeerClient],
        switch: RoleSwitch,
        on_serve: Callable[[], None],
        was_master: bool,
        member_gate: Gate | None,
    ) -> None:
        """``on_serve`` and ``was_master``: see :class:`~pymq.broker.raft.hosted_broker.HostedBroker`.

        ``member_gate``: proves members while the broker is closed; None on a broker that isn't secured.
        """
        config, clock, files, rng = runtime.config, runtime.clock, runtime.files, runtime.rng
        self.settings = settings = members.settings
        self.was_master = was_master
        self._switch = switch
        self._on_serve = on_serve
        self._clients = make_client(), make_client()
        self._secret = secret = members.secret
        gate = MessageGate(
            cluster=config.broker_cluster_name, group=settings.name, node_id=settings.self_id,
            secrets=lambda: secret.secrets, rng=rng,
        )  # fmt: skip
        proof = make_answer_proof(config, members, rng)
        gate.hosts = members.hosts
        root, store_host = runtime.root, runtime.store_host
        self._mark = JoiningMark(files, root)
        self._joining = Joining(self._mark, LogReader(runtime.network, proof), clock, runtime.run_in_thread)
        self._make_tables: Callable[[], GroupTables] = lambda: GroupTables(
            files=files,
            root=root,
            segment_bytes=config.mapped_file_size_commit_log_bytes,
            clock=clock,
            store_host=store_host,
            run_in_thread=runtime.run_in_thread,
            was_plain=not files.exists(f"{root}/config/{RUN_RECORD_FILE}"),
        )
        self.group = RaftGroup(
            runtime,
            settings,
            self,
            proofs=GroupProofs(gate, proof),
            peers=self._peers(gate, clock),
            tables=self._make_tables(),
            joining=self._joining,
        )
        routes = [row.route(row.handler) for row in raft_rows(RaftHandlers(self.group, config.broker_name))]
        self.dispatcher = Dispatcher([*routes, *closed_status_routes(config, self.group)], "broker", gate=member_gate)
        self._jobs: JobRunner | None = None
        self._tick_count = 0

    def _peers(self, gate: MessageGate, clock: Clock) -> Peers:
        messages, log_bytes = self._clients
        peers = Peers(self.settings, gate, clock, messages, log_bytes)
        messages.on_lost, messages.on_refused = peers.reopen, peers.note_refused
        return peers

    # -- for the group -----------------------------------------------------------------------------------------------

    @property
    def is_changing(self) -> bool:
        return self._switch.is_changing

    def change_role(self, change: RoleChange) -> None:
        self._switch.ask(change)

    def serve(self) -> None:
        self._on_serve()

    # -- from start to stop ------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Finish what the last run had begun with the log. The store must not be open. Raises OSError, StoreError."""
        await asyncio.to_thread(self._mark.recover)
        self._note_former_group()

    async def discard(self) -> None:
        """Set the log and the node's state aside, or put them back; the next parts are another replica's.

        Raises OSError, StoreError.
        """
        self.group.forget()
        await asyncio.to_thread(self._joining.change)
        self._note_former_group()
        self.group.tables = self._make_tables()

    def _note_former_group(self) -> None:
        """A node whose log is set aside is in its group: it founds no other one."""
        if self._mark.has_former:
            self.group.gate.founded = self._mark.former_group()

    @property
    def is_running(self) -> bool:
        """True from :meth:`start` to :meth:`stop`."""
        return self._jobs is not None

    def start(self, server: Server) -> None:
        """Begin to tick."""
        self._jobs = JobRunner(
            [Job("Raft", tick_ms_of(self.settings), self._tick)], server.schedule_turn_end, server.turns
        )
        self._jobs.start()

    def _tick(self) -> None:
        self._tick_count += 1
        if self._tick_count % SECRET_LOOK_TICKS == 0:
            if self._secret.look():
                log.warning("the secret of Raft group %s has changed: %s", self.settings.name, self._secret.path)
                self.group.gate.sessions.forget_keys()
            if self._secret.problem:
                self.group.on_problem(self._secret.problem)
        self.group.tick()

    async def hand_over(self) -> None:
        """Let another node lead, if this one does, before its broker stops."""
        group = self.group
        successor = group.best_successor()
        if not successor:
            return
        try:
            group.transfer(successor)
        except RaftRefusedError as error:
            log.warning("leadership can't be handed over: %s", error)
            return
        handed_over = asyncio.Event()
        group.when_deposed(handed_over.set)
        with suppress(TimeoutError):
            await asyncio.wait_for(handed_over.wait(), HAND_OVER_S)

    async def stop(self) -> None:
        """Send and take no messages any more."""
        if self._jobs is not None:
            self._jobs.stop()
            self._jobs = None
        self.group.driver = None
        for client in self._clients:
            await client.close()


def make_answer_proof(config: BrokerConfig, members: OpenSettings, rng: random.Random) -> AnswerProof:
    """Return what proves a broker's answers."""
    return AnswerProof(config.broker_cluster_name, members.settings.name, lambda: members.secret.secrets, rng)


async def listen_as_member(settings: GroupSettings, server: Server, config: BrokerConfig) -> None:
    """Listen on the port of ``dLegerPeers``, where that is another one. Raises UsageError."""
    own = settings.own
    if own.port not in (config.listen_port, config.fast_listen_port):
        try:
            await server.start(config.bind_address, own.port)
        except OSError as error:
            raise UsageError(
                f"dLegerPeers says that {own.node} is at port {own.port}, which can't be used: {error}; set a free "
                "one on every member"
            ) from error


def member_record(settings: GroupSettings) -> tuple[RoleRecord, Role]:
    """Return the role that a member starts in: each is a follower until it is elected."""
    own_id = settings.own.broker_id
    record = RoleRecord(broker_id=own_id, configured_id=own_id, master_role=SYNC_MASTER)
    return record, record.role


async def open_settings(config: BrokerConfig, files: Files, rng: random.Random) -> OpenSettings:
    """Return the group of the settings. Raises ConfigError.

    ``rng`` draws the secret of a group that has none.
    """
    settings = read_group(config)
    hosts = {member.host: await _resolve(member.host) for member in settings.members}
    check_addresses(settings.members, lambda host: hosts[host])
    for warning in group_warnings(settings):
        log.warning("%s", warning)
    secret = open_secret(files, config, settings, rng.randbytes)
    log.info("members of %s prove each other by the secret in %s", settings.name, secret.path)
    return OpenSettings(settings, {member.node: hosts[member.host] for member in settings.members}, secret)


async def _resolve(host: str) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted({str(address[4][0]) for address in found})
