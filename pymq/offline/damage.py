"""The physical ranges of the log without a good record that a check finds, in ascending order."""

from __future__ import annotations

from bisect import bisect_right

from pymq.offline.log_walk import Damaged


class DamagedRanges:
    """Damaged ranges in log order. ``offset in ranges`` tells whether an offset lies in one of them."""

    def __init__(self) -> None:
        self.ranges: list[Damaged] = []
        self._starts: list[int] = []

    def add(self, one: Damaged) -> None:
        """Add a range after all others."""
        assert not self.ranges or self.ranges[-1].end <= one.start
        self.ranges.append(one)
        self._starts.append(one.start)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self.ranges[at].end

    @property
    def size_bytes(self) -> int:
        """The total size of all ranges."""
        return sum(one.end - one.start for one in self.ranges)
