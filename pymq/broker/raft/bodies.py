"""The bodies of request 9120: one message of :mod:`pymq.raft.messages` each, as JSON in an envelope.

A body is decoded into the core's own types, so a message that is decoded keeps all limits here: numbers that can be
terms and offsets, lists of bounded length, ranges that continue each other. The proof in the envelope shows that the
sender has the group's secret, and covers everything else in it.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import fields, is_dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import msgspec

from pymq.broker.raft.handshake import SESSION_BITS, Hello, Welcome
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.raft.messages import (
    AppendAnswer,
    AppendRequest,
    Found,
    FoundPromise,
    FoundRequest,
    Heartbeat,
    HeartbeatAnswer,
    Introduction,
    Message,
    PreVoteAnswer,
    PreVoteRequest,
    ReadIndexAnswer,
    ReadIndexRequest,
    Snapshot,
    SnapshotAnswer,
    SnapshotOffer,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from pymq.raft.state import Membership, Replica
from pymq.wire.bodies_replication import EPOCH_MAX, TEXT_LENGTH_MAX
from pymq.wire.ha import OFFSET_MAX

VERSION = 2
BODY_BYTES_MAX = 256 << 10
LIST_COUNT_MAX = 4_096  # epochs, memberships and pieces of one message
MEMBER_COUNT_MAX = 64  # replicas of one membership, with learners and observers
NODE_ID_LENGTH_MAX = 11  # n and a number below 2**31
DISK_ID_LENGTH_MAX = 32
REPLICAS_REMEMBERED_COUNT = 256  # that were within the limits
FOUNDING_ID_SIZE_BYTES = 16
PROOF_SIZE_BYTES = 32  # HMAC-SHA256
_LABEL = b"PyMQ Raft message 2\0"  # so that a proof for another purpose is none here
_HEX = "[0-9a-f]"
_NODE = re.compile(r"n[0-9]+")
_DISK = re.compile(r"[0-9A-Za-z_-]*")  # it stands in log lines

KINDS: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        PreVoteRequest,
        PreVoteAnswer,
        VoteRequest,
        VoteAnswer,
        AppendRequest,
        AppendAnswer,
        Heartbeat,
        HeartbeatAnswer,
        TimeoutNow,
        ReadIndexRequest,
        ReadIndexAnswer,
        SnapshotOffer,
        SnapshotAnswer,
        Introduction,
        FoundRequest,
        FoundPromise,
        Found,
        Hello,
        Welcome,
    )
}
# Fields that count something else than bytes of the log.
_COUNTED = frozenset({"term", "asked_term", "epoch", "number", "round_number", "request_id", "count"})

_HANDSHAKE = (Hello, Welcome)

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_LENGTH_MAX)]


class BodyError(ValueError):
    """A body that is no message of a Raft group, with the reason."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What is around a message.

    ``founding_id`` is empty for a sender that is in no group yet. ``session`` is drawn at the sender's start,
    ``to_session`` at the receiver's (empty in a Hello or a Welcome). ``welcome`` is the count of the Welcome on which
    the message rests (0 in a Hello or a Welcome), ``lane`` its connection, and ``number`` counts the messages of both.
    ``message`` has the fields of the class named ``kind``.
    """

    version: int = VERSION
    cluster: Text
    group: Text
    founding_id: Annotated[str, msgspec.Meta(pattern=f"^({_HEX}{{{2 * FOUNDING_ID_SIZE_BYTES}}})?$")] = ""
    session: Annotated[str, msgspec.Meta(pattern=f"^{_HEX}{{{SESSION_BITS // 4}}}$")]
    to_session: Annotated[str, msgspec.Meta(pattern=f"^({_HEX}{{{SESSION_BITS // 4}}})?$")]
    welcome: Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
    lane: Annotated[int, msgspec.Meta(ge=0, le=1)]
    number: Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
    proof: Annotated[str, msgspec.Meta(pattern=f"^{_HEX}{{{2 * PROOF_SIZE_BYTES}}}$")]
    kind: Text
    message: msgspec.Raw


def founding_id(first: Membership) -> str:
    """Return the founding id, in hex, of the group with this first membership. It is no secret.

    The disk ids in it are random. Two groups of one name, also with one secret, have different ones.
    """
    return blake2b(
        msgspec.json.encode(first), digest_size=FOUNDING_ID_SIZE_BYTES, person=b"PyMQ Raft group"
    ).hexdigest()


class Seal(NamedTuple):
    """What an envelope says of its sender's session, and the key of the proof."""

    founding_id: str
    session: str
    to_session: str
    welcome: int
    lane: int
    number: int
    key: bytes


def encode_message(message: Message, seal: Seal, *, cluster: str, group: str, data: bytes | memoryview = b"") -> bytes:
    """Return the body for a message. ``data``: the bytes of the log that go with an AppendRequest, which it proves."""
    envelope = Envelope(
        cluster=cluster,
        group=group,
        founding_id=seal.founding_id,
        session=seal.session,
        to_session=seal.to_session,
        welcome=seal.welcome,
        lane=seal.lane,
        number=seal.number,
        proof="",
        kind=type(message).__name__,
        message=msgspec.Raw(msgspec.json.encode(message)),
    )
    return msgspec.json.encode(msgspec.structs.replace(envelope, proof=prove(envelope, seal.key, data)))


def prove(envelope: Envelope, key: bytes, data: bytes | memoryview = b"") -> str:
    """Return the proof, in hex, that belongs to an envelope, and the log bytes with it, by this key."""
    head = msgspec.json.encode(
        (
            envelope.version, envelope.cluster, envelope.group, envelope.founding_id, envelope.session,
            envelope.to_session, envelope.welcome, envelope.lane, envelope.number, envelope.kind,
        )
    )  # fmt: skip
    return hmac.digest(key, b"".join((_LABEL, head, envelope.message, data)), "sha256").hex()


