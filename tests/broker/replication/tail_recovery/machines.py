"""A master whose machine loses power, and slaves that have more of its log than it, all in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.tail_recovery.tail_search import RecoveredTail
from pymq.clock import ManualClock
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.bodies_replication import ReplicationStatus
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.broker.replication.asking import Asking
from tests.broker.world import ROOT, FakePeer, World, slave_side
from tests.crash.losses import DROP_ALL, Loss

SEGMENT = 65_536
FIRST, SECOND = "10.0.0.2:10911", "10.0.0.3:10911"
IDS = {FIRST: 1, SECOND: 2}


class Machines:
    """``slaves``: address -> a slave that answers. ``asked``: requests but the group probe's, as (address, code)."""

    def __init__(self, slave_count: int = 1, **settings: Any) -> None:
        self.clock = ManualClock()
        self.settings = {"mappedFileSizeCommitLog": SEGMENT, "brokerIP1": "10.0.0.1", **settings}
        self.master = World(clock=self.clock, **{**self.settings, "brokerRole": "ASYNC_MASTER"})
        self.slaves: dict[str, World] = {}
        for address in list(IDS)[:slave_count]:
            self.add_slave(address)
        self.asked: list[tuple[str, int]] = []
        self.spoil: Callable[[str, Command, bytes], bytes | str] = lambda address, request, body: body
        self.paused_ms = 0
        self.on_pause: Callable[[], None] = lambda: None

    def add_slave(self, address: str) -> World:
        host, _, _ = address.partition(":")
        role = {"brokerId": str(IDS[address]), "brokerRole": "SLAVE", "brokerIP1": host}
        slave = World(clock=self.clock, role=Role(IDS[address]), **{**self.settings, **role})
        self.slaves[address] = slave
        return slave

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            self.master.put("T", body)

    def copy(self, address: str, end: int | None = None) -> None:
        """Copy the master's log to the slave, up to ``end``."""
        ours, slave = self.master.parts, self.slaves[address].parts
        follower = slave_side(slave).follower
        self.master.parts.replication.tail_recovery.note_slave(IDS[address], address)
        slave.replication.epoch_file.follow(ours.replication.epoch_file.history, follower.end)
        end = ours.store.physical_max_offset if end is None else end
        while (at := follower.end) < end:
            follower.append(at, bytes(ours.store.read_log(at, end - at)))
            follower.dispatch()

    def lose_power(self, loss: Loss = DROP_ALL) -> None:
        """Drop what the master's disk has not synced, and open its store again. The group is not asked yet."""
        image = loss.of(self.master.files.snapshot())
        self.recover(MemoryFiles.restored(image, now_ms=self.clock.now_ms))

    def recover(self, files: MemoryFiles, **settings: Any) -> None:
        self.network = Asking()
        world = World(files, self.clock, open_at_once=False, network=self.network, **{**self.settings, **settings})
        self.master = world
        self.master.parts.recover()

    def search(self) -> RecoveredTail:
        """Runs the tail search of the master's start."""

        async def found() -> RecoveredTail:
            return await self.master.parts.replication.tail_recovery.search(self._ask, self._pause, self._members)

        return asyncio.run(found())

    async def _members(self, also: list[str]) -> list[Member]:
        return [self.member(address) for address in sorted({*self.slaves, *also})]

    def member(self, address: str) -> Member:
        """Return what a group probe finds at ``address``."""
        if address not in self.slaves:
            return Member(address, IDS[address], answered=False)
        return Member(address, IDS[address], answered=True, status=self.status(address))

    def status(self, address: str) -> ReplicationStatus:
        answer = self._dispatched(address, Command(RequestCode.PYMQ_GET_REPLICATION_STATUS))
        return msgspec.json.decode(answer.body, type=ReplicationStatus)

    async def _ask(self, address: str, command: Command, timeout_ms: int) -> Command | str:
        assert timeout_ms > 0
        self.asked.append((address, command.code))
        if address not in self.slaves:
            return f"no connection to {address}"
        answer = self._dispatched(address, command)
        body = self.spoil(address, command, answer.body)
        return body if isinstance(body, str) else Command(answer.code, body=body, remark=answer.remark)

    def _dispatched(self, address: str, command: Command) -> Command:
        reply = broker_dispatcher(self.slaves[address].parts).dispatch(FakePeer(), command)
        assert reply is not None
        return reply.to_command(command)

    async def _pause(self, duration_ms: int) -> None:
        self.paused_ms += duration_ms
        self.clock.advance(duration_ms)
        self.on_pause()

    def begin(self) -> None:
        """Search for the tail, and begin with what was found."""
        self.master.parts.begin(self.search())

    @property
    def unsynced(self) -> dict[str, str]:
        """The unsynced replicas noted on the master's disk."""
        table = JsonTable(self.master.files, f"{ROOT}/config/unsyncedReplicas.json").load()
        return dict(table.get("slaves", {}))

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.master.messages("T")]

    @property
    def epoch_history(self) -> EpochHistory:
        return self.master.parts.replication.epoch_file.history

    def log_of(self, world: World) -> bytes:
        store = world.parts.store
        parts, at = [], store.physical_min_offset
        while at < store.physical_max_offset:
            parts.append(bytes(store.read_log(at, SEGMENT)))
            at += len(parts[-1])
        return b"".join(parts)
