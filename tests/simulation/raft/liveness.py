"""Liveness: with a majority up and connected, sends succeed within 5 simulated seconds."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from pymq.raft.state import Membership
from tests.simulation.history import History
from tests.simulation.raft.clients import Probe
from tests.simulation.raft.node import RaftBroker
from tests.simulation.timeline import MS, SECOND

if TYPE_CHECKING:
    from tests.simulation.network import SimNetwork

WAIT_US_MAX = 5 * SECOND
LOOK_US = 250 * MS
SYNC_DELAY_US_MAX = 30 * MS


_Running = frozenset[tuple[str, int]]  # names of brokers, each with the number of its start


class Liveness:
    """Knows since when each majority of one group is well, and how long sends failed meanwhile.

    A link that was cut and mended, or a broker that was killed and started, between two looks begins a new time.
    """

    def __init__(self, brokers: list[RaftBroker], network: SimNetwork, probe: Probe, history: History) -> None:
        self._brokers = brokers
        self._network = network
        self._probe = probe
        self._history = history
        self._since_us: dict[_Running, int] = {}
        self.disturbed_us = 0  # when connections were last broken
        self.longest_us = 0

    def look(self, now_us: int) -> None:
        """Note what is well now. Records a violation when sends failed for too long beside a majority that is well."""
        before, self._since_us = self._since_us, {}
        for group in self._majorities():
            running = frozenset((broker.name, broker.start_count) for broker in group)
            self._since_us[running] = max(before.get(running, now_us), self._healed_us(group))
        if not self._since_us:
            return
        since_us = max(min(self._since_us.values()), self._probe.last_acked_us, self.disturbed_us)
        self.longest_us = max(self.longest_us, now_us - since_us)
        if now_us - since_us > WAIT_US_MAX:
            names = [sorted(name for name, _ in running) for running in self._since_us]
            self._history.violated(f"no send for {(now_us - since_us) / SECOND:.1f} s while {names} are well, "
                                   f"until {now_us / SECOND:.2f} s")  # fmt: skip
            self._probe.last_acked_us = now_us

    def _majorities(self) -> list[tuple[RaftBroker, ...]]:
        good = [broker for broker in self._brokers if self._is_good(broker)]
        memberships = {node.membership for broker in good if (node := broker.node) is not None}
        if not memberships or Membership() in memberships:
            return []
        count = max(membership.majority_count for membership in memberships)
        voters = [b for b in good if all(b.node is not None and b.node.replica in m.voters for m in memberships)]
        return [group for group in combinations(voters, count) if self._are_connected(group)]

    def _is_good(self, broker: RaftBroker) -> bool:
        disk = broker.disk
        is_disk_good = not (disk.is_full or disk.failing_sync_count or disk.sync_delay_us > SYNC_DELAY_US_MAX)
        return broker.is_alive and not broker.process.is_paused and is_disk_good and not broker.is_broken

    def _are_connected(self, group: tuple[RaftBroker, ...]) -> bool:
        return not self._network.is_disturbed(*_links(group))

    def _healed_us(self, group: tuple[RaftBroker, ...]) -> int:
        """Return when the last cut between these brokers ended."""
        return max(self._network.healed_us.get(pair, 0) for pair in _links(group))


def _links(group: tuple[RaftBroker, ...]) -> list[tuple[str, str]]:
    return [(a.host, b.host) for a in group for b in group if a is not b]
