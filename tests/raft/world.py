"""World: a simulated group of Raft nodes. Time is a heap of events; the network, the disks and chance are its own.

Everything follows from the seed. A node's driver does what ``docs/raft-design.md`` says of the broker's.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from pymq.errors import RaftRefusedError
from pymq.raft.core import Ready, Role
from pymq.raft.messages import AppendRequest, Message, Snapshot
from pymq.raft.node import RaftNode
from pymq.raft.state import Membership, Replica
from tests.raft.checker import Checker
from tests.raft.disk import Disk, Record

TICK = 10  # units of time
DELAYS = (1, 1, 2, 2, 3, 5, 8)
SYNC_DELAYS = (1, 2, 2, 4, 9)


class Packet(NamedTuple):
    message: Message
    records: tuple[Record, ...]  # the bytes of an AppendRequest


class SimNode:
    """A node with its driver. ``raft`` is replaced by each start."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.incarnation = 0  # events of a dead process come to nothing
        self.is_up = False
        self.is_paused = False
        self.confirmed_before = 0
        self.raft: RaftNode
        self.problems: list[str] = []
        self._snapshot: Snapshot | None = None
        self._is_syncing = False
        self._was_leader = False
        self._reads: dict[int, int] = {}
        self._rng = random.Random(world.rng.getrandbits(32))
        self.new_disk()

    def new_disk(self) -> None:
        self.disk = Disk(Replica(self.name, f"{self.world.rng.getrandbits(32):08x}"))

    def start(self) -> None:
        self.is_up, self.is_paused, self._is_syncing, self._was_leader = True, False, False, False
        self.incarnation += 1
        self._snapshot = None
        state = self.disk.state
        self.disk.synced_end = self.disk.end
        self.raft = RaftNode(state, self.disk.begin, self.disk.end, self.world.names, self._rng)
        self.confirmed_before = self.raft.confirm_offset
        self.later(self._rng.randrange(TICK), self._tick)

    def later(self, delay: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call it when the time has come, in this life of the process."""
        self.world.at(delay, self.incarnation, self, call, *arguments)

    def stop(self, *, power: bool = False) -> None:
        self.is_up = False
        self.incarnation += 1
        if power:
            self.disk.lose_power(self._rng)

    # -- calls into the core ------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.later(TICK + self._rng.choice((-1, 0, 0, 1)), self._tick)
        self.raft.tick()
        self.drive()

    def receive(self, packet: Packet) -> None:
        self.raft.step(packet.message)
        self.drive(packet)

    def propose(self, membership: Membership | None = None) -> bool:
        """Write a record, as the leader. Returns whether it was taken."""
        end = self.disk.end + self._rng.choice((1, 1, 2))
        try:
            self.raft.propose(end, membership)
        except RaftRefusedError:
            return False
        self.world.chain += 1
        record = Record(end, self.raft.term, self.world.chain, membership)
        ready = self.raft.ready()
        if ready.state is not None:
            self.disk.state = ready.state
        self.disk.append(record)
        self.world.checker.on_append(self, record)
        self._carry_out(ready)
        self.drive()
        return True

    def _begin_term(self) -> None:
        self.propose()

    def read(self) -> None:
        request_id = self.world.chain = self.world.chain + 1
        self._reads[request_id] = self.world.checker.confirmed_end
        self.raft.read_index(request_id)
        self.drive()

    def transfer(self, name: str) -> None:
        try:
            self.raft.transfer(name)
        except RaftRefusedError:
            return
        self.drive()

    def release(self) -> None:
        """Delete old segments, and the records in them."""
        ends = [record.end for record in self.disk.records_in(self.disk.begin, self.raft.confirm_offset)]
        if ends:
            begin = self._rng.choice(ends)
            self.disk.release(begin)
            self.raft.released(begin)
            self.drive()

    # -- the driver ---------------------------------------------------------------------------------------------

    def drive(self, packet: Packet | None = None) -> None:
        ready = self.raft.ready()
        while ready.truncate_to is not None:
            self.world.checker.on_truncate(self, ready.truncate_to)
            self.disk.truncate(ready.truncate_to)
            if self.world.is_faulty and self._rng.random() < 0.1:
                self.stop(power=True)
                return
            self.raft.truncated()
            ready = self.raft.ready()
        if ready.state is not None:
            self.disk.state = ready.state
        if ready.pieces:
            assert packet is not None
            for record in packet.records:
                if record.end > self.disk.end:
                    self.disk.append(record)
                    self.world.checker.on_append(self, record)
        self._carry_out(ready)
        if ready.membership is not None:
            self.propose(ready.membership)

    def _carry_out(self, ready: Ready) -> None:
        checker = self.world.checker
        assert self.raft.log.end == self.disk.end, "the view is not the log"
        is_leader = self.raft.role is Role.LEADER
        if is_leader and not self._was_leader:
            checker.on_leader(self)
            self.later(1, self._begin_term)
        self._was_leader = is_leader
        for message in ready.messages:
            checker.on_message(message)
            records: tuple[Record, ...] = ()
            if isinstance(message, AppendRequest):
                records = tuple(self.disk.records_in(message.previous.end, message.end))
            self.world.send(self, Packet(message, records))
        if self.raft.confirm_offset > self.confirmed_before:
            checker.on_confirm(self)
        for read in ready.reads:
            if read.request_id in self._reads:
                checker.on_read(self._reads.pop(read.request_id), read.confirm_offset)
        self.problems += ready.problems
        self._sync()
        if ready.snapshot is not None and self._snapshot is None:
            self._snapshot = ready.snapshot
            self.later(self._rng.randrange(5, 60), self._install)

    def _sync(self) -> None:
        if not self._is_syncing and self.disk.synced_end < self.disk.end:
            self._is_syncing = True
            self.later(self._rng.choice(SYNC_DELAYS), self._synced, self.disk.end, self.raft.log.truncation_count)

    def _synced(self, end: int, truncation_count: int) -> None:
        self._is_syncing = False
        if truncation_count == self.raft.log.truncation_count:
            self.disk.synced_end = max(self.disk.synced_end, end)
        self.raft.persisted(end, truncation_count)
        self.drive()

    def _install(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        assert snapshot is not None
        source = self.world.source_of(snapshot)
        if source is None or not self.raft.install(snapshot):
            return
        self.world.checker.on_truncate(self, self.raft.confirm_offset)
        self.disk.replace(snapshot, source.disk.records_in(snapshot.begin, snapshot.last.end))
        self.drive()


class World:
    def __init__(self, seed: int, count: int = 3) -> None:
        self.rng = random.Random(seed)
        self.names = tuple(f"n{number}" for number in range(count))
        self.now = 0
        self.chain = 0
        self.is_faulty = False
        self.drop_chance = 0.0
        self.cut: set[tuple[str, str]] = set()  # from, to
        self._events: list[tuple[int, int, int, SimNode, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self.checker = Checker(self)
        self.nodes = {name: SimNode(self, name) for name in self.names}
        for node in self.nodes.values():
            node.start()

    def at(self, delay: int, incarnation: int, node: SimNode, call: Callable[..., None], *arguments: Any) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.now + delay, self._order, incarnation, node, call, arguments))

    def send(self, sender: SimNode, packet: Packet) -> None:
        to = packet.message.to.node_id
        if to not in self.nodes or (sender.name, to) in self.cut or self.rng.random() < self.drop_chance:
            return
        copies = 2 if self.is_faulty and self.rng.random() < 0.03 else 1
        for _ in range(copies):
            delay = self.rng.choice(DELAYS)
            if self.is_faulty and self.rng.random() < 0.03:
                delay *= self.rng.randrange(2, 100)
            self.at(delay, -1, self.nodes[to], self.nodes[to].receive, packet)

    def run(self, duration: int) -> None:
        """Let time pass. An event of a paused node waits until it goes on, as in a stopped process."""
        end = self.now + duration
        while self._events and self._events[0][0] <= end:
            self.now, _, incarnation, node, call, arguments = heapq.heappop(self._events)
            if not node.is_up or incarnation not in (-1, node.incarnation):
                continue
            if node.is_paused:
                self.at(TICK, incarnation, node, call, *arguments)
                continue
            call(*arguments)
        self.now = end

    def disk_of(self, replica: Replica) -> Disk | None:
        """Return the replica's disk; None when it was replaced."""
        disk = self.nodes[replica.node_id].disk if replica.node_id in self.nodes else None
        return disk if disk is not None and disk.state.replica == replica else None

    def source_of(self, snapshot: Snapshot) -> SimNode | None:
        """Return a node that can give the snapshot's bytes."""
        chain = self.checker.confirmed.get(snapshot.last.end)
        for node in self.nodes.values():
            there = node.disk.chain_at(snapshot.last.end) == chain or node.disk.begin == snapshot.last.end
            if node.is_up and node.disk.begin <= snapshot.begin and there:
                return node
        return None

    def leader(self) -> SimNode | None:
        """Return the leader of the newest term."""
        leaders = [node for node in self.nodes.values() if node.is_up and node.raft.role is Role.LEADER]
        return max(leaders, key=lambda node: node.raft.term, default=None)
