"""MessageGate: foreign, forged and replayed messages stay outside, each with its reason."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pymq.broker.raft.bodies import Seal, encode_message, founding_id
from pymq.broker.raft.gate import HOSTS_REMEMBERED_MAX, REASONS, Greeting, MessageGate, Refused, Taken, _canonical
from pymq.broker.raft.handshake import LOG_BYTES, STEP_MAX, WINDOW_COUNT_MAX, Hello, Welcome
from pymq.broker.raft.secret_file import FORMER, NEXT, Secrets
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
OURS, THEIRS = Secrets(b"a" * 32), Secrets(b"b" * 32)


def gate(node_id: str = "n1", founded: str = GROUP, seed: int = 1, secrets: Secrets = OURS, **others: str) -> Gate:
    made = Gate(
        cluster=others.get("cluster", "c"),
        group=others.get("group", "g"),
        node_id=node_id,
        secrets=lambda: made.secrets,
        rng=random.Random(f"{node_id} {seed}"),
    )
    made.secrets, made.founded, made.hosts = secrets, founded, HOSTS
    return made


class Gate(MessageGate):
    secrets: Secrets

    def says(self, message: Message = VOTE, data: bytes = b"") -> bytes:
        body = self.encode(message, data)
        assert body is not None
        return body


def greet(sender: Gate, receiver: Gate) -> None:
    """Have both nodes open a session of what ``sender`` says."""
    theirs = Replica(sender._node_id, "")
    greeting = receiver.take(sender.hello(theirs, receiver._node_id), HOSTS[sender._node_id][0])
    assert isinstance(greeting, Greeting)
    answer = receiver.welcome(Replica(receiver._node_id, ""), greeting.hello, greeting.session)
    assert isinstance(sender.take(answer, HOSTS[receiver._node_id][0]), Welcome)


def pair(seed: int = 1, **others: str) -> tuple[Gate, Gate]:
    """Return the gates of n1 and n0, which speaks to n1."""
    ours, theirs = gate(), gate("n0", others.get("founded", GROUP), seed)
    greet(theirs, ours)
    return ours, theirs


def reason(taken: Taken) -> str:
    assert isinstance(taken, Refused), taken
    return taken.reason


def test_a_message_of_a_member_is_taken() -> None:
    ours, theirs = pair()
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE
    assert ours.take(theirs.says(), "::ffff:10.0.0.1") == VOTE, "a socket for IPv4 and IPv6"
    assert set(ours.refused_count.values()) == {0}


def test_nothing_is_said_before_the_other_one_has_answered() -> None:
    theirs = gate("n0")
    assert theirs.encode(VOTE) is None and theirs.sessions.needs_hello("n1")
    greet(theirs, gate())
    assert theirs.encode(VOTE) is not None and not theirs.sessions.needs_hello("n1")


def forged(message: Message, key: bytes = b"", welcome: int = 1, to_session: str = "") -> bytes:
    """Return a body by a stranger, who knows all but the secret."""
    return encode_message(message, Seal(GROUP, "5" * 16, to_session, welcome, 0, 1, key), cluster="c", group="g")


def test_no_key_but_one_of_the_secret_proves_a_message() -> None:
    """The founding id, disk ids and sessions are in answers, and a stranger reads those."""
    ours, theirs = pair()
    for key in (b"", bytes.fromhex(GROUP), GROUP.encode(), theirs.sessions.own.encode(), bytes(32)):
        vote = forged(VOTE, key, ours.sessions.on_hello("n2", "5" * 16), ours.sessions.own)
        assert reason(ours.take(vote, "10.0.0.1")) == "proof"
        for greeting in (Hello(N0, N1, 0, "5" * 32), Welcome(N0, N1, 0, "5" * 32, 7)):
            assert reason(ours.take(forged(greeting, key, 0), "10.0.0.1")) == "proof"
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE


def test_a_message_without_a_handshake_is_refused() -> None:
    assert reason(gate().take(forged(VOTE), "10.0.0.1")) == "replayed"
    assert reason(gate(founded="").take(forged(VOTE), "10.0.0.1")) == "replayed", "also before the founding"
    ours, theirs = gate(), gate("n0")
    said = theirs.sessions._to("n1")
    said.session, said.welcome = ours.sessions.own, 5
    taken = ours.take(theirs.says(), "10.0.0.1")
    assert isinstance(taken, Refused) and "it rests on welcome 5, and this node has given 0" in taken.text


@pytest.mark.parametrize(
    ("message", "host", "why", "text"),
    [
        (replace(VOTE, to=N2), "10.0.0.1", "receiver", "is for n2, this is n1: check dLegerPeers"),
        (replace(VOTE, sender=N1), "10.0.0.1", "sender", "that is this broker's own id: give"),
        (replace(VOTE, sender=Replica("n9", "d")), "10.0.0.1", "sender", "neither in dLegerPeers nor"),
        (replace(VOTE, sender=N2), "10.0.0.3", "proof", "does not prove that its sender has the secret of g"),
        (VOTE, "10.0.0.9", "host", "n0 is at 10.0.0.1: another broker uses its id"),
    ],
)
def test_a_member_says_what_is_its_own_alone(message: Message, host: str, why: str, text: str) -> None:
    """Also who has the secret speaks for one node: a session is one node's."""
    ours, theirs = pair()
    if message.to == N2:
        greet(theirs, gate("n2"))
    taken = ours.take(theirs.says(message), host)
    assert isinstance(taken, Refused) and taken.reason == why and text in taken.text
    assert ours.refused_count == {**dict.fromkeys(REASONS, 0), why: 1}


