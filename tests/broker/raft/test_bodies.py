"""Bodies of request 9120: golden bytes, each kind there and back, limits at their edges, and any bytes at all."""

from __future__ import annotations

import random
import typing
from dataclasses import fields, replace
from typing import Any

import msgspec
import pytest

from pymq.broker.raft.bodies import (
    BODY_BYTES_MAX,
    DISK_ID_LENGTH_MAX,
    KINDS,
    LIST_COUNT_MAX,
    MEMBER_COUNT_MAX,
    NODE_ID_LENGTH_MAX,
    BodyError,
    Seal,
    decode_envelope,
    decode_message,
    encode_message,
    founding_id,
    is_proven,
)
from pymq.raft import messages
from pymq.raft.messages import AppendRequest, Found, Heartbeat, Message, Piece, Snapshot, SnapshotOffer, VoteRequest
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, Position, Replica
from pymq.wire.bodies_replication import EPOCH_MAX
from pymq.wire.ha import OFFSET_MAX

N0, N1 = Replica("n0", "00aa"), Replica("n1", "11bb")
GROUP = Membership(((N0, Kind.VOTER), (N1, Kind.LEARNER)))
KEY = bytes(range(32))
FOUNDING_ID = founding_id(GROUP)
VOTE = VoteRequest(N0, N1, 7, Position(5, 4096), is_transfer=False)
APPEND = AppendRequest(
    N0, N1, 7, Position(5, 100), (Piece(5, 100, 150), Piece(7, 150, 400)), (MembershipEntry(400, GROUP),), 90
)
ENTRIES = (MembershipEntry(0, GROUP),)
OFFER = SnapshotOffer(N0, N1, 7, Snapshot(0, Position(7, 400), (Epoch(5, 0), Epoch(7, 150)), ENTRIES))


def body(message: Message, key: bytes = KEY, number: int = 1, data: bytes = b"") -> bytes:
    seal = Seal(FOUNDING_ID, "0" * 16, "1" * 16, 3, 0, number, key)
    return encode_message(message, seal, cluster="c", group="g", data=data)


def back(raw: bytes) -> Message:
    return decode_message(decode_envelope(raw))


def test_golden_bytes() -> None:
    """Members of one version after another must understand each other."""
    assert body(VOTE) == GOLDEN_VOTE
    assert back(GOLDEN_VOTE) == VOTE and is_proven(decode_envelope(GOLDEN_VOTE), KEY)
    assert body(APPEND) == GOLDEN_APPEND
    assert back(GOLDEN_APPEND) == APPEND


FOUND = b"937ed7f29a5e1bc0a88135d97bace0d2"
GOLDEN_VOTE = (
    b'{"version":2,"cluster":"c","group":"g","founding_id":"'
    + FOUND
    + b'","session":"0000000000000000","to_session":"1111111111111111","welcome":3,'
    b'"lane":0,"number":1,"proof":"bb00b64472e4417f2ed7a609b08c3e6365bf315d4cfb4a749eea09e6655095d3",'
    b'"kind":"VoteRequest","message":{"sender":["n0","00aa"],"to":["n1","11bb"],"term":7,"last":[5,4096],'
    b'"is_transfer":false}}'
)
GOLDEN_APPEND = (
    b'{"version":2,"cluster":"c","group":"g","founding_id":"'
    + FOUND
    + b'","session":"0000000000000000","to_session":"1111111111111111","welcome":3,'
    b'"lane":0,"number":1,"proof":"874206c96950c360084c08e629282d112670e850941efd2439fd96b293bb8a1b",'
    b'"kind":"AppendRequest",'
    b'"message":{"sender":["n0","00aa"],"to":["n1","11bb"],"term":7,"previous":[5,100],"pieces":[[5,100,150],'
    b'[7,150,400]],"memberships":[[400,{"members":[[["n0","00aa"],"voter"],[["n1","11bb"],"learner"]]}]],'
    b'"confirm_offset":90}}'
)


def test_every_kind_of_message_has_a_body() -> None:
    kinds = {
        name
        for name, kind in vars(messages).items()
        if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message
    }
    assert set(KINDS) == kinds | {"Hello", "Welcome"} and len(kinds) >= 17


def made(rng: random.Random, hint: Any) -> Any:
    """Return a value of one field's type, within the limits."""
    if hint is bool:
        return rng.random() < 0.5
    if hint is str:
        return f"{rng.getrandbits(128):032x}"
    if hint is Replica:
        return Replica(f"n{rng.randrange(2**31)}", f"{rng.getrandbits(64):016x}")
    if hint is Position:
        return Position(rng.randrange(EPOCH_MAX), rng.randrange(OFFSET_MAX))
    if hint is Membership:
        replicas = [made(rng, Replica) for _ in range(rng.randrange(4))]
        return Membership(tuple((replica, rng.choice(list(Kind))) for replica in replicas))
    return rng.choice([0, OFFSET_MAX, rng.randrange(OFFSET_MAX), 1 if hint is int else None])


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"AppendRequest", "SnapshotOffer"}))
def test_each_message_comes_back_as_it_was(name: str) -> None:
    rng, kind = random.Random(name), KINDS[name]
    hints = typing.get_type_hints(kind)
    for number in range(1, 51):
        message = kind(**{each.name: made(rng, hints[each.name]) for each in fields(kind)})
        raw = body(message, number=number)
        assert back(raw) == message and is_proven(decode_envelope(raw), KEY)


