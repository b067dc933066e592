"""RaftDriver: stories of whole groups with failing disks, then its rules one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pymq.broker.raft import incoming
from pymq.broker.raft.driver import TICK_MS, RaftDriver, tick_ms_of
from pymq.broker.raft.members import GroupSettings
from pymq.broker.raft.outgoing import Part
from pymq.config.raft import ELECTION_TIMEOUT_MAX_MS, ELECTION_TIMEOUT_MIN_MS
from pymq.errors import NotFoundError, RaftRefusedError, StoreUnavailableError
from pymq.raft.core import ELECTION_TICKS, HEARTBEAT_TICKS, ReadAnswer, Role
from pymq.raft.messages import (
    AppendAnswer,
    AppendRequest,
    Heartbeat,
    HeartbeatAnswer,
    Message,
    Piece,
    PreVoteAnswer,
    Snapshot,
    VoteAnswer,
    VoteRequest,
)
from pymq.raft.state import Kind, Membership, MembershipEntry, Position, RaftState, Replica
from tests.broker.raft.driven import make_driven_nodes
from tests.raft import story, world
from tests.raft.bench import N0, N1, N2, N3, NOWHERE, THREE, node_of, role, state_of

SEEDS = range(1, 9)


def play(seeds: Iterable[int]) -> int:
    """Play stories with drivers; return how often a disk failed in them."""
    count = 0
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            nodes = make_driven_nodes()
            patch.setattr(world, "SimNode", nodes)
            assert story.play(seed).checker.confirmed_end > 0
            count += nodes.failures_count
    return count


def test_raft_s_properties_hold_with_drivers_and_failing_disks() -> None:
    assert play(SEEDS) > 10


class Desk:
    """All that a driver of the node n0 is connected to. ``done`` is what it did, in its order."""

    def __init__(self, state: RaftState, end: int = 10, *, waits_for_sync: bool = True, tick_ms: int = TICK_MS) -> None:
        self.done: list[Any] = []
        self.data = bytes(range(end))
        self.begin = 0
        self.now_ms = 1_000
        self.is_failing = self.is_staging_refused = False
        self.staged = b""
        self.driver = RaftDriver(
            node_of(state, end, answers_before_sync=waits_for_sync),
            log=self,
            state_file=self,
            connections=self,
            owner=self,
            waits_for_sync=waits_for_sync,
            now_ms=self.now_ms,
            tick_ms=tick_ms,
        )

    def _do(self, *what: Any, may_fail: bool = False) -> None:
        if may_fail and self.is_failing:
            raise StoreUnavailableError("no space")
        self.done.append(what)

    def truncate(self, end: int) -> None:
        self._do("truncate", end, may_fail=True)
        self.data = self.data[:end]

    def write(self, pieces: Iterable[Piece], request: AppendRequest, data: bytes) -> None:
        self._do("write", *pieces, may_fail=True)
        self.data = self.data[: request.previous.end] + data

    def replace(self, snapshot: Snapshot) -> None:
        self._do("replace", snapshot.last.end, may_fail=True)
        self.data = bytes(snapshot.last.end)

    def stage_membership(self, membership: Membership) -> int:
        if self.is_staging_refused:
            raise StoreUnavailableError("no room for the record")
        self.staged = b"members"
        return len(self.data) + len(self.staged)

    def write_membership(self) -> None:
        self._do("write membership", may_fail=True)
        self.data += self.staged

    def read_log(self, offset: int, size_max: int) -> memoryview:
        if offset < self.begin:
            raise NotFoundError(f"the log begins at {self.begin}")
        return memoryview(self.data)[offset : offset + size_max]

    def request_sync(self) -> None:
        self._do("sync")

    def save(self, state: RaftState) -> None:
        self._do("save", state.term, state.vote, may_fail=True)

    def send(self, message: Message) -> None:
        self._do("send", message)

    def wake(self, to: Replica) -> None:
        self._do("wake", to)

    def on_role(self, role: Role, term: int) -> None:
        self._do("role", role, term)

    def on_confirm(self, confirm_offset: int) -> None:
        self._do("confirm", confirm_offset)

    def on_read(self, answer: ReadAnswer) -> None:
        self._do("read", answer)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        self._do("snapshot", snapshot)

    def on_problem(self, text: str) -> None:
        self._do("problem", text)

    # -- what tests do -------------------------------------------------------------------------------------------

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.now_ms += TICK_MS
            self.driver.poll(self.now_ms)

    def take_done(self, *kinds: str) -> list[Any]:
        """Return what was done since the last call; of some kinds alone when they are named."""
        done, self.done = self.done, []
        return [what for what in done if not kinds or what[0] in kinds]

    def append(self, data: bytes) -> None:
        """Write a record as the leader."""
        assert self.driver.may_write
        self.data += data
        self.driver.appended(len(self.data))

    def sync(self) -> None:
        self.driver.synced(len(self.data), self.driver.node.log.truncation_count)

    def acknowledge(self, end: int, *members: Replica) -> None:
        for member in members:
            self.driver.take(AppendAnswer(member, N0, self.driver.node.term, True, end, end, NOWHERE))

    def parts(self, to: Replica) -> list[Part]:
        found = []
        while (part := self.driver.next_part(to)) is not None:
            found.append(part)
        return found


def leading(state: RaftState | None = None, **settings: Any) -> Desk:
    """Return a desk whose node has been elected and has confirmed a record of its term, up to 20."""
    desk = Desk(state or state_of(), **settings)
    desk.ticks(ELECTION_TICKS)
    term = desk.driver.node.term
    desk.driver.take(PreVoteAnswer(N1, N0, term, term, True))
    desk.driver.take(VoteAnswer(N1, N0, term + 1, True))
    assert desk.driver.node.role is Role.LEADER
    desk.acknowledge(10, N1, N2)
    desk.append(b"0123456789")
    desk.sync()
    desk.acknowledge(20, N1, N2)
    assert desk.driver.node.confirm_offset == 20
    for member in (N1, N2):
        desk.parts(member)
    desk.take_done()
    return desk


def bytes_of_n1(begin: int, end: int) -> Part:
    """Return bytes that n1 sends as the leader of term 5, behind the 10 bytes that all have."""
    before = Position(1 if begin <= 10 else 5, begin)
    return Part(AppendRequest(N1, N0, 5, before, (Piece(5, begin, end),), (), 0), bytes(end - begin))


def test_a_vote_is_on_the_disk_before_it_leaves() -> None:
    desk = Desk(state_of())
    desk.driver.take(VoteRequest(N1, N0, 5, Position(1, 10), False))
    assert desk.take_done() == [("save", 5, N1), ("send", VoteAnswer(N0, N1, 5, True))]


def test_a_node_is_held_while_its_disk_refuses_the_state() -> None:
    desk = Desk(state_of())
    desk.is_failing = True
    desk.driver.take(VoteRequest(N1, N0, 5, Position(1, 10), False))
    desk.driver.take(VoteRequest(N2, N0, 6, Position(1, 10), False))
    desk.ticks(5 * ELECTION_TICKS)
    assert desk.driver.is_held and "no space" in desk.driver.problem
    assert {what[0] for what in desk.take_done()} == {"problem"}
    assert desk.driver.node.term == 5
    desk.is_failing = False
    desk.ticks(1)
    assert desk.take_done() == [("save", 5, N1), ("send", VoteAnswer(N0, N1, 5, True))]
    assert not desk.driver.is_held and desk.driver.problem == ""


def test_bytes_that_the_disk_refused_are_written_before_the_node_goes_on() -> None:
    desk = Desk(state_of())
    desk.is_failing = True
    desk.driver.take_part(bytes_of_n1(10, 14))
    desk.driver.take_part(bytes_of_n1(14, 16))
    desk.is_failing = False
    desk.driver.take_part(bytes_of_n1(14, 16))
    written = [("write", Piece(5, 10, 14)), ("write", Piece(5, 14, 16))]
    assert desk.take_done("write") == written and len(desk.data) == 16


class SlowLog:
    """A log whose disk takes a byte before it fails, once."""

    def __init__(self) -> None:
        self.data = b"0123456789"
        self.is_failing = True

    @property
    def end(self) -> int:
        return len(self.data)

    def append(self, position: int, data: bytes | memoryview) -> None:
        assert position == self.end
        if self.is_failing:
            self.is_failing = False
            self.data += bytes(data[:1])
            raise StoreUnavailableError("no space")
        self.data += data


def test_what_was_written_before_an_error_is_not_written_again() -> None:
    log, (request, data) = SlowLog(), Part(bytes_of_n1(10, 14).request, b"abcd")
    with pytest.raises(StoreUnavailableError):
        incoming.write_pieces(request.pieces, request, data, log)
    assert incoming.write_pieces(request.pieces, request, data, log) == 3
    assert log.data == b"0123456789abcd"


def test_a_pause_counts_as_one_tick() -> None:
    desk = Desk(state_of())
    desk.now_ms += 100 * ELECTION_TICKS * TICK_MS
    desk.driver.poll(desk.now_ms)
    desk.driver.poll(desk.now_ms + TICK_MS - 1)
    desk.ticks(ELECTION_TICKS - 2)
    assert role(desk.driver.node) is Role.FOLLOWER
    desk.ticks(1)
    assert role(desk.driver.node) is Role.PRE_CANDIDATE


@pytest.mark.parametrize("timeout_ms", [ELECTION_TIMEOUT_MIN_MS, ELECTION_TIMEOUT_MAX_MS])
def test_an_election_begins_after_the_timeout_of_the_settings(timeout_ms: int) -> None:
    group = GroupSettings("shard-a", "n0", (), election_timeout_ms=timeout_ms)
    desk = Desk(state_of(), tick_ms=tick_ms_of(group))
    begin_ms = desk.now_ms
    for now_ms in range(begin_ms, begin_ms + timeout_ms, TICK_MS):
        desk.driver.poll(now_ms)
    assert role(desk.driver.node) is Role.FOLLOWER
    desk.driver.poll(begin_ms + timeout_ms)
    assert role(desk.driver.node) is Role.PRE_CANDIDATE


@pytest.mark.parametrize("waits_for_sync", [True, False])
def test_a_follower_acknowledges_what_counts(waits_for_sync: bool) -> None:
    """Under SYNC_FLUSH that is what was synced, else what was written."""
    desk = Desk(state_of(), waits_for_sync=waits_for_sync)
    desk.driver.take_part(bytes_of_n1(10, 14))
    answers = [what[1].match_end for what in desk.take_done("send") if isinstance(what[1], AppendAnswer)]
    assert answers == ([10] if waits_for_sync else [14])
    desk.sync()
    answers = [what[1].match_end for what in desk.take_done("send") if isinstance(what[1], AppendAnswer)]
    assert answers == ([14] if waits_for_sync else [])


def test_a_sync_is_asked_for_once_for_the_same_bytes() -> None:
    desk = Desk(state_of())
    desk.driver.take_part(bytes_of_n1(10, 14))
    desk.ticks(2)
    desk.driver.take_part(bytes_of_n1(14, 15))
    assert desk.take_done("sync") == [("sync",), ("sync",)]


def test_a_divergent_tail_is_truncated_first() -> None:
    desk = Desk(state_of(2, ((1, 0), (2, 6))))
    pieces = (Piece(1, 4, 6), Piece(5, 6, 9))
    request = Part(AppendRequest(N1, N0, 5, Position(1, 4), pieces, (), 0), bytes(5))
    desk.driver.take_part(request)
    assert [what[0] for what in desk.take_done("truncate", "write", "save")] == ["truncate", "save"]
    assert len(desk.data) == 6
    desk.driver.take_part(request)
    assert desk.take_done("write", "sync") == [("write", Piece(5, 6, 9)), ("sync",)]


def test_the_owner_hears_of_its_role_after_the_epoch_is_saved() -> None:
    desk = Desk(state_of())
    desk.ticks(ELECTION_TICKS)
    desk.driver.take(PreVoteAnswer(N1, N0, 1, 1, True))
    desk.take_done()
    desk.driver.take(VoteAnswer(N1, N0, 2, True))
    kinds = [what[0] for what in desk.take_done()]
    assert kinds.index("save") < kinds.index("role") < kinds.index("send")
    desk.driver.take(HeartbeatAnswer(N2, N0, 9, 0, 0))
    assert ("role", Role.FOLLOWER, 9) in desk.take_done()
    assert not desk.driver.may_write


def test_what_a_majority_has_is_confirmed_and_told_once() -> None:
    desk = leading()
    desk.append(b"abc")
    desk.acknowledge(23, N1)
    assert desk.take_done("confirm") == []
    desk.sync()
    desk.acknowledge(23, N2)
    assert desk.take_done("confirm") == [("confirm", 23)]


def test_the_last_voter_confirms_alone() -> None:
    alone = state_of(1, memberships=(state_of().memberships[0]._replace(membership=only(N0)),))
    desk = Desk(alone, waits_for_sync=False)
    desk.ticks(ELECTION_TICKS)
    desk.append(b"abc")
    assert desk.take_done("confirm") == [("confirm", 13)]


def only(*replicas: Replica) -> Membership:
    return Membership(tuple((replica, Kind.VOTER) for replica in replicas))


def test_bytes_wait_for_a_member_that_has_no_room_as_one_request() -> None:
    desk = leading()
    for data in (b"aa", b"bbb", b"c"):
        desk.append(data)
    assert desk.take_done("wake") == [("wake", N1), ("wake", N2)] * 3
    (part,) = desk.parts(N1)
    assert part.data == b"aabbbc" and part.request.pieces == (Piece(2, 20, 26),)
    assert part.request.previous == Position(2, 20)
    assert desk.parts(N1) == []
    assert [each.data for each in desk.parts(N2)] == [b"aabbbc"]


def test_a_request_that_begins_elsewhere_takes_the_place_of_the_rest() -> None:
    desk = leading()
    desk.append(b"aa")
    desk.parts(N1)
    desk.append(b"bb")
    desk.ticks(HEARTBEAT_TICKS)
    desk.ticks(HEARTBEAT_TICKS)
    assert [part.data for part in desk.parts(N1)] == [b"aabb"], "nothing was answered, so all of it is sent again"


def test_a_former_leader_sends_no_bytes() -> None:
    desk = leading()
    desk.append(b"aa")
    desk.driver.take(Heartbeat(N1, N0, 9, 0, 1))
    assert desk.parts(N1) == []


def test_bytes_that_can_not_be_read_are_a_problem_and_no_end() -> None:
    desk = leading()
    desk.append(b"aa")
    desk.begin = 21
    assert desk.parts(N1) == []
    assert desk.take_done("problem") == [("problem", "n1 gets no bytes of the log: the log begins at 21")]


def test_a_membership_is_in_the_state_before_its_record_is_written() -> None:
    desk = leading()
    desk.is_failing = True
    desk.driver.change(THREE.without(N2))
    assert desk.driver.is_held and not desk.driver.may_write
    with pytest.raises(RaftRefusedError, match="held until its disk takes this"):
        desk.driver.transfer("n1")
    desk.is_failing = False
    desk.ticks(1)
    assert [what[0] for what in desk.take_done("save", "write membership")] == ["save", "write membership"]
    assert desk.driver.node.log.end == len(desk.data) == 27
    with pytest.raises(RaftRefusedError, match="not confirmed"):
        desk.driver.change(THREE)


def test_a_membership_that_can_not_be_staged_is_a_problem_and_no_error() -> None:
    with_learner = MembershipEntry(0, THREE.with_member(N3, Kind.LEARNER))
    desk = leading(state_of(memberships=(with_learner,)))
    desk.is_staging_refused = True
    desk.acknowledge(20, N1, N3)
    desk.ticks(1)
    assert "no room for the record" in desk.take_done("problem")[0][1]
    desk.is_staging_refused = False
    desk.ticks(1)
    assert desk.take_done("write membership")


def test_a_leader_that_hands_over_writes_nothing() -> None:
    desk = leading()
    desk.driver.transfer("n1")
    assert not desk.driver.may_write


def test_a_snapshot_is_in_the_log_before_it_is_in_the_state() -> None:
    desk = Desk(state_of())
    snapshot = Snapshot(0, Position(4, 30), (), state_of().memberships)
    desk.is_failing = True
    assert desk.driver.install(snapshot)
    assert desk.driver.is_held and not desk.driver.install(snapshot)
    desk.is_failing = False
    desk.ticks(1)
    assert [what[0] for what in desk.take_done("replace", "save")] == ["replace", "save"]
    assert desk.take_done() == [] and not desk.driver.install(snapshot), "it is of no use any more"


def test_a_read_is_answered_after_a_round_of_heartbeats() -> None:
    desk = leading()
    desk.driver.read_index(7)
    (beat,) = [what[1] for what in desk.take_done("send") if isinstance(what[1], Heartbeat) and what[1].to == N1]
    desk.driver.take(HeartbeatAnswer(N1, N0, beat.term, beat.round_number, 20))
    assert desk.take_done("read") == [("read", ReadAnswer(7, 20))]


def test_a_former_disk_of_the_node_gets_nothing() -> None:
    former = Replica("n0", "former")
    member = state_of().memberships[0]._replace(membership=only(N0, N1, former))
    desk = Desk(state_of(memberships=(member,)))
    desk.ticks(ELECTION_TICKS)
    assert {what[1].to for what in desk.take_done("send")} == {N1}


def test_released_segments_are_known_to_the_core() -> None:
    desk = leading()
    desk.driver.released(20)
    assert desk.driver.node.log.begin == 20
