"""SizedCache: results by a text that a peer chose, within a limit of bytes and not of entries alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
ENTRY_BYTES = 200  # of a place in a dict, and of the heads of a small key and a small value


class SizedCache(dict[K, V], Generic[K, V]):
    """``cache[key]`` is the kept result for a key, or a new one. A hit is one look-up in a dict.

    When it is full, the entries that came first go first.
    """

    def __init__(self, make: Callable[[K], V], size_of: Callable[[K, V], int], limit_bytes: int) -> None:
        """``make`` returns the result for a key; ``size_of`` returns about how many bytes key and result take."""
        super().__init__()
        self.size_bytes = 0
        self._make = make
        self._size_of = size_of
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()  # worker threads read records too

    def __missing__(self, key: K) -> V:
        value = self._make(key)
        size_bytes = ENTRY_BYTES + self._size_of(key, value)
        if size_bytes <= self._limit_bytes:
            with self._lock:
                self._keep(key, value, size_bytes)
        return value

    def _keep(self, key: K, value: V, size_bytes: int) -> None:
        if key in self:
            return
        while self.size_bytes + size_bytes > self._limit_bytes:
            oldest = next(iter(self))
            self.size_bytes -= ENTRY_BYTES + self._size_of(oldest, self.pop(oldest))
        self[key] = value
        self.size_bytes += size_bytes
