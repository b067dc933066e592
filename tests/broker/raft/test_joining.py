"""A replica's way to the group's log: the copy of a snapshot, and when its own log is set aside and put back."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pymq.broker.metadata.table_saver import run_inline
from pymq.broker.raft.answer_proof import log_bytes_at
from pymq.broker.raft.joining import PIECE_BYTES, PROBE_BYTES, PUT_BACK_MS, Joining
from pymq.broker.raft.joining_mark import FORMER_DIRECTORY, JoiningMark
from pymq.broker.raft.log_reader import LogReader
from pymq.broker.raft.secret_file import Secrets
from pymq.clock import ManualClock
from pymq.raft.messages import Snapshot
from pymq.raft.state import Position
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import ReadLogRequest
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from tests.broker.raft.groups import SECRETS, answer_proof
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

    def answer(self, code: int = ResponseCode.SUCCESS, secrets: Secrets = SECRETS) -> None:
        wanted = self.asked[-1]
        body = bytes(self.store.read_log(wanted.start, wanted.size_bytes))
        reply = answer_proof(secrets).reply(wanted.challenge, log_bytes_at(wanted.start), body)
        assert isinstance(reply.ext, dict)
        self._on_answer(Command(code, ext=reply.ext, body=body))


class Replica:
    """A replica with an empty store that was offered the leader's log."""

    def __init__(self, begin: int = 0) -> None:
        self.files, self.leader, self.clock = MemoryFiles(), LeaderAtWire(), ManualClock()
        self.mark = JoiningMark(self.files, ROOT)
        self.store = MessageStore(root=ROOT, files=self.files, clock=ManualClock(), settings=StoreSettings(**SMALL))
        self.follower = self.store.follow()
        self.store.open()
        self.problems: list[str] = []
        self.installed: list[Snapshot] = []
        network: Any = self.leader
        self.joining = Joining(self.mark, LogReader(network, answer_proof()), self.clock, run_inline)
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


def with_a_log() -> Replica:
    """Return a replica that has a log, and is offered another one."""
    replica = Replica()
    replica.leader.answer()
    network: Any = replica.leader
    replica.joining = Joining(replica.mark, LogReader(network, answer_proof()), replica.clock, run_inline)
    replica.joining.on_problem = replica.problems.append
    replica.mark.remove()
    replica.leader.asked.clear()
    replica.offer()
    return replica


def test_a_log_is_set_aside_once_the_leader_shows_the_other_one() -> None:
    replica = with_a_log()
    assert not replica.joining.discards_log and replica.leader.asked[0].size_bytes == PROBE_BYTES
    replica.offer()
    assert len(replica.leader.asked) == 1, "an offer comes with each heartbeat"
    replica.leader.answer()
    assert replica.joining.discards_log and not replica.joining.is_copying
    replica.store.close()
    replica.joining.change()
    assert replica.mark.has_former and replica.files.exists(f"{ROOT}/{FORMER_DIRECTORY}/commitlog")
    assert not replica.files.exists(f"{ROOT}/commitlog")


@pytest.mark.parametrize("secrets", [Secrets(b"another".ljust(32)), SECRETS])
def test_a_log_stays_when_the_other_one_is_not_shown(secrets: Secrets) -> None:
    """Also an offer that is proven destroys nothing by itself."""
    replica = with_a_log()
    replica.leader.answer(ResponseCode.INVALID_PARAMETER if secrets == SECRETS else ResponseCode.SUCCESS, secrets)
    assert not replica.joining.discards_log and "the log stays: leader:1 offers another one" in replica.problems[-1]
    replica.offer()
    assert len(replica.leader.asked) == 2, "the next offer is looked at as well"


def test_bytes_that_no_member_proves_are_not_copied() -> None:
    replica = Replica()
    replica.leader.answer(secrets=Secrets(b"another".ljust(32)))
    assert replica.follower.end == 0 and "does not prove" in replica.problems[0]


def test_the_former_log_is_put_back_when_no_other_one_comes() -> None:
    replica = with_a_log()
    end = replica.follower.end
    replica.leader.answer()
    replica.store.close()
    replica.joining.change()
    replica.clock.advance(PUT_BACK_MS - 1)
    replica.advance()
    assert not replica.joining.discards_log
    replica.clock.advance(1)
    replica.advance()
    assert replica.joining.discards_log and "takes its former log again" in replica.joining.why_discarded
    replica.joining.change()
    assert not replica.mark.is_set and not replica.files.exists(f"{ROOT}/{FORMER_DIRECTORY}")
    store = MessageStore(root=ROOT, files=replica.files, clock=ManualClock(), settings=StoreSettings(**SMALL))
    store.open()
    assert store.physical_max_offset == end > 0


def test_a_copy_that_goes_on_is_not_given_up() -> None:
    replica = with_a_log()
    replica.leader.answer()
    replica.store.close()
    replica.joining.change()
    replica.store = MessageStore(root=ROOT, files=replica.files, clock=ManualClock(), settings=StoreSettings(**SMALL))
    replica.follower = replica.store.follow()
    replica.store.open()
    replica.offer()
    while replica.follower.end < replica.snapshot.last.end:
        replica.clock.advance(PUT_BACK_MS - 1)
        replica.advance()
        replica.leader.answer()
    replica.clock.advance(PUT_BACK_MS)
    for _ in range(3):
        replica.advance()
    assert replica.installed == [replica.snapshot] and not replica.joining.discards_log
    assert not replica.mark.is_set and not replica.files.exists(f"{ROOT}/{FORMER_DIRECTORY}")
