"""An admin client whose brokers are objects in this process: commands see masters and slaves in any state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pymq.broker.replication.roles.role import Role
from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.replication import ReplicationAdmin
from pymq.client.admin.settings import SettingsAdmin
from pymq.errors import RefusedError, UnreachableError
from pymq.model.route import BrokerData
from pymq.wire.bodies_admin import encode_admin_body
from pymq.wire.bodies_route import ClusterInfo
from pymq.wire.command import Command
from pymq.wire.header import Header, encode_header
from tests.broker.world import Caller, World

CLUSTER = "east"


class Connection:
    """Passes requests straight to a broker's dispatch table. ``answers`` overrides it for an (address, code)."""

    def __init__(self) -> None:
        self.worlds: dict[str, World] = {}
        self.answers: dict[tuple[str, int], Callable[[Command], Command]] = {}

    async def ask_broker(self, address: str, code: int, header: Header | None = None, body: Any = b"") -> Command:
        world = self.worlds.get(address)
        if world is None:
            raise UnreachableError(f"{address} can't be reached")
        raw = body if isinstance(body, bytes) else encode_admin_body(body)
        replaced = self.answers.get((address, code))
        if replaced is not None:
            return replaced(Command(code, body=raw))
        fields: dict[str, Any] = encode_header(header) if header is not None else {}
        caller = Caller(world)
        reply = caller.ask(code, raw, **fields)
        if reply is None:
            reply = caller.peer.answers.pop()
        if reply.code != 0:
            raise RefusedError(reply.code, reply.remark, address)
        answer = reply.to_command(Command(code))
        return Command(0, ext=answer.ext, body=reply.body)


class Cluster:
    """The state of the name servers."""

    def __init__(self) -> None:
        self.known: dict[str, BrokerData] = {}

    async def info(self) -> ClusterInfo:
        return ClusterInfo(broker_addr_table=self.known)

    async def workers_of(self, name: str) -> list[str]:
        return [name]


class WorldAdmin:
    """The part of an Admin that the replication commands use."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.cluster = Cluster()
        self.brokers = BrokerAdmin(self.connection)  # type: ignore[arg-type]
        self.settings = SettingsAdmin(self.connection)  # type: ignore[arg-type]
        self.replication = ReplicationAdmin(self.connection, self.brokers)  # type: ignore[arg-type]

    def add(self, name: str, broker_id: int, world: World | None) -> str:
        """Register a broker and return its address; without a world the broker does not answer."""
        address = f"10.0.0.{broker_id + 1}:{10911 + len(self.cluster.known)}"
        data = self.cluster.known.setdefault(name, BrokerData(cluster=CLUSTER, broker_name=name, broker_addrs={}))
        data.broker_addrs[broker_id] = address
        if world is not None:
            self.connection.worlds[address] = world
        return address


def master(message_count: int = 20, **settings: Any) -> World:
    """Return an open master with some messages."""
    world = World(brokerName="broker-a", brokerClusterName=CLUSTER, **settings)
    for number in range(message_count):
        world.put("orders", b"%d" % number * 100, queue_id=number % 3)
    return world


def slave_of(world: World, **settings: Any) -> tuple[World, World]:
    """Return the master, opened again, and a slave with the same log."""
    world.parts.close()
    names = {"brokerName": "broker-a", "brokerClusterName": CLUSTER, **settings}
    files = copy.deepcopy(world.files)
    return World(world.files, world.clock, **names), World(files, world.clock, role=Role(1), **names)
