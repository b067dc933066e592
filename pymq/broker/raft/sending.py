"""Sending: what is still to go to one member of the group, of which a connection takes a part whenever it has room.

The core asks for ranges of the log, as often as it likes. Here they are joined while one continues the other, so a slow
member costs one request and no bytes in memory.
"""

from __future__ import annotations

from pymq.broker.raft.outgoing import PART_BYTES_MAX, LogSource, Part, between, parts
from pymq.raft.messages import AppendRequest, Piece
from pymq.raft.state import Position


class Sending:
    """The log bytes for one member."""

    def __init__(self) -> None:
        self._rest: AppendRequest | None = None

    def offer(self, request: AppendRequest) -> None:
        """Send ``request`` too, when it continues what is still to be sent; else in its place.

        The core begins again from another place when a member has another log or does not answer.
        """
        rest = self._rest
        is_continued = rest is not None and rest.term == request.term and rest.end == request.previous.end
        self._rest = joined(rest, request) if rest is not None and is_continued and request.pieces else request

    def next_part(self, log: LogSource, bytes_max: int = PART_BYTES_MAX) -> Part | None:
        """Return the next part with its bytes; None when all was sent.

        Raises StoreError or NotFoundError when the log can't be read there. Then nothing is left to be sent, until the
        core asks again.
        """
        rest, self._rest = self._rest, None
        if rest is None:
            return None
        part = next(parts(rest, log, bytes_max=bytes_max))
        end = part.request.end
        if end < rest.end:
            self._rest = between(rest, Position(part.request.pieces[-1].epoch, end), rest.end)
        return part

    def clear(self) -> None:
        """Send nothing of it: this node leads no more."""
        self._rest = None


def joined(first: AppendRequest, second: AppendRequest) -> AppendRequest:
    """Return one request for the ranges of both; ``second`` continues ``first``."""
    pieces = list(first.pieces)
    for piece in second.pieces:
        if pieces and pieces[-1].epoch == piece.epoch:
            pieces[-1] = Piece(piece.epoch, pieces[-1].begin, piece.end)
        else:
            pieces.append(piece)
    return AppendRequest(
        sender=second.sender,
        to=second.to,
        term=second.term,
        previous=first.previous,
        pieces=tuple(pieces),
        memberships=first.memberships + second.memberships,
        confirm_offset=second.confirm_offset,
    )