def is_proven(envelope: Envelope, key: bytes, data: bytes | memoryview = b"") -> bool:
    """Return True when the envelope's proof is right. The comparison takes as long for any wrong one."""
    return hmac.compare_digest(envelope.proof, prove(envelope, key, data))


def decode_envelope(body: bytes | memoryview) -> Envelope:
    """Return the envelope of a body, whose message is not looked at yet. Raises BodyError."""
    if len(body) > BODY_BYTES_MAX:
        raise BodyError(f"a body of {len(body)} bytes, the limit is {BODY_BYTES_MAX}")
    try:
        envelope = decode_json(body, Envelope)
    except JsonError as error:
        raise BodyError(str(error)) from error
    if envelope.version != VERSION:
        raise BodyError(f"version {envelope.version}, this broker speaks {VERSION}: run the same PyMQ on all members")
    if envelope.kind not in KINDS:
        raise BodyError(f"{envelope.kind[:60]!r} is no kind of message")
    return envelope


def decode_message(envelope: Envelope) -> Message:
    """Return the message of an envelope. Raises BodyError for one that breaks a limit or contradicts itself."""
    try:
        message = decode_json(envelope.message, KINDS[envelope.kind])
    except JsonError as error:
        raise BodyError(str(error)) from error
    _check_values(message, "")
    if not message.sender.disk_id and not isinstance(message, _HANDSHAKE):
        raise BodyError("its sender has no disk id")
    if isinstance(message, AppendRequest):
        _check_append(message)
    elif isinstance(message, SnapshotOffer):
        _check_snapshot(message.snapshot, message.term)
    return message


# -- limits ------------------------------------------------------------------------------------------------------------


def _check_values(value: Any, name: str) -> None:
    """Raise BodyError for a number, text or list beyond its limit, anywhere in a message."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int):
        limit = EPOCH_MAX if name in _COUNTED else OFFSET_MAX
        if not 0 <= value <= limit:
            raise BodyError(f"{name} is {value}, allowed are 0 to {limit}")
    elif isinstance(value, Replica):
        _check_replica(value, name)
    elif isinstance(value, Membership):
        _check_membership(value)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field in value._fields:
            _check_values(getattr(value, field), field)
    elif isinstance(value, tuple):
        if len(value) > LIST_COUNT_MAX:
            raise BodyError(f"{name} has {len(value)} parts, the limit is {LIST_COUNT_MAX}")
        for part in value:
            _check_values(part, name)
    elif is_dataclass(value):
        for each in fields(value):
            _check_values(getattr(value, each.name), each.name)


@lru_cache(REPLICAS_REMEMBERED_COUNT)
def _check_replica(replica: Replica, name: str) -> None:
    if len(replica.node_id) > NODE_ID_LENGTH_MAX or _NODE.fullmatch(replica.node_id) is None:
        raise BodyError(f"{name}: {replica.node_id[:60]!r} is no id of a node")
    if len(replica.disk_id) > DISK_ID_LENGTH_MAX:
        raise BodyError(f"{name}: a disk id of {len(replica.disk_id)} characters, the limit is {DISK_ID_LENGTH_MAX}")
    if _DISK.fullmatch(replica.disk_id) is None:
        raise BodyError(f"{name}: {replica.disk_id!r} is no id of a disk")


def _check_membership(membership: Membership) -> None:
    count = len(membership.members)
    if count > MEMBER_COUNT_MAX:
        raise BodyError(f"a membership of {count} replicas, the limit is {MEMBER_COUNT_MAX}")
    for replica, _ in membership.members:
        _check_replica(replica, "members")
        if not replica.disk_id:
            raise BodyError(f"a membership with {replica.node_id}, which has no disk id")
    if len({replica.node_id for replica, _ in membership.members}) < count:
        raise BodyError("a membership with two replicas of one node")


def _check_append(message: AppendRequest) -> None:
    at, epoch = message.previous.end, message.previous.epoch
    for piece in message.pieces:
        if piece.begin != at or piece.end <= at:
            raise BodyError(f"bytes from {piece.begin} to {piece.end} do not continue a log that ends at {at}")
        if not epoch <= piece.epoch <= message.term:
            raise BodyError(f"bytes of epoch {piece.epoch} after epoch {epoch}, from a leader of term {message.term}")
        at, epoch = piece.end, piece.epoch
    for entry in message.memberships:
        if not message.previous.end < entry.end <= at:
            raise BodyError(f"a membership at {entry.end}, outside of the bytes from {message.previous.end} to {at}")


def _check_snapshot(snapshot: Snapshot, term: int) -> None:
    if snapshot.begin > snapshot.last.end:
        raise BodyError(f"a snapshot from {snapshot.begin} to {snapshot.last.end}")
    for before, after in pairwise(snapshot.epochs):
        if after.number <= before.number or after.start < before.start:
            raise BodyError(
                f"epoch {after.number} from {after.start} does not follow epoch {before.number} from {before.start}"
            )
    newest = snapshot.epochs[-1].number if snapshot.epochs else 0
    if not newest == snapshot.last.epoch <= term:
        raise BodyError(f"a snapshot that ends in epoch {snapshot.last.epoch}, of {newest}, by a leader of term {term}")
    if not snapshot.memberships or snapshot.memberships[-1].end > snapshot.last.end:
        raise BodyError(f"a snapshot to {snapshot.last.end} without the memberships in it")