@pytest.mark.parametrize(
    ("theirs", "why", "text"),
    [
        (gate("n0", cluster="d"), "foreign", "its brokerClusterName is d, here it is c; make"),
        (gate("n0", group="h"), "foreign", "its dLegerGroup is h, here it is g"),
        (gate("n0", secrets=THEIRS), "proof", "that member has another secret (raftSecretFile)"),
    ],
)
def test_nobody_else_begins_a_session(theirs: Gate, why: str, text: str) -> None:
    taken = gate().take(theirs.hello(N0, "n1"), "10.0.0.1")
    assert isinstance(taken, Refused) and taken.reason == why and text in taken.text


def test_members_of_another_group_with_the_same_name_and_secret_are_refused() -> None:
    ours, theirs = pair(founded=OTHER_GROUP)
    assert reason(ours.take(theirs.says(), "10.0.0.1")) == "foreign"
    theirs.founded = ""
    assert reason(ours.take(theirs.says(), "10.0.0.1")) == "foreign"
    new = Replica("n0", "ffff")
    for message in (Introduction(new, N1, 0, Position(0, 0)), FoundRequest(new, N1, 0)):
        assert ours.take(theirs.says(message), "10.0.0.1") == message, "a new replica is in no group yet"
    ours.founded = ""
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE, "who is in no group takes what members say"


def test_bytes_that_are_no_message_are_refused() -> None:
    taken = gate().take(b"hello", "10.0.0.1")
    assert isinstance(taken, Refused) and taken.reason == "format"
    assert taken.text.startswith("a message from 10.0.0.1: not a Envelope")


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
    ours, theirs = pair()
    first, second = theirs.says(), theirs.says()
    assert ours.take(second, "10.0.0.1") == ours.take(first, "10.0.0.1") == VOTE, "one may overtake another"
    for body in (first, second):
        taken = ours.take(body, "10.0.0.1")
        assert isinstance(taken, Refused) and taken.reason == "replayed" and "came already" in taken.text


def test_a_message_may_be_overtaken_by_as_many_as_the_window_has() -> None:
    ours, theirs = pair()
    bodies = [theirs.says() for _ in range(WINDOW_COUNT_MAX + 1)]
    for body in reversed(bodies[1:]):
        assert ours.take(body, "10.0.0.1") == VOTE
    for body in bodies:
        assert reason(ours.take(body, "10.0.0.1")) == "replayed"


def test_numbers_in_any_order_are_taken_once_each() -> None:
    rng = random.Random(3)
    ours, theirs = pair()
    bodies = [theirs.says() for _ in range(300)]
    order = sorted(range(300), key=lambda at: at + rng.uniform(0, WINDOW_COUNT_MAX / 2))
    for at in order:
        assert ours.take(bodies[at], "10.0.0.1") == VOTE
        assert reason(ours.take(bodies[at], "10.0.0.1")) == "replayed"


def test_a_number_may_be_so_much_greater_and_no_more() -> None:
    ours, theirs = pair()
    early = theirs.says()
    theirs.sessions._to("n1").numbers[0] = STEP_MAX
    assert reason(ours.take(theirs.says(), "10.0.0.1")) == "replayed", "it would shut out its own sender"
    theirs.sessions._to("n1").numbers[0] = STEP_MAX - 1
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE
    assert reason(ours.take(early, "10.0.0.1")) == "replayed"


def test_log_bytes_have_numbers_of_their_own() -> None:
    ours, theirs = pair()
    assert ours.take(theirs.says(VOTE, b"bytes"), "10.0.0.1", b"bytes") == VOTE
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE
    body = theirs.says(VOTE, b"bytes")
    assert reason(ours.take(body, "10.0.0.1", b"other")) == "proof"
    assert theirs.sessions._to("n1").numbers[LOG_BYTES] == 2


