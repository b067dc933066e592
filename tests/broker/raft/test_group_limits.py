"""Limits of a broker's place in its Raft group, at their edges."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.broker.metadata.table_saver import run_inline
from pymq.broker.raft.broker_log import BrokerLog
from pymq.broker.raft.gate import MessageGate
from pymq.broker.raft.group import RaftGroup
from pymq.broker.raft.group_proofs import GroupProofs
from pymq.broker.raft.group_status import IN_SYNC_LAG_BYTES_MAX, follower_states
from pymq.broker.raft.group_tables import GroupTables
from pymq.broker.raft.joining import Joining
from pymq.broker.raft.joining_mark import JoiningMark
from pymq.broker.raft.log_reader import LogReader
from pymq.broker.raft.members import GroupSettings, parse_peers
from pymq.broker.raft.outgoing import Part
from pymq.broker.raft.peers import SILENT_TIMEOUTS_MAX, SLOW_LINK_BYTES_PER_MS, Peers
from pymq.broker.raft.problems import PROBLEMS_MAX
from pymq.broker.raft.showing import DISPATCH_BYTES_MAX, Showing
from pymq.broker.replication.dispatch_pace import DISPATCH_BYTES, DISPATCH_INTERVAL_MS
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.clock import ManualClock
from pymq.config import BrokerConfig
from pymq.model.draft import Draft
from pymq.raft.core import ELECTION_TICKS
from pymq.raft.messages import (
    AppendAnswer,
    AppendRequest,
    HeartbeatAnswer,
    Introduction,
    Piece,
    PreVoteAnswer,
    PreVoteRequest,
)
from pymq.raft.state import Membership, Position, Replica
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore
from pymq.wire.command import Command
from tests.broker.raft.groups import SECRETS, answer_proof
from tests.broker.raft.test_replicated_bytes import Leader
from tests.broker.world import runtime_of
from tests.store.support import SMALL

SETTINGS = GroupSettings("shard-a", "n0", parse_peers("n0-10.0.0.1:1;n1-10.0.0.2:1;n2-10.0.0.3:1"))
SILENT_MS = SILENT_TIMEOUTS_MAX * SETTINGS.election_timeout_ms
US, THEM, OTHERS = Replica("n0", "a"), Replica("n1", "b"), Replica("n2", "c")
NOWHERE = Position(0, 0)


class Wire:
    """A client that remembers to whom it told something, and which connections it dropped."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.dropped: list[str] = []
        self.asked: list[str] = []

    def has_room(self, address: str) -> bool:
        self.asked.append(address)
        return True

    def tell(self, address: str, command: Command) -> bool:
        self.told.append(address)
        return True

    def drop(self, address: str) -> None:
        self.dropped.append(address)


def make_gate() -> MessageGate:
    return MessageGate(cluster="c", group="shard-a", node_id="n0", secrets=lambda: SECRETS, rng=random.Random(1))


def make_peers(clock: ManualClock) -> tuple[Peers, Wire]:
    wire = Wire()
    return Peers(SETTINGS, make_gate(), clock, wire, wire), wire


def test_each_tick_opens_the_connections_to_all_peers_that_have_none() -> None:
    """The first request to a peer without a connection is lost, and a follower asks for a vote once."""
    peers, wire = make_peers(ManualClock())
    peers.tick()
    assert wire.asked == [member.address for member in SETTINGS.others]


class Hosted:
    """A broker that notes which roles it is to take, and takes none."""

    was_master = is_changing = False

    def __init__(self) -> None:
        self.changes: list[RoleChange] = []

    def change_role(self, change: RoleChange) -> None:
        self.changes.append(change)

    def serve(self) -> None: ...


def make_group(follower: Any = None, broker: Hosted | None = None) -> RaftGroup:
    clock, files = ManualClock(), MemoryFiles()
    store = MessageStore(root="/s", files=files, clock=clock)
    store.open()
    peers, _ = make_peers(clock)

    def ask(address: str, command: Command, on_answer: Any, timeout_ms: int) -> None: ...

    network: Any = SimpleNamespace(ask=ask)
    config = BrokerConfig(store_path_root_dir="/s", broker_ip1="127.0.0.1", listen_port=1)
    group = RaftGroup(
        runtime_of(config, clock, files, network=network),
        SETTINGS,
        broker or Hosted(),
        proofs=GroupProofs(make_gate(), answer_proof()),
        peers=peers,
        tables=GroupTables(
            files=files, root="/s", segment_bytes=1 << 20, clock=clock, store_host=b"", run_in_thread=run_inline
        ),
        joining=Joining(JoiningMark(files, "/s"), LogReader(network, answer_proof()), clock, run_inline),
    )
    parts: Any = SimpleNamespace(role=Role(1), store=store)
    group.attach(
        parts,
        follower=follower,
        history=EpochHistory(),
        was_clean=True,
        commit=lambda: None,
        request_sync=lambda: None,
        check_writes=lambda: None,
    )
    return group