@pytest.mark.parametrize("message", [APPEND, OFFER, replace(APPEND, pieces=(), memberships=())])
def test_messages_with_ranges_come_back(message: Message) -> None:
    assert back(body(message)) == message


# -- limits ------------------------------------------------------------------------------------------------------------


def offer(*epochs: Epoch) -> SnapshotOffer:
    return replace(OFFER, snapshot=replace(OFFER.snapshot, epochs=epochs))


def found(membership: Membership) -> Found:
    return Found(N0, N1, 1, N0, Position(0, 0), membership)


def members(count: int) -> Membership:
    return Membership(tuple((Replica(f"n{number}", "d"), Kind.OBSERVER) for number in range(count)))


@pytest.mark.parametrize(
    "message",
    [
        replace(VOTE, term=EPOCH_MAX, last=Position(EPOCH_MAX, OFFSET_MAX)),
        replace(VOTE, sender=Replica("n" + "1" * (NODE_ID_LENGTH_MAX - 1), "d" * DISK_ID_LENGTH_MAX)),
        found(members(MEMBER_COUNT_MAX)),
        replace(
            OFFER,
            term=LIST_COUNT_MAX,
            snapshot=replace(
                OFFER.snapshot,
                last=Position(LIST_COUNT_MAX - 1, OFFSET_MAX),
                epochs=tuple(Epoch(n, n) for n in range(LIST_COUNT_MAX)),
            ),
        ),
        replace(VOTE, to=Replica("n1", "")),
    ],
)
def test_what_is_within_the_limits_is_taken(message: Message) -> None:
    assert back(body(message)) == message


def pieces(*parts: tuple[int, int, int]) -> AppendRequest:
    return replace(APPEND, pieces=tuple(Piece(*part) for part in parts), memberships=())


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (replace(VOTE, term=EPOCH_MAX + 1), rf"term is {EPOCH_MAX + 1}, allowed are 0 to {EPOCH_MAX}"),
        (replace(VOTE, term=-1), "term is -1"),
        (replace(VOTE, last=Position(1, OFFSET_MAX + 1)), f"end is {OFFSET_MAX + 1}, allowed are 0 to {OFFSET_MAX}"),
        (replace(VOTE, last=Position(1 << 70, 0)), "epoch is"),
        (replace(VOTE, sender=Replica("broker-a", "d")), "sender: 'broker-a' is no id of a node"),
        (replace(VOTE, sender=Replica("n" + "1" * NODE_ID_LENGTH_MAX, "d")), "is no id of a node"),
        (replace(VOTE, sender=Replica("n0", "")), "its sender has no disk id"),
        (replace(VOTE, to=Replica("n1", "d" * (DISK_ID_LENGTH_MAX + 1))), "to: a disk id of 33 characters"),
        (replace(VOTE, to=Replica("n1", "\x1b[2J")), r"to: '\\x1b\[2J' is no id of a disk"),
        (replace(OFFER, term=6), "a snapshot that ends in epoch 7, of 7, by a leader of term 6"),
        (replace(OFFER, snapshot=replace(OFFER.snapshot, last=Position(6, 400))), "ends in epoch 6, of 7"),
        (replace(OFFER, snapshot=replace(OFFER.snapshot, memberships=())), "without the memberships in it"),
        (
            replace(OFFER, snapshot=replace(OFFER.snapshot, memberships=(MembershipEntry(401, GROUP),))),
            "a snapshot to 400 without the memberships in it",
        ),
        (Found(N0, N1, 1, N0, Position(0, 0), members(MEMBER_COUNT_MAX + 1)), "a membership of 65 replicas"),
        (Found(N0, N1, 1, N0, Position(0, 0), Membership(GROUP.members * 2)), "two replicas of one node"),
        (
            Found(N0, N1, 1, N0, Position(0, 0), Membership(((Replica("n0", ""), Kind.VOTER),))),
            "n0, which has no disk id",
        ),
        (
            replace(
                OFFER, snapshot=replace(OFFER.snapshot, epochs=tuple(Epoch(n, n) for n in range(LIST_COUNT_MAX + 1)))
            ),
            f"epochs has {LIST_COUNT_MAX + 1} parts",
        ),
        (replace(OFFER, snapshot=replace(OFFER.snapshot, begin=401)), "a snapshot from 401 to 400"),
        (
            offer(Epoch(5, 9), Epoch(7, 8)),
            "does not follow epoch 5",
        ),
        (
            offer(Epoch(5, 0), Epoch(5, 8)),
            "does not follow epoch 5",
        ),
        (pieces((5, 101, 150)), "bytes from 101 to 150 do not continue a log that ends at 100"),
        (pieces((5, 100, 100)), "bytes from 100 to 100"),
        (pieces((5, 100, 150), (5, 149, 160)), "do not continue a log that ends at 150"),
        (pieces((4, 100, 150)), "bytes of epoch 4 after epoch 5"),
        (pieces((8, 100, 150)), "epoch 8 after epoch 5, from a leader of term 7"),
        (replace(APPEND, memberships=(MembershipEntry(401, GROUP),)), "a membership at 401, outside of the bytes"),
        (replace(APPEND, memberships=(MembershipEntry(100, GROUP),)), "a membership at 100, outside of the bytes"),
    ],
)
def test_what_breaks_a_limit_or_contradicts_itself_is_refused(message: Message, why: str) -> None:
    with pytest.raises(BodyError, match=why):
        back(body(message))


