"""RejectedPeers: peers that a master rejected: refused join requests, and other programs at the HA port.

The status shows them beside the slaves while they keep coming, and for a minute after that.
"""

from __future__ import annotations

from pymq.clock import Clock
from pymq.model.hosts import host_of
from pymq.wire.bodies_replication import REFUSED, SlaveState

SHOWN_MS = 60_000
REJECTED_PEERS_MAX = 8  # the oldest one is dropped


class RejectedPeers:
    """Keeps them by id (-1 without one) and host."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[tuple[int, str], tuple[SlaveState, int]] = {}  # with the monotonic ms of the last time

    def note(self, broker_id: int, address: str, why: str) -> None:
        """Note a peer at ``address`` ("host:port") that was rejected because of ``why``."""
        self.forget(broker_id, address)
        if len(self._found) >= REJECTED_PEERS_MAX:
            del self._found[next(iter(self._found))]
        state = SlaveState(address=address, broker_id=broker_id, state=REFUSED, problem=why)
        self._found[_key(broker_id, address)] = (state, self._clock.monotonic_ms())

    def forget(self, broker_id: int, address: str) -> None:
        """Drop a peer that is a slave now."""
        self._found.pop(_key(broker_id, address), None)

    def states(self) -> list[SlaveState]:
        """Return the rejected peers of the last minute."""
        oldest_ms = self._clock.monotonic_ms() - SHOWN_MS
        self._found = {key: found for key, found in self._found.items() if found[1] > oldest_ms}
        return [state for state, _ in self._found.values()]


def _key(broker_id: int, address: str) -> tuple[int, str]:
    return (broker_id, host_of(address))
