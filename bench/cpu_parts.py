"""CpuParts: the CPU time of a load's parts, of which the smallest is the one that other work disturbed least."""

import time

PART_MESSAGES = 5_000


class CpuParts:
    """Takes the process's CPU time at the end of each part of PART_MESSAGES messages."""

    def __init__(self) -> None:
        self._ends_s: list[float] = []

    def end(self) -> None:
        """Ends a part. The first call begins the first one."""
        self._ends_s.append(time.process_time())

    @property
    def least_us(self) -> float:
        """The smallest CPU time a message of all parts, in us; 0 when no part came to its end."""
        pairs = zip(self._ends_s, self._ends_s[1:], strict=False)
        return min((end - begin for begin, end in pairs), default=0.0) / PART_MESSAGES * 1e6