def test_connections_to_a_silent_peer_are_opened_anew() -> None:
    clock = ManualClock()
    peers, wire = make_peers(clock)
    clock.advance(SILENT_MS)
    peers.note_heard(Introduction(OTHERS, US, 1, NOWHERE))
    peers.tick()
    assert wire.dropped == []
    clock.advance(1)
    peers.tick()
    assert wire.dropped == ["10.0.0.2:1"] * 2
    clock.advance(SILENT_MS - 1)
    peers.tick()
    assert wire.dropped == ["10.0.0.2:1"] * 2


def test_connections_to_a_peer_that_answers_nothing_are_opened_anew() -> None:
    """It is heard, so only what it does not answer tells that the way to it is broken."""
    clock = ManualClock()
    peers, wire = make_peers(clock)
    question = PreVoteRequest(US, THEM, 1, NOWHERE)
    peers.send(question)
    clock.advance(SILENT_MS)
    for sender in (THEM, OTHERS):
        peers.note_heard(PreVoteRequest(sender, US, 1, NOWHERE))
    peers.send(question)
    peers.tick()
    assert wire.dropped == []
    clock.advance(1)
    peers.tick()
    assert wire.dropped == ["10.0.0.2:1"] * 2
    peers.note_heard(PreVoteAnswer(THEM, US, 1, 1, True))
    clock.advance(SILENT_MS)
    peers.note_heard(PreVoteRequest(OTHERS, US, 1, NOWHERE))
    peers.note_heard(PreVoteRequest(THEM, US, 1, NOWHERE))
    clock.advance(1)
    peers.tick()
    assert len(wire.dropped) == 2


@pytest.mark.parametrize("is_answered", [False, True])
def test_log_bytes_without_an_answer_get_a_new_connection(is_answered: bool) -> None:
    """Votes and heartbeats have another connection: their answers say nothing of this one."""
    clock = ManualClock()
    peers, wire = make_peers(clock)
    data = bytes(100 * SLOW_LINK_BYTES_PER_MS)
    request = AppendRequest(US, THEM, 1, NOWHERE, (Piece(1, 0, len(data)),), (), 0)
    waiting = [Part(request, data)]
    peers.next_part = lambda to: waiting.pop() if waiting else None
    peers._gate.sessions._to("n1").session = "5" * 16
    peers.wake(THEM)
    peers.pump()
    if is_answered:
        peers.note_heard(AppendAnswer(THEM, US, 1, True, len(data), 0, NOWHERE))
    clock.advance(SILENT_MS + 100)
    for sender in (THEM, OTHERS):
        peers.note_heard(HeartbeatAnswer(sender, US, 1, 1, 0))
    peers.tick()
    assert wire.dropped == []
    clock.advance(SILENT_MS)
    peers.tick()
    assert wire.dropped == ([] if is_answered else ["10.0.0.2:1"])


def test_a_node_whose_port_refuses_is_gone_until_it_is_heard() -> None:
    peers, _ = make_peers(ManualClock())
    gone: list[str] = []
    peers.on_gone = gone.append
    for _ in range(2):
        peers.note_refused("10.0.0.2:1")
    assert gone == ["n1"] and peers.is_gone("n1") and not peers.is_gone("n2")
    peers.note_heard(Introduction(THEM, US, 1, NOWHERE))
    assert not peers.is_gone("n1")
    peers.note_refused("10.0.0.2:1")
    assert gone == ["n1", "n1"]


def test_a_hint_waits_for_the_end_of_the_turn() -> None:
    group = make_group()
    hints: list[str] = []
    group.node.lost = hints.append  # type: ignore[method-assign, assignment]
    group.peers.note_refused("10.0.0.2:1")
    assert hints == []
    group.end_turn()
    group.end_turn()
    assert hints == ["n1"]


def test_who_is_gone_gets_no_leadership() -> None:
    group = make_group()
    progress = SimpleNamespace(match_end=5, silent_ticks=0)
    voters = {US, THEM, Replica("n2", "c")}
    leadership = SimpleNamespace(progress={THEM: progress, Replica("n2", "c"): progress})
    group.driver = SimpleNamespace(  # type: ignore[assignment]
        node=SimpleNamespace(leadership=leadership, membership=SimpleNamespace(voters=voters))
    )
    assert group.best_successor() == "n2"
    group.peers.note_refused("10.0.0.3:1")
    assert group.best_successor() == "n1"
    group.peers.note_refused("10.0.0.2:1")
    assert group.best_successor() == ""


@pytest.mark.slow
def test_records_of_a_deposed_leader_end_with_its_role() -> None:
    """One line, and no error of each turn: the core takes no record of a node that leads no more."""
    broker = Hosted()
    group, changes = make_group(broker=broker), broker.changes
    parts: Any = group._parts
    store, end = parts.store, group.node.log.end
    store.stage("T", 0, Draft(b"late", b"", 0, b"\x7f\0\0\x01\0\0\0\x01", 0))
    store.commit()
    assert store.physical_max_offset > end
    for _ in range(3):
        group.end_turn()
    assert {change.truncate_to for change in changes} == {end}
    texts = [text for text in group.problems() if "are dropped with its role" in text]
    assert len(texts) == 1 and "n0 is no leader" in texts[0]
    group.detach()
    parts.role = Role(1)
    attached: Any = SimpleNamespace(role=Role(1), store=store)
    group.attach(
        attached,
        follower=store.follow(),
        history=EpochHistory(),
        was_clean=True,
        commit=lambda: None,
        request_sync=lambda: None,
        check_writes=lambda: None,
    )
    changes.clear()
    group.end_turn()
    assert [change.truncate_to for change in changes] == [end], "also when its role was changing already"