def test_a_body_has_a_limit() -> None:
    assert decode_envelope(body(VOTE).ljust(BODY_BYTES_MAX)).kind == "VoteRequest"
    with pytest.raises(BodyError, match=rf"a body of {BODY_BYTES_MAX + 1} bytes, the limit is {BODY_BYTES_MAX}"):
        decode_envelope(body(VOTE).ljust(BODY_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"version":2', b'"version":1', "version 1, this broker speaks 2"),
        (b'"kind":"VoteRequest"', b'"kind":"Message"', "'Message' is no kind of message"),
        (b'"kind":"VoteRequest"', b'"kind":"Heartbeat"', "not a Heartbeat"),
        (b'"number":1', b'"number":-1', "number"),
        (b'"welcome":3', b'"welcome":-1', "welcome"),
        (b'"lane":0', b'"lane":2', "lane"),
        (b'"founding_id":"9', b'"founding_id":"', "founding_id"),
        (b'"proof":"', b'"proof":"0', "proof"),
        (b'"session":"0', b'"session":"x', "session"),
        (b'"cluster":"c"', b'"cluster":""', "cluster"),
        (b'"term":7', b'"term":"7"', "term"),
        (b'"term":7', b'"term":7.5', "term"),
        (b'["n1","11bb"]', b'["n1"]', "to"),
    ],
)
def test_other_texts_are_refused(old: bytes, new: bytes, why: str) -> None:
    raw = body(VOTE)
    assert old in raw
    with pytest.raises(BodyError, match=why):
        back(raw.replace(old, new))


def test_any_bytes_are_a_message_or_a_reason() -> None:
    """Bytes of a real message, changed at any places, never raise anything else."""
    rng = random.Random(9)
    texts = [body(VOTE), body(APPEND), body(OFFER)]
    parts = [b"", b'"', b"-", b"9" * 30, b"[", b"{", b"null", b"1e400", b"\xff", b"\\ud800", b"true", b"\0"]
    taken = 0
    for _ in range(4000):
        raw = bytearray(rng.choice(texts))
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(raw))
            raw[at : at + rng.randrange(4)] = rng.choice([*parts, rng.randbytes(2)])
        try:
            message = back(bytes(raw))
        except BodyError as error:
            assert str(error)
        else:
            taken += 1
            assert type(message) in KINDS.values()
    assert 800 < taken < 3200


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"{}", b"[" * BODY_BYTES_MAX, b'{"a":' * 50_000])
def test_other_bytes_are_no_message(raw: bytes) -> None:
    with pytest.raises(BodyError):
        decode_envelope(raw)


# -- the proof ---------------------------------------------------------------------------------------------------------


def test_the_proof_covers_all_of_a_body() -> None:
    raw = body(VOTE)
    for old, new in (
        (b'"cluster":"c"', b'"cluster":"d"'),
        (b'"group":"g"', b'"group":"h"'),
        (b'"session":"0', b'"session":"1'),
        (FOUNDING_ID.encode(), FOUNDING_ID[::-1].encode()),
        (b'"to_session":"1', b'"to_session":"2'),
        (b'"welcome":3', b'"welcome":4'),
        (b'"lane":0', b'"lane":1'),
        (b'"number":1', b'"number":2'),
        (b'"term":7', b'"term":8'),
        (b"4096", b"4097"),
        (b'"n0"', b'"n2"'),
        (b"11bb", b"11bc"),
    ):
        assert old in raw
        assert not is_proven(decode_envelope(raw.replace(old, new)), KEY)
    heartbeat = Heartbeat(N0, N1, 7, 0, 1)
    answer = body(heartbeat).replace(b'"Heartbeat"', b'"TimeoutNow"')
    assert back(answer) and not is_proven(decode_envelope(answer), KEY), "the kind is covered as well"


def test_groups_have_founding_ids_of_their_own() -> None:
    assert founding_id(GROUP) == FOUNDING_ID and len(FOUNDING_ID) == 32
    other = Membership(((N0, Kind.VOTER), (Replica("n1", "11bc"), Kind.LEARNER)))
    assert founding_id(other) != FOUNDING_ID != founding_id(Membership(((N0, Kind.VOTER), (N1, Kind.VOTER))))
    assert msgspec.json.encode(GROUP) == b'{"members":[[["n0","00aa"],"voter"],[["n1","11bb"],"learner"]]}'
