"""A master and its slave in memory, joined by a network that holds requests and answers until a test releases them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.table_saver import run_inline
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.slave.metadata_copy import MetadataCopy, metadata_copy
from pymq.broker.replication.tables.replicated_tables import replicated_tables
from pymq.clock import ManualClock
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher
from pymq.wire.reply import Reply
from pymq.wire.streams import StreamHandler
from tests.broker.world import ROOT, FakePeer, World, master_side, runtime_of, slave_side

MASTER = "10.0.0.1:10911"
CONFIGS = f"{ROOT}/config"
OnAnswer = Callable[[Command | str], None]


class AskedNetwork:
    """Requests wait in :attr:`asked`, and in :attr:`held` while a broker holds them.

    An address has a dispatcher while its broker lives. ``replies`` keeps every answer.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, Command, OnAnswer]] = []
        self.held: list[tuple[FakePeer, str, Command, OnAnswer]] = []
        self.replies: list[Reply] = []
        self.servers: dict[str, Dispatcher] = {}
        self.code_counts: dict[int, int] = {}

    def connect(self, address: str, handler: StreamHandler) -> None:
        raise AssertionError("tables go by questions")

    def ask(self, address: str, command: Command, on_answer: OnAnswer, timeout_ms: int) -> None:
        assert timeout_ms > 0
        self.asked.append((address, command, on_answer))
        self.code_counts[command.code] = self.code_counts.get(command.code, 0) + 1

    def answer_one(self, *, lose_request: bool = False, lose_answer: bool = False) -> None:
        """Deliver the oldest request and its answer, or lose one of them."""
        address, command, on_answer = self.asked.pop(0)
        server = self.servers.get(address)
        if server is None or lose_request:
            on_answer(f"{address} did not answer in 3 s")
            return
        peer = FakePeer()
        reply = server.dispatch(peer, command)
        if reply is not None:
            peer.answers.append(reply)
        self.held.append((peer, address, command, on_answer))
        self.deliver(lose_answer=lose_answer)

    def deliver(self, *, lose_answer: bool = False) -> None:
        """Deliver the answers that brokers have given by now, or lose them."""
        answered = [one for one in self.held if one[0].answers]
        self.held = [one for one in self.held if not one[0].answers]
        for peer, _, command, on_answer in answered:
            (reply,) = peer.answers
            self.replies.append(reply)
            on_answer("the answer was lost" if lose_answer else reply.to_command(command))

    def answer_all(self) -> None:
        self.deliver()
        while self.asked:
            self.answer_one()

    def lose(self, address: str) -> None:
        """Remove the broker at ``address``, and close its connections."""
        del self.servers[address]
        gone = [one for one in self.held if one[1] == address]
        self.held = [one for one in self.held if one[1] != address]
        for peer, _, _, on_answer in gone:
            peer.closed = True
            on_answer(f"the connection to {address} closed")


class Link:
    """The broker that the slave follows."""

    def __init__(self) -> None:
        self.master_address = MASTER
        self.is_following = True
        self.master_end = -1

    def note_master_end(self, log_end: int) -> None:
        self.master_end = log_end


class Pair:
    """``master`` and ``slave``, with ``copy`` on the slave; either may be closed and opened again."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.network = AskedNetwork()
        self.ha_client = Link()
        self.settings = {"mappedFileSizeCommitLog": 128 * 1024, **settings}
        self._start_count = 0
        self.master = self.open_master(MemoryFiles())
        self.slave = self.open_slave(MemoryFiles())

    def open_master(self, files: MemoryFiles) -> World:
        self._start_count += 1
        self.master = World(files, self.clock, seed=self._start_count, **self.settings)
        self.network.servers[MASTER] = broker_dispatcher(self.master.parts)
        return self.master

    def open_slave(self, files: MemoryFiles) -> World:
        self.slave = World(files, self.clock, role=Role(1), network=self.network, **self.settings)
        self.copy = self.make_copy()
        return self.slave

    def make_copy(self) -> MetadataCopy:
        parts = self.slave.parts
        tables = replicated_tables(
            store=parts.store,
            metadata=parts.metadata,
            delays=parts.messages.delays,
            transactions=parts.messages.transactions,
            timers=parts.messages.timers,
            stats=parts.stats,
            sync_mode=parts.replication.sync_mode,
            master_role=parts.replication.master_role,
            start_id="",
        )
        return metadata_copy(
            runtime_of(parts.config, self.clock, network=self.network),
            store=parts.store,
            metadata=parts.metadata,
            delays=parts.messages.delays,
            ha_client=self.ha_client,
            tables=tables,
            config_tables=ConfigTables(self.slave.files, ROOT, run_inline),
        )

    def restart_master(self, seconds: int = 0) -> None:
        self.stop_master()
        self.clock.advance(seconds * 1000)
        self.start_master()

    def stop_master(self) -> None:
        """Stop the master in good order: it saves what it had not saved before."""
        self.master.parts.close()
        self.network.lose(MASTER)
        self.ha_client.is_following = False

    def start_master(self) -> None:
        self.open_master(self.master.files)
        self.ha_client.is_following = True

    def restart_slave(self) -> None:
        self.copy.close()
        self.slave.parts.close()
        self.open_slave(self.slave.files)

    def promote(self) -> World:
        """Return a master opened in the slave's directory."""
        self.copy.close()
        self.slave.parts.close()
        return World(self.slave.files, self.clock, role=Role(0, begins_epoch=True), **self.settings)

    def run(self, ms: int) -> None:
        """Let time pass in ticks of a broker; every request is answered at once."""
        for _ in range(0, ms, 100):
            self.clock.advance(100)
            self.tick()
            self.network.answer_all()

    def tick(self) -> None:
        if MASTER in self.network.servers:
            self.master.parts.metadata.cursors.tick()
            self.master.parts.messages.delays.tick()
            master_side(self.master.parts).table_requests.tick()
            self.master.parts.end_turn()
        self.copy.tick()

    def copy_log(self) -> None:
        """Make the slave's log equal to the master's."""
        follower, log = slave_side(self.slave.parts).follower, self.master.parts.store
        while follower.end < log.physical_max_offset:
            follower.append(follower.end, log.read_log(follower.end, 1 << 20))
        follower.dispatch()

    def file(self, world: World, name: str) -> Any:
        """Return a table from the disk, without its checksum; None when there is none."""
        raw = world.files.read_bytes(f"{CONFIGS}/{name}.json") if self.has_file(world, name) else b"null"
        table = json.loads(raw)
        if table:
            table.pop("pymqCrc32", None)
        return table

    @staticmethod
    def has_file(world: World, name: str) -> bool:
        return world.files.exists(f"{CONFIGS}/{name}.json")
