"""Reads the units of one consume queue's files as numpy columns, many at once or single ones for a search."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pymq.offline.numbered_files import numbered_files
from pymq.store.disk.fs import File, Files


class UnitFiles:
    """Units ``begin`` to ``end`` (exclusive) of the newest files without a gap between them; ``end``: by their size.

    A queue ends with its first unit of size 0 or less, which :meth:`used_end` finds.
    """

    def __init__(self, files: Files, directory: str, kind: np.dtype[Any]) -> None:
        """Raise OSError."""
        self._files = files
        self._directory = directory
        self._kind = kind
        self._open: tuple[int, File] | None = None
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start in numbered_files(files, directory) if files.is_dir(directory) else []:
            size = self._file(start).size() // kind.itemsize
            first = start // kind.itemsize
            if self._ends and self._ends[-1] != first:
                self._starts, self._ends = [], []
            if size:
                self._starts.append(first)
                self._ends.append(first + size)

    @property
    def begin(self) -> int:
        return self._starts[0] if self._starts else 0

    @property
    def end(self) -> int:
        return self._ends[-1] if self._ends else 0

    def used_end(self) -> int:
        """Return the number behind the last unit that was written."""
        for first, last in zip(reversed(self._starts), reversed(self._ends), strict=True):
            if self.unit(first)["size"] > 0:
                return self.search(first, last, lambda _, unit: unit["size"] > 0)
        return self.begin

    def unit(self, number: int) -> Any:
        """Return one unit."""
        return self.read(number, number + 1)[0]

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Return the units [first, last), all of which must be in files."""
        parts = []
        while first < last:
            place = bisect_right(self._starts, first) - 1
            stop = min(last, self._ends[place])
            size = self._kind.itemsize
            at = (first - self._starts[place]) * size
            raw = self._file(self._starts[place] * size).pread(at, (stop - first) * size)
            parts.append(np.frombuffer(raw.ljust((stop - first) * size, b"\0"), self._kind))
            first = stop
        return parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, self._kind)])

    def search(self, first: int, last: int, belongs: Callable[[int, Any], bool]) -> int:
        """Return the first number in [first, last) whose unit ``belongs`` is false for, else ``last``.

        It is called with a number and its unit, and is true for the first units of the range only.
        """
        while first < last:
            middle = (first + last) // 2
            if belongs(middle, self.unit(middle)):
                first = middle + 1
            else:
                last = middle
        return first

    def close(self) -> None:
        """Close the file that was read last."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _file(self, start: int) -> File:
        if self._open is None or self._open[0] != start:
            self.close()
            self._open = start, self._files.open(f"{self._directory}/{start:020d}")
        return self._open[1]
