"""Tables that go to slaves in small pieces, and connections that end between two pieces.

The operator changes topics, so that a slave begins a new copy. When it has some of the pieces, its connections to its
master break, or the master dies, and a slave may take over.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pymq.broker.assembly.slave_side import SlaveSide
from pymq.broker.replication.tables.table_pieces import PieceSizes
from tests.simulation.broker_node import SimBroker
from tests.simulation.master_slave.plan import MasterSlavePlan
from tests.simulation.timeline import MS, SECOND

if TYPE_CHECKING:
    from tests.simulation.master_slave.cluster import MasterSlave

SMALL_PIECES = PieceSizes(entries=2, offsets=2)  # a cluster has about ten topics and groups, and some offsets
LOOK_US = MS
LOOKS_MAX = 10_000
CUT = "cut between pieces"


def piece_sizes(plan: MasterSlavePlan) -> PieceSizes:
    """Return the sizes of pieces in the plan's cluster."""
    return SMALL_PIECES if plan.has_pieces else PieceSizes()


def next_entry(broker: SimBroker, table: str = "") -> int:
    """Return with which entry the next piece of a slave's copy begins; 0 for a broker that is not between two pieces.

    Of the table that is named, or of any.
    """
    parts = broker.parts
    if parts is None or not isinstance(parts.side, SlaveSide):
        return 0
    versions = parts.side.metadata_copy._versions.items()
    return max((int(version.partition("+")[2] or 0) for name, version in versions if table in ("", name)), default=0)


def is_between_pieces(broker: SimBroker, table: str = "") -> bool:
    """Return whether it is a slave that has some pieces of a copy, of any table or of the one that is named."""
    return next_entry(broker, table) > 0


class PieceCutter:
    """Waits for moments between two pieces, with random numbers of its own."""

    def __init__(self, cluster: MasterSlave, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng

    def start(self) -> None:
        """Plan the first change of topics."""
        self._cluster.timeline.after(self._cluster.plan.warm_up_us, self._plan_next)

    def _plan_next(self) -> None:
        gap_us = int(self._rng.expovariate(1) * max(self._cluster.plan.gap_us, 2 * SECOND))
        self._cluster.timeline.after(gap_us, self._begin)

    def _begin(self) -> None:
        if self._cluster.faults.is_over:
            return
        if not self._cluster.operator.change_topics():
            self._plan_next()
            return
        self._look(self._rng.randrange(4), LOOKS_MAX)

    def _look(self, passed_over: int, left: int) -> None:
        """Look until a slave is between two pieces. ``passed_over``: how many such moments still go by."""
        cluster = self._cluster
        between = [broker for broker in cluster.brokers if is_between_pieces(broker)]
        if between and not passed_over:
            self._cut(self._rng.choice(between))
        if not left or cluster.faults.is_over or (between and not passed_over):
            self._plan_next()
            return
        cluster.timeline.after(LOOK_US, lambda: self._look(passed_over - bool(between), left - 1))

    def _cut(self, slave: SimBroker) -> None:
        cluster = self._cluster
        cluster.history.faults[CUT] += 1
        master = cluster.master
        cluster.faults.note(f"{CUT} of {slave.name}")
        for stream in list(cluster.network.streams):
            if master is not None and {stream.local_host, stream.peer_host} == {slave.host, master.host}:
                stream.break_now("connection lost")
        if self._rng.random() < 0.5:
            cluster.faults.kill_master()
