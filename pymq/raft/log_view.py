"""LogView: what the rules need to know of the commit log: where it begins and ends, and who wrote which part of it.

The log itself is the store's. Everything here follows from epochs, as positions in one epoch are equal in all logs that
have it (log matching, §5.3).
"""

from __future__ import annotations

from collections.abc import Iterable

from pymq.raft.messages import Piece, Snapshot
from pymq.raft.state import Epoch, Membership, MembershipEntry, Position


class LogView:
    """A log in [begin, end), of which the disk has the bytes below ``synced_end``.

    ``truncation_count`` numbers the logs that this one has been: bytes that were synced before a truncation are not the
    bytes that stand there after it.
    """

    def __init__(
        self, epochs: Iterable[Epoch], memberships: Iterable[MembershipEntry], begin: int = 0, end: int = 0
    ) -> None:
        self.begin = begin
        self.end = end
        self.synced_end = end
        self.truncation_count = 0
        self.epochs = tuple(epoch for epoch in epochs if epoch.start < end)
        entries = tuple(memberships)
        self.memberships = entries[:1] + tuple(entry for entry in entries[1:] if entry.end <= end)

    @property
    def last(self) -> Position:
        return self.position(self.end)

    @property
    def membership(self) -> Membership:
        """The newest membership in the log, confirmed or not (dissertation §4.1)."""
        return self.memberships[-1].membership if self.memberships else Membership()

    def position(self, end: int) -> Position:
        """Return ``end`` with the epoch of the byte before it; epoch 0 where no byte is or none is known."""
        return Position(next((epoch.number for epoch in reversed(self.epochs) if epoch.start < end), 0), end)

    def has(self, position: Position) -> bool:
        """Return True when the log is equal, below this position, to any log that has it.

        Below ``begin`` everything was confirmed, so every leader has it.
        """
        return position.end < self.begin or (position.end <= self.end and self.position(position.end) == position)

    def newest_below(self, limit: Position) -> Position:
        """Return the greatest position with an epoch of at most ``limit.epoch`` and an end of at most ``limit.end``."""
        behind = self.end
        for epoch in reversed(self.epochs):
            if epoch.number <= limit.epoch and epoch.start < min(behind, limit.end):
                return Position(epoch.number, min(behind, limit.end))
            behind = epoch.start
        return Position(0, 0)

    def pieces(self, begin: int, end: int) -> tuple[Piece, ...]:
        """Return the bytes in [begin, end) by epoch."""
        found = []
        for epoch in reversed(self.epochs):
            start = max(epoch.start, begin)
            if start < end:
                found.append(Piece(epoch.number, start, end))
                end = start
        return tuple(reversed(found))

    def memberships_in(self, begin: int, end: int) -> tuple[MembershipEntry, ...]:
        """Return the memberships whose records end in (begin, end]."""
        return tuple(entry for entry in self.memberships if begin < entry.end <= end)

    def conflict(self, pieces: Iterable[Piece]) -> int | None:
        """Return the first offset where this log has bytes of another epoch than ``pieces``; None without one."""
        for piece in pieces:
            for own in self.pieces(piece.begin, min(piece.end, self.end)):
                if own.epoch != piece.epoch:
                    return own.begin
        return None

    def begin_epoch(self, number: int) -> None:
        """Have what follows be of this epoch. An epoch that has no bytes is forgotten."""
        epochs = tuple(epoch for epoch in self.epochs if epoch.start < self.end)
        goes_on = bool(epochs) and epochs[-1].number == number
        self.epochs = epochs if goes_on else (*epochs, Epoch(number, self.end))

    def append(self, pieces: Iterable[Piece], memberships: Iterable[MembershipEntry] = ()) -> None:
        """Add what of ``pieces`` is behind the log's end, and the memberships in it."""
        before = self.end
        for epoch, begin, end in pieces:
            assert begin <= self.end, "pieces continue the log"
            if end > self.end:
                if not self.epochs or self.epochs[-1].number != epoch:
                    self.begin_epoch(epoch)
                self.end = end
        added = tuple(entry for entry in memberships if before < entry.end <= self.end)
        if added:
            self.memberships += added

    def truncate(self, end: int) -> None:
        """Remove the bytes from ``end`` on, with the epochs and memberships in them (dissertation §4.1: the membership
        before counts again).
        """
        self.end = end
        self.synced_end = min(self.synced_end, end)
        self.truncation_count += 1
        self.epochs = tuple(epoch for epoch in self.epochs if epoch.start < end)
        self.memberships = self.memberships[:1] + tuple(entry for entry in self.memberships[1:] if entry.end <= end)

    def release(self, begin: int) -> None:
        """Note that the store has no bytes below ``begin`` now; their epochs and memberships go, but the newest.

        The first membership stays, here and in snapshots: members know each other by it.
        """
        self.begin = begin
        old = [place for place, epoch in enumerate(self.epochs) if epoch.start < begin]
        self.epochs = self.epochs[old[-1] if old else 0 :]
        below = [place for place, entry in enumerate(self.memberships) if entry.end <= begin]
        self.memberships = self.memberships[:1] + self.memberships[max(below[-1] if below else 0, 1) :]

    def replace(self, snapshot: Snapshot) -> None:
        """Become the log of a snapshot, with all of it on the disk (§7: the whole log is discarded)."""
        self.begin = snapshot.begin
        self.end = self.synced_end = snapshot.last.end
        self.epochs, self.memberships = snapshot.epochs, snapshot.memberships
        self.truncation_count += 1