def test_a_node_names_its_newest_problems() -> None:
    group = make_group()
    for number in range(PROBLEMS_MAX + 1):
        group.on_problem(f"problem {number}")
    assert group.problems()[1:] == [f"problem {number}" for number in range(1, PROBLEMS_MAX + 1)]


def test_who_lacks_more_than_the_limit_is_not_in_sync() -> None:
    def state(match_end: int, silent_ticks: int) -> tuple[str, bool]:
        progress = SimpleNamespace(match_end=match_end, next_end=0, silent_ticks=silent_ticks)
        node: Any = SimpleNamespace(
            leadership=SimpleNamespace(progress={THEM: progress}), log=SimpleNamespace(end=IN_SYNC_LAG_BYTES_MAX + 1)
        )
        (follower,) = follower_states(node, SETTINGS)
        assert (follower.address, follower.broker_id) == ("10.0.0.2:1", 2)
        return follower.state, follower.in_sync

    assert state(1, ELECTION_TICKS - 1) == ("following", True)
    assert state(0, 0) == ("catching-up", False)
    assert state(IN_SYNC_LAG_BYTES_MAX, ELECTION_TICKS) == ("gone", False)


def test_a_follower_shows_what_is_confirmed_in_steps() -> None:
    clock, asked, shown = ManualClock(), list[tuple[int, int]](), list[int]()

    def dispatch_to(end: int, bytes_max: int) -> int:
        asked.append((end, bytes_max))
        follower.dispatched_end = min(end, follower.dispatched_end + bytes_max)
        return 1

    follower: Any = SimpleNamespace(end=0, dispatched_end=0, dispatch_to=dispatch_to)
    showing = Showing(follower, clock, shown.append)
    showing.show(100)
    assert asked == []  # few bytes wait for others
    clock.advance(DISPATCH_INTERVAL_MS)
    showing.show(0)
    assert asked == []
    showing.show(100)
    assert asked == [(100, DISPATCH_BYTES_MAX)] and shown == [100]
    end = 100 + DISPATCH_BYTES_MAX + DISPATCH_BYTES
    showing.show(end)
    showing.show(end)
    showing.show(end)
    assert asked[1:] == [(end, DISPATCH_BYTES_MAX)] * 2 and follower.dispatched_end == end


def test_records_are_dispatched_below_an_end_and_at_most_so_many_bytes() -> None:
    leader = Leader(random.Random(1))
    store = MessageStore(root="/f", files=MemoryFiles(), clock=ManualClock(), settings=StoreSettings(**SMALL))
    follower = store.follow()
    store.open()
    follower.append(0, leader.read(0, leader.end))
    follower.dispatch_to(leader.ends[3], leader.ends[1])
    assert 0 < follower.dispatched_end < leader.ends[3]
    follower.dispatch_to(leader.ends[3], DISPATCH_BYTES_MAX)
    follower.dispatch_to(leader.ends[3], DISPATCH_BYTES_MAX)
    assert follower.dispatched_end == leader.ends[3]
    follower.dispatch_to(leader.end + 1, DISPATCH_BYTES_MAX)
    assert follower.dispatched_end == leader.end


def test_a_transfer_refuses_writes_of_its_own_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    group = make_group()
    done: list[str] = []
    assert group.driver is not None
    monkeypatch.setattr(group.driver, "transfer", done.append)
    monkeypatch.setattr(group, "_check_writes", lambda: done.append("writes are checked"))
    group.transfer("n1")
    assert done == ["n1", "writes are checked"]


@pytest.mark.slow
def test_the_record_of_a_membership_is_written_by_a_node_that_was_held() -> None:
    clock = ManualClock()
    store = MessageStore(root="/s", files=MemoryFiles(), clock=clock)
    store.open()
    broker_log = BrokerLog(clock, b"\x7f\0\0\x01\0\0\0\x01", lambda end: None)
    broker_log.attach(store, None, lambda: None)
    broker_log.check_writes = lambda: store.refuse_writes(None)
    end = broker_log.stage_membership(Membership())
    store.refuse_writes("the node is held")
    broker_log.write_membership()
    assert store.physical_max_offset == end


def test_what_a_confirmation_writes_is_in_the_log_before_the_next_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """That one may depose the node, whose log must then have nothing that the node does not know."""
    group, done = make_group(), list[Any]()
    monkeypatch.setattr(group, "_commit", lambda: done.append("commit"))
    monkeypatch.setattr(group, "_take", lambda driver, message: done.append(message.round_number))
    for number in (1, 2):
        group._inbox.add(HeartbeatAnswer(THEM, US, 1, number, 0))
    group.end_turn()
    assert done == ["commit", 1, "commit", 2, "commit"]
