"""A broker's parts on files in memory and a clock moved by hand, and peers that record what they receive."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pymq.broker.assembly.master_side import MasterSide
from pymq.broker.assembly.parts import BrokerParts, Sizes
from pymq.broker.assembly.plain_place import PlainPlace
from pymq.broker.assembly.slave_side import SlaveSide
from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.metadata.table_saver import run_inline
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.owner import Owner
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.replication.tables.table_pieces import PieceSizes
from pymq.broker.report.registration import RegistrationRequests
from pymq.broker.runtime import Runtime
from pymq.broker.work.sliced_work import inline_work
from pymq.broker.work.worker_threads import RunInThread
from pymq.clock import Clock, ManualClock
from pymq.config import BrokerConfig, load_broker_config
from pymq.model import fastjson
from pymq.model.draft import Draft
from pymq.model.hosts import pack_host
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage, decode_records
from pymq.net.memory_budget import MemoryBudget
from pymq.security.credentials import Credentials
from pymq.store.disk.fs import Files
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.store import Placed
from pymq.wire.command import FLAG_ONEWAY, Command, decode_command
from pymq.wire.dispatch import Dispatcher, Gate
from pymq.wire.header import Header, encode_header
from pymq.wire.reply import Reply
from pymq.wire.streams import Network, StreamHandler

ROOT = "/data"
TIMER_SLOT_COUNT = 4096  # a wheel of 256 KiB
BORN_HOST = pack_host("127.0.0.1", 5555)


def runtime_of(
    config: BrokerConfig,
    clock: Clock | None = None,
    files: Files | None = None,
    *,
    network: Network | None = None,
    rng: random.Random | None = None,
    run_in_thread: RunInThread = run_inline,
) -> Runtime:
    """Return what a test's parts run in: each thing that is not given is there and does nothing on its own."""
    return Runtime(
        config=config,
        clock=clock or ManualClock(),
        rng=rng or random.Random(1),
        files=files or MemoryFiles(),
        network=network or NoNetwork(),
        run_in_thread=run_in_thread,
        schedule_turn_end=lambda: None,
        sliced_work=inline_work(),
        budget=MemoryBudget(),
    )


