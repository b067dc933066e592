"""A replica's way to the group's log: the mark, what is discarded with it, and the copy of a snapshot."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from pymq.broker.raft.joining import PIECE_BYTES, Joining, JoiningMark
from pymq.clock import ManualClock
from pymq.raft.messages import Snapshot
from pymq.raft.state import Position
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import ReadLogRequest
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from tests.broker.raft.test_replicated_bytes import Leader
from tests.store.support import SMALL

ROOT = "/joining"


class LeaderAtWire:
    """Answers request 9106 from a leader's store when it is told to."""

    def __init__(self) -> None:
        self.store = Leader(random.Random(1)).store
        self.asked: list[ReadLogRequest] = []
        self._on_answer: Callable[[Command | str], None] = lambda answer: None

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        self.asked.append(msgspec.json.decode(command.body, type=ReadLogRequest))
        self._on_answer = on_answer

    def answer(self, code: int = ResponseCode.SUCCESS) -> None:
        wanted = self.asked[-1]
        self._on_answer(Command(code, body=bytes(self.store.read_log(wanted.start, wanted.size_bytes))))


class Replica:
    """A replica with an empty store that was offered the leader's log."""

    def __init__(self, begin: int = 0) -> None:
        self.files, self.leader = MemoryFiles(), LeaderAtWire()
        self.mark = JoiningMark(self.files, ROOT)
        self.store = MessageStore(root=ROOT, files=self.files, clock=ManualClock(), settings=StoreSettings(**SMALL))
        self.follower = self.store.follow()
        self.store.open()
        self.problems: list[str] = []
        self.installed: list[Snapshot] = []
        self.joining = Joining(self.mark, self.leader)  # type: ignore[arg-type]
        self.joining.on_problem = self.problems.append
        node = SimpleNamespace(log=SimpleNamespace(memberships=()))
        self.driver: Any = SimpleNamespace(node=node, is_held=False, install=self._install)
        end = self.leader.store.physical_max_offset
        self.snapshot = Snapshot(begin, Position(1, end), (), ())
        self.offer()

    def offer(self) -> None:
        self.joining.offered(self.snapshot, "leader:1", self.store, self.follower)

    def advance(self) -> None:
        self.joining.advance(self.driver, self._sync)

    def _sync(self) -> None:
        self.store.sync()

    def _install(self, snapshot: Snapshot) -> bool:
        self.installed.append(snapshot)
        self.driver.node.log.memberships = ("first",)
        return True


def test_a_log_is_copied_and_installed_once_it_is_on_the_disk() -> None:
    replica = Replica()
    assert replica.mark.is_set and replica.joining.is_copying
    replica.offer()  # the leader repeats it
    while replica.follower.end < replica.snapshot.last.end:
        assert replica.leader.asked[-1].size_bytes <= PIECE_BYTES
        replica.leader.answer()
    replica.advance()  # asks for a sync
    assert not replica.installed
    replica.advance()
    assert replica.installed == [replica.snapshot] and replica.mark.is_set
    replica.driver.is_held = True  # the disk refuses the state
    replica.advance()
    assert replica.mark.is_set
    replica.driver.is_held = False
    replica.advance()
    assert not replica.mark.is_set and not replica.joining.is_copying and not replica.problems


def test_a_log_that_has_lost_its_begin_is_copied_from_there() -> None:
    begin = SMALL["segment_size_bytes"]
    replica = Replica(begin)
    assert replica.leader.asked[0].start == begin
    while replica.follower.end < replica.snapshot.last.end:
        replica.leader.answer()
    for _ in range(3):
        replica.advance()
    assert replica.installed == [replica.snapshot] and not replica.joining.is_copying and not replica.problems
    store, leader = replica.store, replica.leader.store
    assert (store.physical_min_offset, store.physical_max_offset) == (begin, leader.physical_max_offset)
    size = leader.physical_max_offset - begin
    assert store.read_log(begin, size) == leader.read_log(begin, size)


def test_a_begin_within_a_segment_is_refused() -> None:
    replica = Replica(begin=1)
    assert replica.joining.discards_log and "segments of" in replica.problems[0]


def test_a_copy_that_fails_begins_anew_with_an_empty_disk() -> None:
    replica = Replica()
    replica.leader.answer()
    replica.leader.answer(ResponseCode.SYSTEM_ERROR)
    assert replica.joining.discards_log and not replica.joining.is_copying
    assert "can't be copied from leader:1: code 1" in replica.problems[0]


def test_a_store_that_is_closed_meanwhile_begins_anew() -> None:
    replica = Replica()
    replica.joining.interrupt()
    assert replica.joining.discards_log
    replica.leader.answer()  # too late
    assert replica.follower.end == 0


def test_a_log_is_never_copied_over_another() -> None:
    replica = Replica()
    replica.leader.answer()
    replica.joining.forget()
    replica.offer()
    assert replica.joining.discards_log and not replica.joining.is_copying


def test_what_is_discarded_says_nothing_of_the_log_and_keeps_settings() -> None:
    replica = Replica()
    replica.leader.answer()
    replica.store.close()
    for name in ("raftState.json", "consumerOffset.json", "role.json"):
        replica.files.open(f"{ROOT}/config/{name}", create=True).close()
    replica.mark.discard()
    assert replica.mark.is_set, "until the state with a log is saved"
    assert replica.files.listdir(f"{ROOT}/config") == ["raftJoining", "role.json"]
    assert not replica.files.exists(f"{ROOT}/commitlog")
    replica.mark.discard()
