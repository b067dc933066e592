"""WaitingPlace: a plain group's broker until the Raft group is founded of which it has the settings."""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.assembly.group_place import GroupPlace
from pymq.broker.assembly.plain_place import PlainPlace
from pymq.broker.assembly.raft_hosting import OpenSettings, listen_as_member, make_answer_proof, member_record
from pymq.broker.assembly.raft_place import MakeHosting, RaftPlace
from pymq.broker.handlers.raft import RaftHandlers
from pymq.broker.raft.waiting import ServingParts, WaitingMember
from pymq.broker.replication.peer_proof import PeerProof
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.master_monitor import MasterMonitor
from pymq.broker.replication.roles.role import RoleChange
from pymq.broker.replication.roles.role_switch import RoleSwitch
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import Job
from pymq.net.server import Server


class WaitingPlace(PlainPlace):
    """A plain group's broker that has the settings of a Raft group's node, and becomes one with its group."""

    def __init__(
        self,
        runtime: Runtime,
        members: OpenSettings,
        make_hosting: MakeHosting,
        parts: Callable[[], ServingParts | None],
        *,
        known_peers: KnownPeers,
        peer_proof: PeerProof,
    ) -> None:
        """``parts`` returns the present ones, if any; ``make_hosting`` makes what hosts the node."""
        super().__init__(known_peers, peer_proof)
        self._members = members
        self._make_hosting = make_hosting
        self._switch: RoleSwitch | None = None
        self._node: RaftPlace | None = None  # the place of the next parts
        self._waiting = WaitingMember(
            members.settings,
            config=runtime.config,
            network=runtime.network,
            clock=runtime.clock,
            parts=parts,
            become_node=self._become_node,
            answer_proof=make_answer_proof(runtime.config, members, runtime.rng),
        )

    @property
    def keeps_role(self) -> bool:  # type: ignore[override]
        return self._node is not None

    async def begin(self, switch: RoleSwitch) -> None:
        self._switch = switch

    def opened(self, runtime: Runtime) -> None: ...

    async def listen(self, server: Server, runtime: Runtime) -> None:
        await listen_as_member(self._members.settings, server, runtime.config)

    def of_next_parts(self) -> GroupPlace:
        if self._node is None:
            return self
        self._node.host()
        return self._node

    def jobs(self, monitor: MasterMonitor) -> list[Job]:
        return [*super().jobs(monitor), *self._waiting.jobs()]

    def raft_handlers(self, broker_name: str) -> RaftHandlers:
        return RaftHandlers(None, broker_name, self._waiting)

    def _become_node(self, why: str) -> None:
        assert self._switch is not None
        record, role = member_record(self._members.settings)
        was_master = self._switch.record.role.is_master
        self._node = RaftPlace(self._members, self._make_hosting, was_master=was_master, known_peers=self.known_peers)
        self._switch.note_master_role(record.master_role)
        self._switch.ask(RoleChange(role, why))