class FakePeer:
    """The other end of a connection; keeps late answers, held frames and what it is sent or asked."""

    def __init__(self, address: str = "127.0.0.1:5555") -> None:
        self.address = address
        self.host = address.rpartition(":")[0]
        self.host_bytes = BORN_HOST
        self.client_certificate: bytes | None = None
        self.closed = False
        self.is_behind = False
        self.pushed: list[Command] = []
        self.asked: list[tuple[Command, Callable[[Command | None], None], int]] = []
        self.answers: list[Reply] = []
        self.frames: list[Command] = []

    def push(self, command: Command) -> None:
        self.pushed.append(command)

    def ask(self, command: Command, on_answer: Callable[[Command | None], None], timeout_ms: int) -> None:
        self.asked.append((command, on_answer, timeout_ms))

    def answer(self, request: Command, reply: Reply) -> None:
        self.answers.append(reply)

    def write(self, frame: bytes) -> None:
        self.frames.append(decode_command(frame[4:]))

    def write_all(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.write(frame)


class NoNetwork:
    """No peer answers. Failures wait in :attr:`failing` until a test runs them, as late as on a real network."""

    def __init__(self) -> None:
        self.failing: list[Callable[[], None]] = []

    def connect(self, address: str, handler: StreamHandler) -> None:
        self.failing.append(lambda: handler.closed(f"no connection to {address}"))

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        self.failing.append(lambda: on_answer(f"no connection to {address}"))


class AlwaysRegistered(RegistrationRequests):
    """Name servers know every change at once."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config, wake=lambda: None)

    def when_registered(self, callback: Callable[[], None]) -> None:
        callback()


class World:
    """An open broker without a network. ``settings`` are keys of broker.conf."""

    def __init__(
        self,
        files: MemoryFiles | None = None,
        clock: ManualClock | None = None,
        *,
        open_at_once: bool = True,
        role: Role | None = None,
        network: Network | None = None,
        registration_requests: RegistrationRequests | None = None,
        seed: int = 7,
        timer_slot_count: int = TIMER_SLOT_COUNT,
        piece_sizes: PieceSizes = PieceSizes(),  # noqa: B008 - it does not change
        **settings: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        self.files = files or MemoryFiles()
        # Small files: a gigabyte of zeros is of no use in memory.
        small = {
            "mappedFileSizeCommitLog": 4 * 1024 * 1024,
            "mappedFileSizeConsumeQueue": 20_000,
            "maxHashSlotNum": 100,
            "maxIndexNum": 1000,
            "mappedFileSizeTimerLog": 10_400,
            "haSlaveHosts": "127.0.0.1",  # no name server lists the slaves of a test
        }
        overrides = {name: str(value) for name, value in {**small, "storePathRootDir": ROOT, **settings}.items()}
        self.config = load_broker_config(None, overrides)
        self.run_in_thread: RunInThread = run_inline
        self.role = role or Role(self.config.broker_id)
        self.config.broker_id = self.role.broker_id
        self.role_changes: list[RoleChange] = []  # what the parts asked for
        self.master_roles: list[str] = []  # of the group's master, as they were seen
        runtime = runtime_of(
            self.config,
            self.clock,
            self.files,
            network=network,
            rng=random.Random(seed),
            run_in_thread=lambda work, done: self.run_in_thread(work, done),
        )
        self.parts = BrokerParts(
            runtime,
            self.role,
            PlainPlace(KnownPeers(self.config, self.clock)),
            Owner(self.role_changes.append, self.master_roles.append),
            registration_requests or AlwaysRegistered(self.config),
            sizes=Sizes(timer_slot_count=timer_slot_count, pieces=piece_sizes),
        )
        if open_at_once:
            self.parts.open()

    def reopened(self, **settings: Any) -> World:
        """Return a world of the same directory after a clean stop."""
        self.parts.close()
        return World(self.files, self.clock, **settings)

    def put(
        self, topic: str, body: bytes = b"x", queue_id: int = 0, reconsume_times: int = 0, **properties: str
    ) -> Placed:
        """Store one message at once."""
        placed = self.parts.messages.writer.put(
            topic,
            queue_id,
            Draft(body, encode_properties(properties), self.clock.now_ms(), BORN_HOST, reconsume_times=reconsume_times),
        )
        self.parts.messages.writer.commit()
        return placed

    def messages(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        """Return all messages of a queue."""
        result = self.parts.store.get(topic, queue_id, 0, 32, 1 << 20)
        return decode_records(b"".join(result.chunks))


def master_side(parts: BrokerParts) -> MasterSide:
    """Return the side of replication of a master."""
    assert isinstance(parts.side, MasterSide)
    return parts.side


def slave_side(parts: BrokerParts) -> SlaveSide:
    """Return the side of replication of a slave."""
    assert isinstance(parts.side, SlaveSide)
    return parts.side


class Caller:
    """A connected client: sends requests through the broker's table as a connection would."""

    def __init__(
        self,
        world: World,
        address: str = "127.0.0.1:5555",
        language: str = "JAVA",
        version: int = 479,
        gate: Gate | None = None,
        credentials: Credentials | None = None,
        dispatcher: Dispatcher | None = None,
    ) -> None:
        """``gate``: that of a secured broker; ``credentials`` sign the requests; ``dispatcher``: one made already."""
        self.peer = FakePeer(address)
        self._world = world
        self._language = language
        self._version = version
        self._credentials = credentials
        self._dispatcher = dispatcher or broker_dispatcher(world.parts, gate)

    def ask(self, code: int, body: bytes = b"", oneway: bool = False, **ext: object) -> Reply | None:
        """Return the reply; None when it comes later or waits for the commit. ``ext`` has wire names."""
        fields = {name: str(value) for name, value in ext.items()}
        command = Command(
            code,
            flag=FLAG_ONEWAY if oneway else 0,
            ext=fields,
            body=body,
            language=self._language,
            version=self._version,
        )
        if self._credentials is not None:
            self._credentials.sign(command)
        return self._dispatcher.dispatch(self.peer, command)

    def ok(self, code: int, body: bytes = b"", **ext: Any) -> Reply:
        """Return the reply, now or late, which must be a success."""
        reply = self.ask(code, body, **ext)
        if reply is None:
            assert self.peer.answers, "no answer"
            reply = self.peer.answers.pop()
        assert reply.code == 0, reply.remark
        return reply

    def refused(self, code: int, body: bytes = b"", **ext: Any) -> tuple[int, str]:
        """Return (code, remark) of the reply, now or late, which must be a refusal."""
        reply = self.ask(code, body, **ext)
        if reply is None:
            assert self.peer.answers, "no answer"
            reply = self.peer.answers.pop()
        assert reply.code != 0
        return reply.code, reply.remark or ""

    def json(self, code: int, body: bytes = b"", **ext: object) -> Any:
        """Return the parsed body of a successful reply."""
        return fastjson.loads(self.ok(code, body, **ext).body)

    def header(self, code: int, body: bytes = b"", **ext: object) -> dict[str, str]:
        """Return the named fields of a successful reply."""
        reply = self.ok(code, body, **ext)
        return encode_header(reply.ext) if isinstance(reply.ext, Header) else reply.ext or {}