def test_nothing_of_an_earlier_start_of_its_receiver_is_taken() -> None:
    ours, theirs = pair()
    recorded = theirs.says()
    again = gate(seed=2)
    assert reason(again.take(recorded, "10.0.0.1")) == "replayed", "it has welcomed nobody"
    greet(gate("n2"), again)
    taken = again.take(recorded, "10.0.0.1")
    assert isinstance(taken, Refused) and "is for an earlier start of this node" in taken.text
    assert ours.take(recorded, "10.0.0.1") == VOTE


def test_nothing_of_an_earlier_start_of_its_sender_is_taken() -> None:
    ours, early = pair()
    recorded = early.says()
    assert ours.take(early.says(), "10.0.0.1") == VOTE
    present = gate("n0", seed=3)
    greet(present, ours)
    assert ours.take(recorded, "10.0.0.1") == VOTE, "the present one has said nothing yet"
    late = early.says()
    assert ours.take(present.says(), "10.0.0.1") == VOTE
    for body in (late, recorded):
        assert reason(ours.take(body, "10.0.0.1")) == "replayed"


def test_a_replayed_hello_ends_no_session() -> None:
    ours, theirs = gate(), gate("n0")
    hello = theirs.hello(N0, "n1")
    greet(theirs, ours)
    early = theirs.says()
    assert ours.take(early, "10.0.0.1") == VOTE
    for _ in range(3):
        replayed = ours.take(hello, "10.0.0.1")
        assert isinstance(replayed, Greeting)
        answer = ours.welcome(N1, replayed.hello, replayed.session)
        assert reason(theirs.take(answer, "10.0.0.2")) == "replayed", "it waits for none"
        assert ours.take(theirs.says(), "10.0.0.1") == VOTE
        assert reason(ours.take(early, "10.0.0.1")) == "replayed"


def test_a_replayed_welcome_changes_nothing() -> None:
    ours, theirs = gate(), gate("n0")
    greeting = ours.take(theirs.hello(N0, "n1"), "10.0.0.1")
    assert isinstance(greeting, Greeting)
    welcome = ours.welcome(N1, greeting.hello, greeting.session)
    assert isinstance(theirs.take(welcome, "10.0.0.2"), Welcome)
    assert reason(theirs.take(welcome, "10.0.0.2")) == "replayed"
    again = gate(seed=2)
    theirs.sessions.on_hello("n1", again.sessions.own)
    assert theirs.sessions.needs_hello("n1"), "its receiver has started again"
    assert reason(theirs.take(welcome, "10.0.0.2")) == "replayed"
    greet(theirs, again)
    assert again.take(theirs.says(), "10.0.0.1") == VOTE


def test_a_hello_again_keeps_the_session() -> None:
    """It may have crossed another one. What was on its way before counts."""
    ours, theirs = pair()
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE
    before = theirs.says()
    theirs.sessions.hello_nonce("n1")
    greet(theirs, ours)
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE
    assert ours.take(before, "10.0.0.1") == VOTE
    assert reason(ours.take(before, "10.0.0.1")) == "replayed"


def test_a_forged_message_changes_nothing() -> None:
    ours, theirs = pair()
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE
    assert reason(ours.take(forged(VOTE), "10.0.0.1")) == "replayed"
    assert ours.take(theirs.says(), "10.0.0.1") == VOTE


# -- a change of the secret --------------------------------------------------------------------------------------------


def test_members_accept_each_other_after_each_step_of_a_change() -> None:
    old, new = b"a" * 32, b"c" * 32
    steps = [Secrets(old), Secrets(old, new, NEXT), Secrets(new, old, FORMER), Secrets(new)]
    ours, theirs = pair()
    for step in steps[1:]:
        for changed in (theirs, ours):
            changed.secrets = step
            changed.sessions.forget_keys()
            assert ours.take(theirs.says(), "10.0.0.1") == VOTE
            greet(theirs, ours)
            greet(ours, theirs)
    assert reason(ours.take(gate("n0").hello(N0, "n1"), "10.0.0.1")) == "proof", "the former secret proves nothing"


def test_no_more_spellings_of_hosts_are_remembered_than_the_limit() -> None:
    for number in range(HOSTS_REMEMBERED_MAX + 1):
        host = f"10.1.{number // 256}.{number % 256}"
        assert _canonical(f"::ffff:{host}") == _canonical(host) == host
    assert _canonical.cache_info().currsize == HOSTS_REMEMBERED_MAX
