"""Which 64-bit hashes came before: 8 bytes for each in sorted arrays, of which equally long ones are merged."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]


class Occurrences:
    """Counts how often each hash came."""

    def __init__(self) -> None:
        self._runs: list[Hashes] = []
        self._counts: dict[int, int] = {}  # of hashes that came more than once

    def numbers(self, hashes: Hashes) -> dict[int, int]:
        """Take the next hashes. Returns place -> how often that hash came before, without hashes that are new."""
        unique, counts = np.unique(hashes, return_counts=True)
        again = np.union1d(unique[counts > 1], unique[self._came(unique)])
        numbers: dict[int, int] = {}
        if len(again):
            came = dict(zip(again.tolist(), self._came(again).tolist(), strict=True))
            for row in np.flatnonzero(np.isin(hashes, again)).tolist():
                value = int(hashes[row])
                before = self._counts.get(value, int(came[value]))
                if before:
                    numbers[row] = before
                self._counts[value] = before + 1
        self._add(unique)
        return numbers

    def _came(self, values: Hashes) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(values), np.bool_)
        for run in self._runs:
            at = np.searchsorted(run, values)
            found |= run[np.minimum(at, len(run) - 1)] == values
        return found

    def _add(self, values: Hashes) -> None:
        if not len(values):
            return
        self._runs.append(values)
        while len(self._runs) > 1 and len(self._runs[-1]) * 2 > len(self._runs[-2]):
            last = self._runs.pop()
            self._runs[-1] = np.union1d(self._runs[-1], last)
