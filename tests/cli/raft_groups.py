"""Raft groups of brokers in this process: real cores that agree at once, seen through the admin client."""

from __future__ import annotations

import random
from typing import Any

from pymq.broker.raft.gate import MessageGate
from pymq.broker.raft.leader_watch import LeaderWatch
from pymq.broker.raft.members import GroupSettings, Member
from pymq.broker.replication.roles.role import Role
from pymq.clock import ManualClock
from pymq.raft.core import ELECTION_TICKS
from pymq.raft.node import RaftNode
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, RaftState, Replica
from tests.broker.raft.groups import SECRETS
from tests.broker.world import World
from tests.cli.worlds import CLUSTER, WorldAdmin


class Node:
    """A :class:`pymq.broker.raft.report.OperatedGroup`: one node of a :class:`Group`."""

    def __init__(self, group: Group, state: RaftState, number: int) -> None:
        self.group = group
        self.settings = GroupSettings(group.name, f"n{number}", group.members)
        names = tuple(member.node for member in group.members)
        self.node = RaftNode(state, 0, group.end, names, random.Random(number))
        self.gate = MessageGate(
            cluster="east", group="shard-a", node_id="n0", secrets=lambda: SECRETS, rng=random.Random(1)
        )
        self.watch = LeaderWatch(self.settings, ManualClock())
        self.is_up = True
        self.trouble = ""

    def problems(self) -> list[str]:
        return [self.trouble] if self.trouble else []

    def transfer(self, node_id: str) -> None:
        self.node.transfer(node_id)
        self.group.settle()

    def change(self, membership: Membership) -> None:
        self.append(membership)

    def append(self, membership: Membership | None = None) -> None:
        self.node.propose(self.node.log.end + 100, membership)
        self.group.settle()


class Group:
    """A Raft group whose messages arrive at once and whose disks are synced at once. n0 leads at the beginning.

    ``admin``: whose name servers list it. ``hosts``: of the nodes; further ones than ``voters`` are in no membership.
    """

    def __init__(
        self,
        admin: WorldAdmin,
        name: str,
        hosts: tuple[str, ...] = ("10.0.0.1",) * 3,
        *,
        voters: int = 3,
        leader: int = 0,
    ) -> None:
        self.name = name
        self.end = 1000
        port = 10911 + 100 * len(admin.cluster.known)
        self.members = tuple(Member(f"n{number}", host, port + 10 * number) for number, host in enumerate(hosts))
        replicas = [Replica(member.node, f"disk-{member.node}") for member in self.members]
        first = Membership(tuple((replica, Kind.VOTER) for replica in replicas[:voters]))
        self.nodes = [self._node(number, replica, first) for number, replica in enumerate(replicas)]
        self.elect(0)
        for number, member in enumerate(self.members):
            broker_id = 0 if number == 0 else member.broker_id
            world = World(brokerName=name, brokerClusterName=CLUSTER, role=Role(broker_id))
            world.parts.raft = self.nodes[number]
            admin.add(name, broker_id, world)
            self._place(admin, broker_id, member.address, world)
        self._admin = admin

    def _node(self, number: int, replica: Replica, first: Membership) -> Node:
        is_member = replica in first.replicas
        entries = (MembershipEntry(self.end, first),) if is_member else ()
        epochs = (Epoch(1, 0),) if is_member else ()
        return Node(self, RaftState(replica, 1, confirm_offset=0, epochs=epochs, memberships=entries), number)

    def _place(self, admin: WorldAdmin, broker_id: int, address: str, world: World) -> None:
        addresses = admin.cluster.known[self.name].broker_addrs
        admin.connection.worlds.pop(addresses[broker_id], None)
        addresses[broker_id] = address
        admin.connection.worlds[address] = world

    def elect(self, number: int) -> None:
        """Have a node wait until it begins an election; it wins if it hears a majority."""
        for _ in range(2 * ELECTION_TICKS):
            self.nodes[number].node.tick()
        self.settle()
        if self.nodes[number].node.leadership is not None:
            self.nodes[number].append()

    def settle(self) -> None:
        """Deliver all messages, and what follows from them."""
        is_moving = True
        while is_moving:
            is_moving = False
            for node in self.nodes:
                if not node.is_up:
                    continue
                raft = node.node
                raft.persisted(raft.log.end, raft.log.truncation_count)
                node.watch.look(raft)
                for message in raft.ready().messages:
                    is_moving = True
                    to = next((other for other in self.nodes if other.settings.self_id == message.to.node_id), None)
                    if to is not None and to.is_up:
                        to.watch.on_message(message)
                        to.node.step(message)

    def tick(self, count: int) -> None:
        for _ in range(count):
            for node in self.nodes:
                if node.is_up:
                    node.node.tick()
            self.settle()

    def stop(self, number: int) -> None:
        """Stop a node: it answers nobody, and is registered no more."""
        self.nodes[number].is_up = False
        known: Any = self._admin.cluster.known[self.name].broker_addrs
        address = self.members[number].address
        for broker_id in [broker_id for broker_id, at in known.items() if at == address]:
            del known[broker_id]
        self._admin.connection.worlds.pop(address, None)
