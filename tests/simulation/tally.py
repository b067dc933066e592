"""Sums over many seeds: what was really done and how fast."""

from __future__ import annotations

from collections import Counter

from tests.simulation.simulating import Report


class Tally:
    """Sums up reports of one kind of cluster: add them, then print it."""

    def __init__(self) -> None:
        self.seed_count = 0
        self.faults: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.lies: Counter[str] = Counter()
        self.liar_seed_count = 0
        self.longest_wait_us: int | None = None  # None unless reports of Raft groups were added
        self.simulated_us = 0
        self.event_count = 0
        self.cpu_seconds = 0.0

    def add(self, report: Report) -> None:
        self.seed_count += 1
        self.faults += report.faults
        self.operations += report.operations
        self.lies += report.lies
        self.liar_seed_count += bool(report.lies)
        if report.longest_wait_us is not None:
            self.longest_wait_us = max(self.longest_wait_us or 0, report.longest_wait_us)
        self.simulated_us += report.simulated_us
        self.event_count += report.event_count
        self.cpu_seconds += report.cpu_seconds

    @property
    def fault_count(self) -> int:
        return self.faults.total()

    def __str__(self) -> str:
        simulated_s, cpu_s = self.simulated_us / 1e6, max(self.cpu_seconds, 1e-9)
        faults = ", ".join(f"{count} {kind}" for kind, count in self.faults.most_common())
        done = f"{self.event_count:,} events in {cpu_s:.1f} s of processor time"
        if self.longest_wait_us is not None:
            return (
                f"{self.seed_count} seeds with Raft groups, {done}, {simulated_s / 3600:.2f} h simulated\n"
                f"faults: {self.fault_count}: {faults}\n"
                f"operations: {_listed(self.operations)}\n"
                f"longest time without a send beside a majority that is well: {self.longest_wait_us / 1e6:.2f} s"
            )
        return (
            f"{self.seed_count} seeds, {done}\n"
            f"simulated: {simulated_s / 3600:.2f} h, {simulated_s / 60 / cpu_s:.2f} h a minute, "
            f"{simulated_s / cpu_s:,.0f} times real time\n"
            f"faults: {self.fault_count}, {self.fault_count / cpu_s * 60:,.0f} a minute: {faults}\n"
            f"operations: {_listed(self.operations)}\n"
            f"lies: {self.lies.total():,} in {self.liar_seed_count} seeds: {_listed(self.lies) or 'none'}"
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
