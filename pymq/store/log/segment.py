"""One file of the commit log, and the guard that compares its bytes with those written."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Protocol

from pymq.store.disk.fs import File

if TYPE_CHECKING:
    from pymq.store.log.doubts import Doubts


class Segment:
    """One file of the log. ``start``: the physical offset of its first byte; ``sealed``: it takes no more appends."""

    __slots__ = ("_view", "end", "file", "resident_bytes", "sealed", "start")

    def __init__(self, start: int, size: int, file: File) -> None:
        self.start = start
        self.end = start + size
        self.file = file
        self.sealed = False
        self.resident_bytes = 0  # read through the view since it was last released
        self._view: memoryview | None = None

    def read(self, at: int, size: int) -> memoryview:
        """Return ``size`` bytes from position ``at`` of the segment, fewer at its end. Raises OSError."""
        if not self.sealed:
            return self.view()[at : at + size]
        data = self.file.pread(at, size)
        if len(data) < size and at + len(data) < self.end - self.start:
            raise OSError(errno.EIO, "the file is shorter than a segment", self.file.path)
        return memoryview(data)

    def view(self) -> memoryview:
        """Return the whole segment, mapped on first use.

        Reading a bad sector through a mapping kills the process, so :meth:`read` maps only the newest segment.
        """
        if self._view is None:
            self._view = self.file.view()
        return self._view

    def drop_view(self) -> None:
        self._view = None
        self.resident_bytes = 0

    def close(self) -> None:
        """Close descriptor and mapping. Closing the last one frees a deleted file's blocks, which can be slow."""
        self.drop_view()
        self.file.close()

    def note_read(self, size: int, resident_bytes_max: int) -> None:
        """Count ``size`` bytes read; release the mapped pages when more than ``resident_bytes_max`` were read."""
        self.resident_bytes += size
        if self.resident_bytes > resident_bytes_max and self._view is not None:
            self.file.release(self._view)
            self.resident_bytes = 0


class Guard(Protocol):
    """Compares what was read from the log with what was written to it."""

    def check(self, segment: Segment, data: memoryview, at: int) -> Doubts | None:
        """Check whole blocks from position ``at`` of the segment on. Returns None when all are as written.

        Raises OSError.
        """
        ...
