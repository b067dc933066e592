"""MessageGate: foreign, forged and replayed messages stay outside, each with its reason."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pymq.broker.raft.bodies import founding_id
from pymq.broker.raft.gate import (
    HOSTS_REMEMBERED_MAX,
    REASONS,
    SENDERS_MAX,
    SESSIONS_MAX,
    WINDOW_COUNT_MAX,
    MessageGate,
    Refused,
    _canonical,
)
from pymq.raft.core import Core
from pymq.raft.log_view import LogView
from pymq.raft.messages import FoundRequest, Introduction, Message, VoteRequest
from pymq.raft.progress import snapshot_of
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, Position, RaftState, Replica

N0, N1, N2 = Replica("n0", "00aa"), Replica("n1", "11bb"), Replica("n2", "22cc")
GROUP = founding_id(Membership(((N0, Kind.VOTER), (N1, Kind.VOTER), (N2, Kind.VOTER))))
OTHER_GROUP = founding_id(Membership(((N0, Kind.VOTER),)))
HOSTS = {"n0": ["10.0.0.1"], "n1": ["10.0.0.2", "::1"], "n2": ["10.0.0.3"]}
VOTE = VoteRequest(N0, N1, 7, Position(5, 4096), is_transfer=False)


def gate(node_id: str = "n1", founded: bytes | None = GROUP, seed: int = 1, **others: str) -> MessageGate:
    made = MessageGate(
        cluster=others.get("cluster", "c"), group=others.get("group", "g"), node_id=node_id, rng=random.Random(seed)
    )
    made.founded, made.hosts = founded, HOSTS
    return made


def reason(taken: Message | Refused) -> str:
    assert isinstance(taken, Refused)
    return taken.reason


def test_a_message_of_a_member_is_taken() -> None:
    ours, theirs = gate(), gate("n0")
    assert ours.take(theirs.encode(VOTE), "10.0.0.1") == VOTE
    assert ours.take(theirs.encode(VOTE), "::ffff:10.0.0.1") == VOTE, "a socket for IPv4 and IPv6"
    assert set(ours.refused_count.values()) == {0}


@pytest.mark.parametrize(
    ("sender", "message", "host", "why", "text"),
    [
        (gate("n0", cluster="d"), VOTE, "10.0.0.1", "foreign", "its brokerClusterName is d, here it is c; make"),
        (gate("n0", group="h"), VOTE, "10.0.0.1", "foreign", "its dLegerGroup is h, here it is g"),
        (gate("n0"), replace(VOTE, to=N2), "10.0.0.1", "receiver", "is for n2, this is n1: check dLegerPeers"),
        (gate("n0"), replace(VOTE, sender=N1), "10.0.0.1", "sender", "that is this broker's own id: give"),
        (gate("n0"), replace(VOTE, sender=Replica("n9", "d")), "10.0.0.1", "sender", "neither in dLegerPeers nor"),
        (gate("n0"), VOTE, "10.0.0.9", "host", "n0 is at 10.0.0.1: another broker uses its id"),
        (gate("n0", OTHER_GROUP), VOTE, "10.0.0.1", "proof", "does not prove that it knows the founding id of g"),
        (gate("n0", None), VOTE, "10.0.0.1", "proof", "does not prove"),
        (gate("n0", OTHER_GROUP), Introduction(N0, N1, 0, Position(0, 0)), "10.0.0.1", "proof", "does not prove"),
    ],
)  # fmt: skip
def test_foreign_and_forged_messages_are_refused(
    sender: MessageGate, message: Message, host: str, why: str, text: str
) -> None:
    ours = gate()
    taken = ours.take(sender.encode(message), host)
    assert isinstance(taken, Refused) and taken.reason == why and text in taken.text
    assert ours.refused_count == {**dict.fromkeys(REASONS, 0), why: 1}


def test_bytes_that_are_no_message_are_refused() -> None:
    taken = gate().take(b"hello", "10.0.0.1")
    assert isinstance(taken, Refused) and taken.reason == "format"
    assert taken.text.startswith("a message from 10.0.0.1: not a Envelope")


def test_a_new_replica_may_introduce_itself_without_a_proof() -> None:
    new = Replica("n0", "ffff")
    ours, theirs = gate(), gate("n0", None)
    for message in (Introduction(new, N1, 0, Position(0, 0)), FoundRequest(new, N1, 0)):
        assert ours.take(theirs.encode(message), "10.0.0.1") == message
    assert reason(ours.take(theirs.encode(replace(VOTE, sender=new)), "10.0.0.1")) == "proof"


def test_a_node_that_knows_no_group_takes_what_its_peers_say() -> None:
    ours = gate(founded=None)
    assert ours.take(gate("n0").encode(VOTE), "10.0.0.1") == VOTE
    assert reason(ours.take(gate("n0").encode(VOTE), "10.0.0.9")) == "host"


def test_the_founding_id_outlives_the_log_it_was_founded_with() -> None:
    """The first membership stays when its part of the log is deleted, and comes to a new member with the snapshot."""
    first = Membership(((N0, Kind.VOTER), (N1, Kind.VOTER), (N2, Kind.VOTER)))
    later = [MembershipEntry(end, Membership(((N0, Kind.VOTER),))) for end in (200, 300, 400)]
    log = LogView([Epoch(1, 0)], [MembershipEntry(0, first), *later], 0, 500)
    log.release(100)
    assert [entry.end for entry in log.memberships] == [0, 200, 300, 400]
    log.release(350)
    assert [entry.end for entry in log.memberships] == [0, 300, 400] and log.membership == later[-1].membership
    assert founding_id(log.memberships[0].membership) == GROUP
    state = RaftState(N0, 1, confirm_offset=450, epochs=log.epochs, memberships=log.memberships)
    snapshot = snapshot_of(Core(state, log))
    assert founding_id(snapshot.memberships[0].membership) == GROUP


# -- replays -----------------------------------------------------------------------------------------------------------


def test_a_replayed_message_is_refused() -> None:
    ours, theirs = gate(), gate("n0")
    first, second = theirs.encode(VOTE), theirs.encode(VOTE)
    assert ours.take(second, "10.0.0.1") == ours.take(first, "10.0.0.1") == VOTE, "one may overtake another"
    for body in (first, second):
        taken = ours.take(body, "10.0.0.1")
        assert isinstance(taken, Refused) and taken.reason == "replayed" and "came already" in taken.text


def test_a_message_may_be_overtaken_by_as_many_as_the_window_has() -> None:
    theirs = gate("n0")
    bodies = [theirs.encode(VOTE) for _ in range(WINDOW_COUNT_MAX + 1)]
    ours = gate()
    for body in reversed(bodies[1:]):
        assert ours.take(body, "10.0.0.1") == VOTE
    assert reason(ours.take(bodies[0], "10.0.0.1")) == "replayed"
    for body in bodies[1:]:
        assert reason(ours.take(body, "10.0.0.1")) == "replayed"


def test_numbers_in_any_order_are_taken_once_each() -> None:
    rng = random.Random(3)
    theirs, ours = gate("n0"), gate()
    bodies = [theirs.encode(VOTE) for _ in range(300)]
    order = sorted(range(300), key=lambda at: at + rng.uniform(0, WINDOW_COUNT_MAX / 2))
    for at in order:
        assert ours.take(bodies[at], "10.0.0.1") == VOTE
        assert reason(ours.take(bodies[at], "10.0.0.1")) == "replayed"


def test_a_great_step_of_numbers_is_taken() -> None:
    ours, theirs = gate(), gate("n0")
    early = theirs.encode(VOTE)
    theirs._numbers[False] = 1 << 61
    assert ours.take(theirs.encode(VOTE), "10.0.0.1") == VOTE
    assert reason(ours.take(early, "10.0.0.1")) == "replayed"


def test_a_late_message_of_an_earlier_start_shuts_out_nothing() -> None:
    """Its receiver may have restarted as well, and can't know which session is the present one."""
    ours, early, present = gate(), gate("n0", seed=2), gate("n0", seed=3)
    late = early.encode(VOTE)
    for _ in range(3):
        assert ours.take(present.encode(VOTE), "10.0.0.1") == VOTE
        late = early.encode(VOTE)
        assert ours.take(late, "10.0.0.1") == VOTE
        assert reason(ours.take(late, "10.0.0.1")) == "replayed"


