"""What a seed decides for every kind of cluster. Each kind adds fields of its own, and draws all of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.simulation.network import Link
from tests.simulation.timeline import MS, SECOND


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything drawn before the first event."""

    seed: int
    name_server_count: int
    producer_count: int
    consumer_count: int
    settings: dict[str, Any]
    is_sync_flush: bool
    link: Link
    pace_us: int
    size_max_bytes: int
    duration_us: int
    gap_us: int  # between faults, on average
    kinds: tuple[str, ...]  # of faults
    quiet_us: int  # the cluster must come to rest within this time at the end
    tick_us: int = 100 * MS
    is_impatient: bool = False  # the run ends with the first broken promise

    @property
    def warm_up_us(self) -> int:
        """The time until there are messages on the disks."""
        return 2 * SECOND


def drawn_link(chance: random.Random) -> Link:
    """Return how fast the network is when no fault slows it."""
    return Link(chance.choice((100, 500, 5000)), chance.choice((100, 1000, 20_000)), chance.choice((0.0, 0.1, 0.5)))
