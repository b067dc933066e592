"""The follower's side of an AppendRequest with bytes: what is checked before the core takes it, and what is written.

What a follower writes is the leader's log, byte for byte. The core says which ranges are new; this module gives their
bytes to the store's Follower. A divergent tail is truncated by :func:`pymq.store.replica.divergent_tail.truncate_log`,
which keeps it under ``divergent/``, as in a plain group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pymq.broker.raft.outgoing import whole_size
from pymq.broker.raft.peers import LENGTH
from pymq.errors import CorruptRecordError, ProtocolViolation
from pymq.raft.messages import AppendRequest, Piece


class FollowingLog(Protocol):
    """A log that grows by another's bytes: :class:`pymq.store.replica.follower.Follower`."""

    @property
    def end(self) -> int: ...

    def append(self, position: int, data: bytes | memoryview) -> None: ...


def envelope_and_bytes(body: bytes | memoryview) -> tuple[bytes | memoryview, bytes | memoryview]:
    """Return the two parts of a request 9121: the envelope, and the bytes of the log. Raises ProtocolViolation."""
    if len(body) < LENGTH.size:
        raise ProtocolViolation("raft-size", f"a body of {len(body)} bytes, at least {LENGTH.size} are its length")
    behind = LENGTH.size + LENGTH.unpack_from(body)[0]
    return body[LENGTH.size : behind], body[behind:]


def check_bytes(request: AppendRequest, data: bytes | memoryview) -> None:
    """Raise ProtocolViolation unless ``data`` are the whole records of the request's range.

    Each piece, and each membership in it, must end where a record does: no position lies within a record.
    """
    start, size = request.previous.end, request.end - request.previous.end
    if len(data) != size:
        raise ProtocolViolation(
            "raft-size", f"{len(data)} bytes for the log from {start} to {request.end}, which are {size}"
        )
    view, at = memoryview(data), start
    ends = {piece.end for piece in request.pieces} | {entry.end for entry in request.memberships}
    for end in sorted(ends):
        try:
            whole = whole_size(view[at - start : end - start], at)
        except CorruptRecordError as error:
            raise ProtocolViolation("raft-record", str(error)) from error
        if at + whole != end:
            raise ProtocolViolation("raft-record", f"no record ends at {end}: one from {at + whole} on goes beyond it")
        at = end


def write_pieces(pieces: Iterable[Piece], request: AppendRequest, data: bytes | memoryview, log: FollowingLog) -> int:
    """Write the ranges that the core has taken of a request; return the number of bytes.

    ``pieces`` are those of the core's ``Ready`` after it took ``request``, in their order. Raises StoreError as the log
    does. What was written stays, and the same call goes on behind it.
    """
    view, count = memoryview(data), 0
    for piece in pieces:
        assert request.previous.end <= piece.begin and piece.end <= request.end, f"{piece} is not of {request}"
        assert piece.begin <= log.end, f"{piece} does not continue a log that ends at {log.end}"
        begin = log.end
        if begin < piece.end:
            log.append(begin, view[begin - request.previous.end : piece.end - request.previous.end])
            count += piece.end - begin
    return count
