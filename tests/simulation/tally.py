"""Sums over many seeds: what was really done and how fast."""

from __future__ import annotations

from collections import Counter

from tests.simulation.cluster import Report


class Tally:
    """Sums up reports: add them, then print it."""

    def __init__(self) -> None:
        self.seed_count = 0
        self.faults: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.lies: Counter[str] = Counter()
        self.liar_seed_count = 0
        self.simulated_us = 0
        self.event_count = 0
        self.cpu_seconds = 0.0

    def add(self, report: Report) -> None:
        self.seed_count += 1
        self.faults += report.faults
        self.operations += report.operations
        self.lies += report.lies
        self.liar_seed_count += bool(report.lies)
        self.simulated_us += report.simulated_us
        self.event_count += report.event_count
        self.cpu_seconds += report.cpu_seconds

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())

    def __str__(self) -> str:
        simulated_s, cpu_s = self.simulated_us / 1e6, max(self.cpu_seconds, 1e-9)
        faults = ", ".join(f"{count} {kind}" for kind, count in self.faults.most_common())
        operations = ", ".join(f"{count:,} {kind}" for kind, count in self.operations.most_common())
        lies = ", ".join(f"{count:,} {kind}" for kind, count in self.lies.most_common())
        return (
            f"{self.seed_count} seeds, {self.event_count:,} events in {cpu_s:.1f} s of processor time\n"
            f"simulated: {simulated_s / 3600:.2f} h, {simulated_s / 60 / cpu_s:.2f} h a minute, "
            f"{simulated_s / cpu_s:,.0f} times real time\n"
            f"faults: {self.fault_count}, {self.fault_count / cpu_s * 60:,.0f} a minute: {faults}\n"
            f"operations: {operations}\n"
            f"lies: {self.lies.total():,} in {self.liar_seed_count} seeds: {lies or 'none'}"
        )
