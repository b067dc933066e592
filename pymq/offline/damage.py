"""Physical ranges of the log without a good record, as a check finds them, in ascending order."""

from __future__ import annotations

from bisect import bisect_right

from pymq.offline.log_walk import Damaged


class DamagedRanges:
    """Ranges in the order of the log; tells whether an offset lies in one."""

    def __init__(self) -> None:
        self.ranges: list[Damaged] = []
        self._starts: list[int] = []

    def add(self, one: Damaged) -> None:
        """One more range, behind all others."""
        assert not self.ranges or self.ranges[-1].end <= one.start
        self.ranges.append(one)
        self._starts.append(one.start)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self.ranges[at].end

    @property
    def size_bytes(self) -> int:
        """All ranges together."""
        return sum(one.end - one.start for one in self.ranges)
