"""Log proofs: does another broker have our log? It is asked for the digest of a piece that only the bytes give.

Epoch histories are numbers that any peer can read and repeat. A broker that claims to be the group's newest master, or
to have followed one, has a copy of our log up to the common point of the histories. So nothing that it says makes this
broker step down, follow it or truncate its log before it has shown that it has these bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from pymq.broker.replication.history.log_end import tail_size
from pymq.errors import PymqError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_replication import LogDigests, LogDigestsRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.streams import Network

ASK_TIMEOUT_MS = 3000
# Fewer bytes could be guessed. A record has more.
PROOF_BYTES_MIN = 64
_CHUNK_BYTES_MIN = 512  # what a broker digests at least (handlers/log_copy.py)


class ProvenLog(Protocol):
    """Our own log, open or closed."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def segment_size_bytes(self) -> int: ...

    @property
    def tail_digest(self) -> Callable[[int, int], str]:
        """The function (offset, size) -> digest of so many bytes before it. It raises PymqError and OSError."""
        ...


class OwnLog(NamedTuple):
    """A log as it is now. ``tail_digest`` is :meth:`MessageStore.tail_digest`."""

    start: int
    end: int
    segment_size_bytes: int
    tail_digest: Callable[[int, int], str]


# Refusals after which the same request may be answered.
_LATER = {ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY}


class Piece(NamedTuple):
    """Log bytes from ``start`` to ``end``, in one segment."""

    start: int
    end: int


def piece_before(log: ProvenLog, common_end: int, their_start: int = 0) -> Piece | None:
    """Return the piece that both logs must have when they are equal up to ``common_end``; None when it is too small."""
    start, end = max(log.start, their_start), min(common_end, log.end)
    for _ in range(2):  # else the piece before it, in the segment before
        if end - start < PROOF_BYTES_MIN:
            return None
        size = tail_size(start, end, log.segment_size_bytes)
        if size >= PROOF_BYTES_MIN:
            return Piece(end - size, end)
        end -= size
    return None


def ask_for_proof(
    network: Network, address: str, log: ProvenLog, piece: Piece, on_done: Callable[[str, bool], None]
) -> None:
    """Ask the broker at ``address`` for the digest of ``piece``, and call ``on_done(why, is_final)`` later.

    ``why`` is empty when it has these bytes. Else ``is_final`` tells a wrong answer from one that may come later.
    """
    size = piece.end - piece.start
    body = msgspec.json.encode(
        LogDigestsRequest(start=piece.start, end=piece.end, chunk_bytes=max(size, _CHUNK_BYTES_MIN), count_max=1)
    )

    def answered(answer: Command | str) -> None:
        on_done(*_judge(answer, address, log, piece))

    network.ask(address, Command(RequestCode.PYMQ_LIST_LOG_DIGESTS, body=body), answered, ASK_TIMEOUT_MS)


def _judge(answer: Command | str, address: str, log: ProvenLog, piece: Piece) -> tuple[str, bool]:
    asked = f"{address} was asked for a digest of our log from {piece.start} to {piece.end}"
    if isinstance(answer, str):
        return f"{asked}: {answer}", False
    if answer.code != ResponseCode.SUCCESS:
        return f"{asked}: code {answer.code}, {answer.remark}", answer.code not in _LATER
    try:
        digests = decode_json(answer.body, LogDigests).digests
        ours = log.tail_digest(piece.end, piece.end - piece.start)
    except (PymqError, OSError) as error:
        return f"{asked}: {error}", True
    if digests[:1] == [ours]:
        return "", True
    return f"{asked} and gave another: its log is not ours, whatever its epochs say", True
