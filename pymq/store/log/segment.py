"""One file of the commit log, and what compares its bytes with those written."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Protocol

from pymq.store.disk.fs import File

if TYPE_CHECKING:
    from pymq.store.log.doubts import Doubts


class Segment:
    """One file of the log. ``start`` is its first byte's physical offset; ``sealed``: nothing is appended any more."""

    __slots__ = ("_view", "end", "file", "resident_bytes", "sealed", "start")

    def __init__(self, start: int, size: int, file: File) -> None:
        self.start = start
        self.end = start + size
        self.file = file
        self.sealed = False
        self.resident_bytes = 0  # read through the view since it was last released
        self._view: memoryview | None = None

    def read(self, at: int, size: int) -> memoryview:
        """Up to ``size`` bytes from position ``at`` of the segment, fewer at its end. Raises OSError."""
        if not self.sealed:
            return self.view()[at : at + size]
        data = self.file.pread(at, size)
        if len(data) < size and at + len(data) < self.end - self.start:
            raise OSError(errno.EIO, "the file is shorter than a segment", self.file.path)
        return memoryview(data)

    def view(self) -> memoryview:
        """The whole segment, mapped on first use. A bad sector behind a mapping kills the process: see :meth:`read`."""
        if self._view is None:
            self._view = self.file.view()
        return self._view

    def drop_view(self) -> None:
        self._view = None
        self.resident_bytes = 0

    def close(self) -> None:
        """Gives descriptor and mapping back; the last of them frees a deleted file's blocks, which can take long."""
        self.drop_view()
        self.file.close()

    def note_read(self, size: int, resident_bytes_max: int) -> None:
        """Counts ``size`` bytes read; gives the mapped pages back when they add up."""
        self.resident_bytes += size
        if self.resident_bytes > resident_bytes_max and self._view is not None:
            self.file.release(self._view)
            self.resident_bytes = 0


class Guard(Protocol):
    """Compares what was read from the log with what was written to it."""

    def check(self, segment: Segment, data: memoryview, at: int) -> Doubts | None:
        """``data``: whole blocks from position ``at`` of the segment on. None: as written. Raises OSError."""
        ...
