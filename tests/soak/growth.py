"""Growth of a process over a run: what it held soon after its caches were full, and what it held at the end."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

MIB = 1024 * 1024
HOUR_S = 3600.0
# The rings of the last hour fill in the first one.
FILLED_S = 1.02 * HOUR_S
FILLED_SHARE = 0.62  # of a run at most, so that something is left to compare
PART = 5  # of what is left the first and the last fifth are compared
# What may differ between the two: connections, tails and log-ins come and go.
RSS_MORE_MAX_BYTES = 4 * MIB
DESCRIPTORS_MORE_MAX = 12
TASKS_MORE_MAX = 24
OBJECTS_MORE_MAX = 0.02


class Held(NamedTuple):
    """What a process held at a moment of the run."""

    at_s: float
    rss_bytes: float
    descriptors: float
    tasks: float
    objects: float


class Growth(NamedTuple):
    """Medians of two parts of the run."""

    first: Held
    last: Held

    @classmethod
    def of(cls, samples: Sequence[Held]) -> Growth:
        """Compare two parts of a run; ``samples`` begin at second 0. Raises ValueError when there are too few."""
        end_s = samples[-1].at_s if samples else 0.0
        settled = [each for each in samples if each.at_s >= min(FILLED_S, FILLED_SHARE * end_s)]
        size = len(settled) // PART
        if not size:
            raise ValueError(f"{len(samples)} samples are too few: let it run for longer")
        return cls(_medians(settled[:size]), _medians(settled[-size:]))

    def faults(self) -> list[str]:
        """Return what grew, one line each."""
        first, last = self.first, self.last
        found = []
        if last.rss_bytes - first.rss_bytes > RSS_MORE_MAX_BYTES:
            found.append(f"memory grew from {first.rss_bytes / MIB:.1f} to {last.rss_bytes / MIB:.1f} MiB")
        if last.descriptors - first.descriptors > DESCRIPTORS_MORE_MAX:
            found.append(f"descriptors grew from {first.descriptors:g} to {last.descriptors:g}")
        if last.tasks - first.tasks > TASKS_MORE_MAX:
            found.append(f"tasks grew from {first.tasks:g} to {last.tasks:g}")
        if last.objects > first.objects * (1 + OBJECTS_MORE_MAX):
            found.append(f"objects grew from {first.objects:,.0f} to {last.objects:,.0f}")
        return found

    def lines(self) -> list[str]:
        """Return both parts, one line each."""
        return [
            f"after {each.at_s / 60:.0f} minutes: {each.rss_bytes / MIB:.1f} MiB, {each.descriptors:g} descriptors, "
            f"{each.tasks:g} tasks, {each.objects:,.0f} objects"
            for each in self
        ]


def _medians(samples: Sequence[Held]) -> Held:
    return Held(*(statistics.median(values) for values in zip(*samples, strict=True)))
