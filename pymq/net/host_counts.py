"""HostCounts: the open connections of all ports of a process by host, so that no host takes the descriptors of others.

Each port has its own limits as well. Here the ports count together: three of them would else give one host all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pymq.net.descriptors import descriptor_limit, reserved_count

# One host gets at most three quarters of the connections that descriptors allow, on all ports together.
HOST_SHARE = (3, 4)


class HostCounts:
    """Counts what is open. Belongs to the process's memory budget."""

    def __init__(self, descriptors: Callable[[], int] = descriptor_limit) -> None:
        """``descriptors`` returns how many the process may have."""
        self._counts: Counter[str] = Counter()
        self._descriptors = descriptors

    def __getitem__(self, host: str) -> int:
        return self._counts[host]

    @property
    def count_max(self) -> int:
        """How many connections a host may have."""
        limit = self._descriptors()
        part, whole = HOST_SHARE
        return max(1, (limit - reserved_count(limit)) * part // whole)

    def has_room(self, host: str) -> bool:
        """Return whether a host may open one more."""
        return self._counts[host] < self.count_max

    def opened(self, host: str) -> None:
        """Count a connection."""
        self._counts[host] += 1

    def closed(self, host: str) -> None:
        """Count a connection no more."""
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]
