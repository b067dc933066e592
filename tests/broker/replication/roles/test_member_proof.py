"""MemberProof: which members must prove that they have our log, and what becomes of those that don't."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import msgspec
import pytest
from xxhash import xxh3_64_hexdigest

from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.broker.replication.history.log_proof import OwnLog
from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.roles.member_proof import PROVEN_MEMBERS_MAX, MemberProof
from pymq.wire.bodies_replication import EpochEntryBody, LogDigests, LogDigestsRequest
from pymq.wire.command import Command
from pymq.wire.streams import StreamHandler
from tests.broker.replication.asking import OURS, THEIRS, THIRD, status

DATA = bytes(number * 7 % 251 for number in range(1000))
FIRST = EpochEntry(1, 0, "b" * 16)
SECOND = EpochEntry(2, 500, "a" * 16)


class Network:
    """Brokers that have ``DATA``, except the liars."""

    def __init__(self, *liars: str) -> None:
        self.liars = liars
        self.asked: list[str] = []

    def connect(self, address: str, handler: StreamHandler) -> None:
        raise AssertionError("nothing is streamed")

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        self.asked.append(address)
        wanted = msgspec.json.decode(command.body, type=LogDigestsRequest)
        digest = "f" * 16 if address in self.liars else xxh3_64_hexdigest(DATA[wanted.start : wanted.end])
        answer = LogDigests(
            broker_name="b", cluster="c", segment_size_bytes=4096, log_start=0, log_end=1000, start=0, digests=[digest]
        )
        on_answer(Command(0, body=msgspec.json.encode(answer)))


def member(address: str, broker_id: int, *entries: EpochEntry, log_end: int = 1000) -> Member:
    bodies = [EpochEntryBody(entry.epoch, entry.start, entry.epoch_id) for entry in entries]
    reported = status(address, broker_id, epoch_history=bodies, log_end=log_end)
    return Member(address, broker_id, answered=True, status=reported)


def proof(network: Network, *entries: EpochEntry, end: int = 1000) -> MemberProof:
    own = OwnLog(0, end, 4096, lambda at, size: xxh3_64_hexdigest(DATA[at - size : at]))
    return MemberProof(network, lambda: EpochHistory(entries), lambda: own)


def doubts(proof: MemberProof, *members: Member) -> list[bool]:
    found: list[list[Member]] = []
    proof.check(list(members), found.append)
    (checked,) = found
    assert [one.address for one in checked] == [one.address for one in members]
    return [bool(one.doubt) for one in checked]


def test_a_newer_epoch_and_the_role_of_master_need_a_proof() -> None:
    network = Network(THEIRS)
    checked = doubts(
        proof(network, FIRST), member(THEIRS, 1, FIRST, SECOND), member(THIRD, 2, FIRST, SECOND), member(OURS, 3, FIRST)
    )
    assert checked == [True, False, False]
    assert network.asked == [THEIRS, THIRD], "a slave without a newer epoch claims nothing"
    assert doubts(proof(network, FIRST), member(THEIRS, 0, FIRST)) == [True], "a master of the same epoch"


@pytest.mark.parametrize(("answer", "is_unproven"), [("no answer", True), (Command(2), True), (Command(1), False)])
def test_a_proof_that_may_come_later_leaves_a_member_unproven(answer: Command | str, is_unproven: bool) -> None:
    network, found = Network(), list[list[Member]]()
    with mock.patch.object(network, "ask", lambda at, command, on_answer, ms: on_answer(answer)):
        proof(network, FIRST).check([member(THEIRS, 0, FIRST, SECOND)], found.append)
    ((checked,),) = found
    assert checked.doubt and checked.is_unproven == checked.is_unclear == is_unproven


def test_a_history_without_a_common_piece_proves_nothing() -> None:
    network = Network()
    stranger = EpochEntry(2, 0, "c" * 16)
    assert doubts(proof(network, FIRST), member(THEIRS, 0, stranger)) == [True]
    assert doubts(proof(network, FIRST), member(THEIRS, 0, FIRST, SECOND, log_end=10)) == [True]
    assert network.asked == []


def test_who_has_proven_it_is_asked_again_for_another_epoch_only() -> None:
    network = Network()
    one = proof(network, FIRST)
    newer = member(THEIRS, 0, FIRST, SECOND)
    assert doubts(one, newer) == doubts(one, newer) == [False]
    assert network.asked == [THEIRS]
    assert doubts(one, member(THEIRS, 0, FIRST, SECOND, EpochEntry(3, 700, "d" * 16))) == [False]
    assert network.asked == [THEIRS] * 2


def test_the_number_of_remembered_proofs_is_bounded() -> None:
    network = Network()
    one = proof(network, FIRST)
    for number in range(PROVEN_MEMBERS_MAX + 1):
        doubts(one, member(f"10.1.0.{number}:1", 0, FIRST, SECOND))
    network.asked.clear()
    doubts(one, member("10.1.0.0:1", 0, FIRST, SECOND), member("10.1.0.1:1", 0, FIRST, SECOND))
    assert network.asked == ["10.1.0.0:1"] or network.asked == ["10.1.0.0:1", "10.1.0.1:1"]


def test_without_a_log_or_epochs_of_our_own_nothing_is_asked() -> None:
    network = Network(THEIRS)
    assert doubts(proof(network), member(THEIRS, 0, FIRST)) == [False]
    assert doubts(proof(network, FIRST, end=0), member(THEIRS, 0, FIRST, SECOND)) == [False]
    assert doubts(MemberProof(network, lambda: EpochHistory((FIRST,)), lambda: None), member(THEIRS, 0, FIRST)) == [
        False
    ]
    assert network.asked == []


def test_a_master_without_an_epoch_is_doubted() -> None:
    network = Network()
    assert doubts(proof(network, FIRST), member(THEIRS, 0), member(THIRD, 1)) == [True, False]
    assert network.asked == []
    rocketmq = Member(THEIRS, 0, answered=True)
    assert doubts(proof(network, FIRST), rocketmq) == [False], "RocketMQ's masters have no epochs"
