"""Memory for the bytes of a batch, received or read from files, which the next batch uses again.

Answers that follow each other stand back to back in it, so they become one chunk without a copy. Fresh memory for each
would cost as much as receiving it: the kernel clears every page.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymq.spark.records.layout import Chunk


class ReadBuffer:
    """One piece of memory of ``size_bytes``. Bytes in it stay valid until :meth:`reset`."""

    def __init__(self, size_bytes: int = 0) -> None:
        self._view = np.empty(size_bytes, np.uint8).data
        self._end = 0

    def room(self, size_bytes: int) -> memoryview:
        """Return memory to read into: behind what was read before, or memory of its own if that is full."""
        first, last = self._end, self._end + size_bytes
        if last > len(self._view):
            return memoryview(bytearray(size_bytes))
        self._end = last
        return self._view[first:last]

    def joined(self, chunks: Sequence[Chunk]) -> Chunk:
        """Return chunks as one: the same memory if they stand back to back in this buffer, else a copy."""
        address = _address_of(self._view)
        first = at = _address_of(chunks[0]) - address
        for chunk in chunks:
            if _address_of(chunk) - address != at:
                return b"".join(chunks)
            at += len(chunk)
        return self._view[first:at] if first >= 0 and at <= len(self._view) else b"".join(chunks)

    def reset(self, size_bytes: int = 0) -> None:
        """Let the next bytes use the memory from its begin; it grows if it has less than ``size_bytes``."""
        if len(self._view) < size_bytes:
            self._view = np.empty(size_bytes, np.uint8).data
        self._end = 0


def _address_of(chunk: Chunk) -> int:
    address: int = np.frombuffer(chunk, np.uint8).__array_interface__["data"][0]
    return address
