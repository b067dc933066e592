"""Room: how much memory the kept answers of all persons take together."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

KEPT_BYTES_MAX: Final = 128 * 1024 * 1024  # as their JSON would take, parsed; they take about half of it

Shelf = dict[Hashable, Any]


class Room:
    """Counts what lies on the shelves of persons. Over the limit, what has lain the longest time goes."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._held: dict[tuple[int, Hashable], tuple[Shelf, int]] = {}  # by shelf and key, the oldest first

    def put(self, shelf: Shelf, key: Hashable, answer: Any, size_bytes: int) -> None:
        """Put an answer onto a person's shelf, where it takes the place of an older one."""
        self.take(shelf, key)
        shelf[key] = answer
        self._held[id(shelf), key] = shelf, size_bytes
        self.held_bytes += size_bytes
        while self.held_bytes > self.bytes_max:
            (_, oldest), (of, _) = next(iter(self._held.items()))
            self.take(of, oldest)

    def take(self, shelf: Shelf, key: Hashable) -> None:
        """Take an answer from its shelf, if it is there."""
        shelf.pop(key, None)
        _, size_bytes = self._held.pop((id(shelf), key), (shelf, 0))
        self.held_bytes -= size_bytes

    def clear(self, shelf: Shelf) -> None:
        """Take all answers from a shelf."""
        for key in list(shelf):
            self.take(shelf, key)
