"""Faults of Raft groups: those of all simulated clusters, and some that only a group has an answer to.

The fault model: kills, pauses and partitions of any number of nodes; a power loss of any number with SYNC_FLUSH. What
takes a disk's content (an emptied or lying disk; with ASYNC_FLUSH a power loss) comes to one node at a time, when all
others are voters that have everything confirmed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.wire.bodies_raft import REMOVE, TRANSFER
from tests.simulation.broker_node import SimBroker
from tests.simulation.faults import Faults
from tests.simulation.raft.node import RaftBroker
from tests.simulation.raft.plan import WEIGHTS
from tests.simulation.timeline import MS, SECOND

if TYPE_CHECKING:
    from tests.simulation.raft.cluster import Group, RaftGroups

RESTART_US = 3 * SECOND


class RaftFaults(Faults):
    """Applies faults to groups."""

    weights = WEIGHTS
    down_us = 10 * SECOND

    def __init__(self, cluster: RaftGroups, rng: random.Random) -> None:
        self._raft = cluster
        self.down: set[str] = set()  # brokers that a fault keeps down
        self._cut_short: set[str] = set()  # brokers whose logs a fault has cut short
        super().__init__(cluster, rng)

    def all_kinds(self) -> dict[str, Callable[[], bool]]:
        return super().all_kinds() | {
            "kill the leader": lambda: self._kill(self._leader()),
            "power loss of the leader": lambda: self._power(self._leader()),
            "power loss of all": self._power_of_all,
            "pause the leader": lambda: self._pause_node(self._leader(), 15 * SECOND),
            "flapping link": self._flap,
            "emptied disk": self._empty,
            "lying disk": self._lie,
            "transfer": self._transfer,
            "remove a member": self._remove,
            "isolate the leader": self._isolate,
        }

    def start(self) -> None:
        super().start()
        self._restart_failed()

    def _restart_failed(self) -> None:
        """Start, again and again, the brokers that gave up by themselves, as an init system does."""
        for broker in self._raft.brokers:
            if not broker.is_alive and broker.name not in self.down:
                broker.start()
        self._raft.timeline.after(RESTART_US, self._restart_failed)

    # -- targets ------------------------------------------------------------------------------------------------

    def _group(self) -> Group:
        return self._rng.choice(self._raft.groups)

    def _group_of(self, broker: SimBroker) -> Group:
        return next(group for group in self._raft.groups if broker in group.brokers)

    def _leader(self) -> RaftBroker | None:
        return self._group().leader()

    def _client_hosts(self) -> list[str]:
        return [node.process.host for group in self._raft.groups for node in (*group.producers, *group.consumers)]

    def _may_lose_disk(self, broker: SimBroker) -> bool:
        """Return whether all others of its group are voters that have everything confirmed."""
        group = self._group_of(broker)
        leader = group.leader()
        if leader is None or leader.node is None:
            return False
        voters = leader.node.membership.voters
        return len(voters) == len(group.brokers) and all(
            other.node is not None and other.node.replica in voters and group.ledger.has_all_confirmed(other)
            for other in group.brokers
            if other is not broker
        )

    # -- machines -----------------------------------------------------------------------------------------------

    def _kill(self, broker: SimBroker | None, kind: str = "kill") -> bool:
        if broker is not None:
            self.down.add(broker.name)
        return super()._kill(broker, kind)

    def _power(self, broker: SimBroker | None) -> bool:
        if broker is None or not (self._raft.plan.is_sync_flush or self._may_lose_disk(broker)):
            return False
        if not self._raft.plan.is_sync_flush:
            self._cut_short.add(broker.name)
        return super()._power(broker)

    def _power_of_all(self) -> bool:
        if not self._raft.plan.is_sync_flush:
            return False
        living = [broker for broker in self._group().brokers if broker.is_alive]
        for broker in living:
            self._kill(broker, "power")
        return bool(living)

    def _start(self, broker: SimBroker) -> None:
        self.down.discard(broker.name)
        super()._start(broker)

    # -- disks --------------------------------------------------------------------------------------------------

    def _empty(self) -> bool:
        broker = self._any_broker()
        if not isinstance(broker, RaftBroker) or broker.node is None or not self._may_lose_disk(broker):
            return False
        self.note(f"disk of {broker.name} is emptied")
        self._group_of(broker).ledger.emptied.add(broker.node.replica)
        self._lose(broker, broker.empty_disk)
        return True

    def _lie(self) -> bool:
        """Lose the machine's power, and bytes at the end of its log that its disk had called synced."""
        broker = self._any_broker()
        if not isinstance(broker, RaftBroker) or not self._may_lose_disk(broker):
            return False
        self.note(f"disk of {broker.name} has lied")
        self._cut_short.add(broker.name)
        self._lose(broker, lambda: broker.forget_log_end(self._rng))
        return True

    def _lose(self, broker: RaftBroker, harm: Callable[[], None]) -> None:
        """Take the power of a machine, harm its disk, and start it later."""
        self.down.add(broker.name)
        broker.lose_power()
        harm()
        self._later(5 * SECOND, lambda: self._start(broker))

    # -- network ------------------------------------------------------------------------------------------------

    def _disturbed(self) -> None:
        for group in self._raft.groups:
            group.liveness.disturbed_us = self._raft.timeline.now_us

    def _cut_connections(self) -> bool:
        self._disturbed()
        return super()._cut_connections()

    def _half_open(self) -> bool:
        self._disturbed()
        return super()._half_open()

    def _flap(self) -> bool:
        """Cut a link, one way or both, and mend it, again and again."""
        network, rng = self._raft.network, self._rng
        one, other = (broker.host for broker in rng.sample(self._group().brokers, 2))
        cuts = {(one, other)} | ({(other, one)} if rng.random() < 0.5 else set())
        self.note(f"links flap: {sorted(cuts)}")
        self._flap_on(cuts, 2 * rng.randrange(3, 15), rng.choice((100, 400, 1500)) * MS)
        network.cuts |= cuts
        return True

    def _flap_on(self, cuts: set[tuple[str, str]], left: int, pace_us: int) -> None:
        network = self._raft.network
        if not left or self.is_over:
            network.heal(cuts)
            return
        if left % 2:
            network.cuts |= cuts
        else:
            network.heal(cuts)
        delay_us = int(self._rng.expovariate(1) * pace_us)
        self._raft.timeline.after(delay_us, self._flap_on, cuts, left - 1, pace_us)

    def _isolate(self) -> bool:
        """Separate the leader from the others of its group, one way or both; clients still reach it."""
        group = self._group()
        leader = group.leader()
        if leader is None:
            return False
        out = {(leader.host, other.host) for other in group.brokers if other is not leader}
        back = {(b, a) for a, b in out}
        cuts = self._rng.choice((out, back, out | back))
        self.note(f"isolate {leader.name}: {sorted(cuts)}")
        self._cut(cuts, 15 * SECOND)
        return True

    # -- membership ---------------------------------------------------------------------------------------------

    def _transfer(self) -> bool:
        group = self._group()
        self.note(f"a transfer in {group.name}")
        return group.operator.ask(TRANSFER, self._rng.choice(group.brokers).node_id)

    def _remove(self) -> bool:
        """Remove a member, and add it again later."""
        group = self._group()
        leader = group.leader()
        if leader is None or leader.node is None or len(leader.node.membership.members) < len(group.brokers):
            return False
        lost = [one for one in group.brokers if one.name in self._cut_short and not group.ledger.has_all_confirmed(one)]
        if lost or group.ledger.emptied.intersection(leader.node.membership.replicas):
            return False  # with the disk that lost a part of its log a moment ago a second voter would be lost
        node_id = self._rng.choice(group.brokers).node_id
        self.note(f"{node_id} is removed from {group.name}")
        for delay_s in (6, 9, 12, 15):
            self._raft.timeline.after(int((delay_s + self._rng.random()) * SECOND), group.add_back)
        return group.operator.ask(REMOVE, node_id)
