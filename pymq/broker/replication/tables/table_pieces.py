"""A large table goes from a master to a slave in pieces: a turn for each on both sides, and no frame gets too long.

All pieces of a copy are of one version, which the master keeps meanwhile. So a table that changes all the time is
copied all the same: the slave has an older version afterwards, and asks again.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

COPIES_MAX = 8  # versions that a master keeps, for slaves that began at different times
PIECE = "piece"  # the member of a table that says which piece of a copy it is


class PieceSizes(NamedTuple):
    """How many entries one answer to a slave has at most: about 10 ms on each side."""

    entries: int = 2_000  # topics, groups
    offsets: int = 20_000


class Piece(NamedTuple):
    """A piece of a table. ``version`` is empty for a table that goes whole."""

    table: dict[str, Any]
    version: str = ""
    is_last: bool = True


class TablePieces:
    """Gives out a master's table; ``member`` is its object with the entries. ``size``: of a piece, in entries."""

    def __init__(self, member: str, size: int) -> None:
        self._member = member
        self._size = size
        self._copies: dict[str, tuple[list[tuple[str, Any]], dict[str, Any]]] = {}  # by version, the oldest first

    def read(self, known: str, version: str, table: dict[str, Any]) -> Piece:
        """Return the piece that follows what the slave has, whose version is ``known``.

        ``table`` has the present ``version``. The version of a piece is that of its copy, with the place of the next
        piece behind a "+".
        """
        begun, _, place = known.partition("+")
        if not (place.isdecimal() and begun in self._copies):
            if len(table[self._member]) <= self._size:
                return Piece(table)
            begun, place = version, "0"
            self._keep(version, table)
        entries, others = self._copies[begun]
        start = min(int(place), len(entries))
        end = min(start + self._size, len(entries))
        is_last = end == len(entries)
        piece = {
            self._member: dict(islice(entries, start, end)),
            PIECE: {"from": start, "isLast": is_last},
            **(others if is_last else {}),
        }
        return Piece(piece, begun if is_last else f"{begun}+{end}", is_last)

    def _keep(self, version: str, table: dict[str, Any]) -> None:
        self._copies.pop(version, None)
        others = {name: value for name, value in table.items() if name != self._member}
        self._copies[version] = list(table[self._member].items()), others
        while len(self._copies) > COPIES_MAX:
            del self._copies[next(iter(self._copies))]


class PieceCount:
    """Checks on a slave that the pieces of a copy follow each other."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, piece: dict[str, Any], count: int) -> tuple[bool, bool]:
        """Note a piece with ``count`` entries; return (it is the first one, it is the last one).

        Raises ValueError for a piece that does not follow the one before.
        """
        start, is_last = piece["from"], piece["isLast"]
        if start not in (0, self._next):
            raise ValueError(f"a piece from entry {start} on came after {self._next} entries")
        self._next = 0 if is_last else start + count
        return start == 0, is_last
