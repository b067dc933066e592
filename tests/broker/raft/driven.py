"""Nodes of the stories in tests/raft with the broker's driver, whose log has bytes and whose disk may fail."""

from __future__ import annotations

from collections.abc import Iterable

from pymq.broker.raft.driver import TICK_MS, RaftDriver
from pymq.broker.raft.incoming import check_bytes, write_pieces
from pymq.broker.raft.outgoing import Part
from pymq.errors import NotFoundError, RaftRefusedError, StoreUnavailableError
from pymq.model.layout import MAGIC_V1, RECORD_OVERHEAD_BYTES, RECORD_START
from pymq.raft.core import ReadAnswer, Role
from pymq.raft.messages import AppendRequest, Message, Piece, Snapshot
from pymq.raft.node import RaftNode
from pymq.raft.state import Membership, RaftState, Replica
from tests.raft.disk import Record
from tests.raft.world import DELAYS, SYNC_DELAYS, TICK, Packet, SimNode

MS_PER_UNIT = TICK_MS // TICK
SIZES = (RECORD_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, 2 * RECORD_OVERHEAD_BYTES)
_CHAIN_BYTES = 8


class DrivenNode(SimNode):
    """A node whose process is a RaftDriver. It is the driver's log, state file, connections and owner."""

    records: dict[int, tuple[Record, int]]  # chain -> the record and its size; of all nodes
    failures_count = 0

    def start(self) -> None:
        self.is_up, self.is_paused, self._is_syncing = True, False, False
        self.incarnation += 1
        self._snapshot = None
        self._staged: Record | None = None
        self.disk.synced_end = self.disk.end
        self.raft = RaftNode(self.disk.state, self.disk.begin, self.disk.end, self.world.names, self._rng)
        self.confirmed_before = self.raft.confirm_offset
        self.driver = RaftDriver(
            self.raft,
            log=self,
            state_file=self,
            connections=self,
            owner=self,
            waits_for_sync=True,
            now_ms=self.world.now * MS_PER_UNIT,
        )
        self.later(self._rng.randrange(TICK), self._tick)

    # -- what the story does -------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.later(TICK // 5, self._tick)
        self.driver.poll(self.world.now * MS_PER_UNIT)
        self._look()

    def receive(self, packet: Packet) -> None:
        if isinstance(packet.message, AppendRequest) and packet.message.pieces:
            data = b"".join(self._data(record.chain) for record in packet.records)
            check_bytes(packet.message, data)
            self.driver.take_part(Part(packet.message, data))
        else:
            self.driver.take(packet.message)
        self._look()

    def propose(self, membership: Membership | None = None) -> bool:
        if membership is not None:
            try:
                self.driver.change(membership)
            except RaftRefusedError:
                return False
        elif not self.driver.may_write:
            return False
        else:
            record = self._next_record(None)
            self._append(record)
            self.driver.appended(record.end)
        self._look()
        return True

    def read(self) -> None:
        request_id = self.world.chain = self.world.chain + 1
        self._reads[request_id] = self.world.checker.confirmed_end
        self.driver.read_index(request_id)
        self._look()

    def transfer(self, name: str) -> None:
        try:
            self.driver.transfer(name)
        except RaftRefusedError:
            return
        self._look()

    def release(self) -> None:
        ends = [record.end for record in self.disk.records_in(self.disk.begin, self.raft.confirm_offset)]
        if ends:
            begin = self._rng.choice(ends)
            self.disk.release(begin)
            self.driver.released(begin)
            self._look()

    def _look(self) -> None:
        assert self.driver.is_held or self.raft.log.end == self.disk.end, "the view is not the log"

    # -- the log -------------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        return self.disk.end

    def truncate(self, end: int) -> None:
        self._may_fail()
        self.world.checker.on_truncate(self, end)
        self.disk.truncate(end)

    def write(self, pieces: Iterable[Piece], request: AppendRequest, data: bytes) -> None:
        write_pieces(pieces, request, data, self)

    def append(self, position: int, data: bytes | memoryview) -> None:
        assert position == self.disk.end
        at = 0
        while at < len(data):
            self._may_fail()
            size, _ = RECORD_START.unpack_from(data, at)
            start = at + RECORD_START.size
            self._append(self.records[int.from_bytes(data[start : start + _CHAIN_BYTES], "big")][0])
            at += size

    def replace(self, snapshot: Snapshot) -> None:
        self._may_fail()
        source = self.world.source_of(snapshot)
        if source is None:
            raise StoreUnavailableError("the fetched snapshot is gone")
        self.world.checker.on_truncate(self, self.raft.confirm_offset)
        self.disk.replace(snapshot, source.disk.records_in(snapshot.begin, snapshot.last.end))

    def stage_membership(self, membership: Membership) -> int:
        self._staged = self._next_record(membership)
        return self._staged.end

    def write_membership(self) -> None:
        self._may_fail()
        assert self._staged is not None
        assert self._staged.membership == self.disk.state.memberships[-1].membership, "the state is saved first"
        self._append(self._staged)

    def read_log(self, offset: int, size_max: int) -> memoryview:
        if offset < self.disk.begin:
            raise NotFoundError(f"the log begins at {self.disk.begin}")
        found = b""
        for record in self.disk.records_in(offset, self.disk.end):
            if len(found) >= size_max:
                break
            found += self._data(record.chain)
        return memoryview(found[:size_max])

    def request_sync(self) -> None:
        self.later(self._rng.choice(SYNC_DELAYS), self._synced, self.disk.end, self.raft.log.truncation_count)

    def _synced(self, end: int, truncation_count: int) -> None:
        if truncation_count == self.raft.log.truncation_count:
            self.disk.synced_end = max(self.disk.synced_end, end)
        self.driver.synced(end, truncation_count)
        self._look()

    def _next_record(self, membership: Membership | None) -> Record:
        self.world.chain += 1
        size = self._rng.choice(SIZES)
        record = Record(self.disk.end + size, self.raft.term, self.world.chain, membership)
        self.records[record.chain] = (record, size)
        return record

    def _append(self, record: Record) -> None:
        self.disk.append(record)
        self.world.checker.on_append(self, record)

    def _data(self, chain: int) -> bytes:
        _, size = self.records[chain]
        return (RECORD_START.pack(size, MAGIC_V1) + chain.to_bytes(_CHAIN_BYTES, "big")).ljust(size, b"\0")

    def _may_fail(self) -> None:
        if self.world.is_faulty and self._rng.random() < 0.05:
            type(self).failures_count += 1
            raise StoreUnavailableError("the disk fails")

    # -- the state file, connections and owner -------------------------------------------------------------------

    def save(self, state: RaftState) -> None:
        self._may_fail()
        self.disk.state = state

    def send(self, message: Message) -> None:
        self.world.checker.on_message(message)
        self.world.send(self, Packet(message, ()))

    def wake(self, to: Replica) -> None:
        if self.world.is_faulty and self._rng.random() < 0.2:
            self.later(self._rng.choice(DELAYS) * 3, self._send_parts, to)
        else:
            self._send_parts(to)

    def _send_parts(self, to: Replica) -> None:
        while (part := self.driver.next_part(to)) is not None:
            request = part.request
            records = tuple(self.disk.records_in(request.previous.end, request.end))
            assert b"".join(self._data(record.chain) for record in records) == part.data
            self.world.send(self, Packet(request, records))

    def on_role(self, role: Role, term: int) -> None:
        if role is Role.LEADER:
            self.world.checker.on_leader(self)
            self.later(1, self._begin_term)

    def on_confirm(self, confirm_offset: int) -> None:
        assert confirm_offset == self.raft.confirm_offset
        self.world.checker.on_confirm(self)

    def on_read(self, answer: ReadAnswer) -> None:
        if answer.request_id in self._reads:
            self.world.checker.on_read(self._reads.pop(answer.request_id), answer.confirm_offset)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        if self._snapshot is None:
            self._snapshot = snapshot
            self.later(self._rng.randrange(5, 60), self._install)

    def _install(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        assert snapshot is not None
        if self.world.source_of(snapshot) is not None:
            self.driver.install(snapshot)
            self._look()

    def on_problem(self, text: str) -> None:
        self.problems.append(text)


def make_driven_nodes() -> type[DrivenNode]:
    """Return a class of nodes for one story, with records and counts of its own."""
    return type("DrivenNode", (DrivenNode,), {"records": {}, "failures_count": 0})
