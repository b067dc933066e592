"""Sums over many seeds with Raft groups: what was really done, and how long sends waited beside a well majority."""

from __future__ import annotations

from collections import Counter

from tests.simulation.raft.cluster import RaftReport


class RaftTally:
    """Sums up reports: add them, then print it."""

    def __init__(self) -> None:
        self.seed_count = self.simulated_us = self.event_count = self.longest_wait_us = 0
        self.cpu_seconds = 0.0
        self.faults: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()

    def add(self, report: RaftReport) -> None:
        self.seed_count += 1
        self.faults += report.faults
        self.operations += report.operations
        self.simulated_us += report.simulated_us
        self.event_count += report.event_count
        self.cpu_seconds += report.cpu_seconds
        self.longest_wait_us = max(self.longest_wait_us, report.longest_wait_us)

    @property
    def fault_count(self) -> int:
        return self.faults.total()

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in self.faults.most_common())
        operations = ", ".join(f"{count:,} {kind}" for kind, count in self.operations.most_common())
        return (
            f"{self.seed_count} seeds with Raft groups, {self.event_count:,} events in {self.cpu_seconds:.1f} s of "
            f"processor time, {self.simulated_us / 3.6e9:.2f} h simulated\n"
            f"faults: {self.fault_count}: {faults}\n"
            f"operations: {operations}\n"
            f"longest time without a send beside a majority that is well: {self.longest_wait_us / 1e6:.2f} s"
        )