def test_remembered_sessions_are_bounded() -> None:
    ours = gate()
    starts = [gate("n0", seed=seed) for seed in range(SESSIONS_MAX + 1)]
    bodies = [start.encode(VOTE) for start in starts]
    for body in bodies:
        assert ours.take(body, "10.0.0.1") == VOTE
    for body in bodies[1:]:
        assert reason(ours.take(body, "10.0.0.1")) == "replayed"
    assert ours.take(bodies[0], "10.0.0.1") == VOTE, "a forgotten one is taken again; Raft's rules bear that"


def test_a_forged_message_changes_nothing() -> None:
    ours, theirs = gate(), gate("n0")
    assert ours.take(theirs.encode(VOTE), "10.0.0.1") == VOTE
    assert reason(ours.take(gate("n0", OTHER_GROUP, seed=2).encode(VOTE), "10.0.0.1")) == "proof"
    assert ours.take(theirs.encode(VOTE), "10.0.0.1") == VOTE


def test_remembered_senders_are_bounded() -> None:
    ours, theirs = gate(), gate("n0")
    senders = [Replica("n0", f"{number}") for number in range(SENDERS_MAX + 1)]
    for sender in senders:
        assert ours.take(theirs.encode(replace(VOTE, sender=sender)), "10.0.0.1") != VOTE
    assert len(ours._heard) == SENDERS_MAX and senders[0] not in ours._heard


def test_no_more_spellings_of_hosts_are_remembered_than_the_limit() -> None:
    for number in range(HOSTS_REMEMBERED_MAX + 1):
        host = f"10.1.{number // 256}.{number % 256}"
        assert _canonical(f"::ffff:{host}") == _canonical(host) == host
    assert _canonical.cache_info().currsize == HOSTS_REMEMBERED_MAX
