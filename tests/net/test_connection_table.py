"""ConnectionTable: the order in which connections are closed."""

from __future__ import annotations

from typing import Any

from pymq.clock import ManualClock
from pymq.net.connection_table import ConnectionTable


class Peer:
    """A connection that notes when it is closed."""

    def __init__(self, number: int, closed: list[int]) -> None:
        self.address, self.host = f"10.0.0.1:{number}", "10.0.0.1"
        self._number, self._closed = number, closed

    def close(self) -> None:
        self._closed.append(self._number)


def test_connections_close_from_the_oldest_to_the_newest() -> None:
    """A set would close them by their addresses in memory: another order in each run of a simulated seed."""
    table: ConnectionTable[Any] = ConnectionTable(None, ManualClock(), None, None)
    closed: list[int] = []
    peers = [Peer(number, closed) for number in range(50)]
    for peer in peers:
        table.connections[peer] = None
    table.forget(peers[7])
    table.close_connections()
    assert closed == [number for number in range(50) if number != 7]
