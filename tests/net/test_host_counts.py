"""A host's connections on all ports of a process together."""

from __future__ import annotations

import asyncio

from pymq.clock import ManualClock
from pymq.net.connection_table import ConnectionTable
from pymq.net.host_counts import HostCounts
from pymq.net.limits import ServerLimits
from pymq.net.memory_budget import MemoryBudget

DESCRIPTORS = 16  # a quarter is for files, and a host gets three quarters of the rest


class FakeConnection:
    def __init__(self, host: str) -> None:
        self.host, self.address = host, f"{host}:1"

    def held_bytes(self) -> int:
        return 0

    def abort(self, reason: str) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""


def test_a_host_gets_three_quarters_of_what_descriptors_allow() -> None:
    counts = HostCounts(lambda: DESCRIPTORS)
    assert counts.count_max == 9
    for _ in range(9):
        assert counts.has_room("a")
        counts.opened("a")
    assert not counts.has_room("a") and counts.has_room("b")
    counts.closed("a")
    assert counts.has_room("a") and counts["a"] == 8
    assert HostCounts(lambda: 1).count_max == 1


def test_ports_of_a_process_count_together() -> None:
    budget = MemoryBudget()
    budget.hosts = HostCounts(lambda: DESCRIPTORS)
    limits = ServerLimits(connection_count_per_host_max=6)
    transport = asyncio.Transport()
    ports = [ConnectionTable[FakeConnection](limits, ManualClock(), None, budget) for _ in range(2)]
    refused = {0: 0, 1: 0}
    for number, port in enumerate(ports):
        for _ in range(6):
            if port.admit(FakeConnection("a"), transport) is not None:
                refused[number] += 1
    assert refused == {0: 0, 1: 3}, "six here, and three of nine are left there"
    assert ports[1].admit(FakeConnection("b"), transport) is None
    for port in ports:
        for each in list(port.connections):
            port.forget(each)
    assert budget.hosts["a"] == budget.hosts["b"] == 0
