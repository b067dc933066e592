"""What every simulated cluster has, and how each run goes; the kinds of cluster are its users.

The harness is this folder: time, network, disks, processes, the clients that all kinds have, and this class. Three
rooms hold a kind of cluster each: ``master_slave`` a master with slaves, ``workers`` a machine of several brokers,
``raft`` groups that elect their leaders. A room has the kind's plan, faults, further clients, checks and seeded bugs.
``simulating.py`` runs a plan of any kind.

A run: all nodes start, clients work until messages are on the disks, then faults come, or a story. At the end all is
mended, the cluster comes to rest, and it is judged.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.simulation.broker_node import SimBroker
from tests.simulation.clients import ClientNode, Operator, World
from tests.simulation.history import History
from tests.simulation.machine import Machine
from tests.simulation.name_server import SimNameServer
from tests.simulation.network import SimNetwork
from tests.simulation.plan import Plan
from tests.simulation.remoting import run
from tests.simulation.timeline import SECOND, Timeline

if TYPE_CHECKING:
    from tests.simulation.faults import Faults

Story = Callable[[Any], Awaitable[None]]  # of the cluster


class RunIsOver(Exception):
    """The run ends before its time: the cluster did not come up, or an impatient run has a broken promise."""


class Cluster(ABC):
    """All nodes of one plan, on one timeline."""

    salt: int  # of the seed's random numbers
    name_server_net: str
    start_up_us: int  # within which it must come up
    look_us: int  # between two looks
    step_us: int  # between two questions whether it is at rest

    plan: Plan
    brokers: Sequence[SimBroker]
    operators: Sequence[Operator]
    writers: Sequence[ClientNode]  # the clients that stop first at the end
    readers: Sequence[ClientNode]  # the clients that go on until they have read all
    faults: Faults

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        self.plan = plan
        self.timeline = Timeline()
        self.history = History(trace=[] if tracing else None)
        self._chance = random.Random(plan.seed ^ self.salt)
        self.network = SimNetwork(self.timeline, self.fork())
        self.network.link = plan.link
        self.name_servers = [
            SimNameServer(
                f"namesrv{i}", f"{self.name_server_net}.{i + 1}", self.timeline, self.network, self.history
            )
            for i in range(plan.name_server_count)
        ]  # fmt: skip

    def fork(self) -> random.Random:
        """Return random numbers for one more part of the cluster."""
        return random.Random(self._chance.getrandbits(64))

    def names(self, broker_name: str) -> dict[str, str]:
        """Return the settings of a broker that tell its name, and where name servers are."""
        addresses = ";".join(server.address for server in self.name_servers)
        return {"brokerName": broker_name, "namesrvAddr": addresses}

    def world(self, history: History, broker_name: str) -> World:
        """Return what all clients of a broker name share."""
        addresses = [server.address for server in self.name_servers]
        return World(self.timeline, self.network, history, addresses, broker_name)

    # -- what a kind of cluster adds ------------------------------------------------------------------------------

    @contextmanager
    @abstractmethod
    def surroundings(self) -> Iterator[None]:
        """Replace parts of the product as this kind of cluster needs it, within this context."""

    @abstractmethod
    def start_clients(self) -> None: ...

    @abstractmethod
    def look(self) -> None:
        """Check, or note, what can be seen now."""

    @abstractmethod
    def is_well_since(self, since_us: int) -> bool:
        """Return whether all brokers serve, and sends that began after this time work."""

    @abstractmethod
    def has_converged(self) -> bool:
        """Return whether all brokers of a group have the same log, and have dispatched all of it."""

    @abstractmethod
    def judge(self) -> None:
        """Check the cluster at rest."""

    @abstractmethod
    def describe(self) -> str:
        """Return the state of each broker, to help find the cause of a violation."""

    def longest_wait_us(self) -> int | None:
        """Return the longest time without a send beside a majority that was well; None where no majority counts."""
        return None

    def let_faults_happen(self) -> None:
        """Pass the warm-up, and the plan's time with faults."""
        self.pass_time(self.plan.warm_up_us)
        self.faults.start()
        self.pass_time(self.plan.duration_us)
        self.faults.stop()

    def mend(self) -> None:
        """End all faults, and begin to restart what they ended."""
        self.faults.heal_all()

    def finish(self) -> None:
        """Wait for what the writers, which stop, have begun, and until the readers have it."""
        self.pass_time(5 * SECOND)

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self, story: Story | None = None) -> None:
        """Run the plan; ``story`` takes the place of its faults."""
        try:
            self._start_up()
            self.start_clients()
            if story is None:
                self.let_faults_happen()
            else:
                self._tell(story)
            self._come_to_rest()
            self.judge()
        except RunIsOver:
            return

    def _start_up(self) -> None:
        machines: list[Machine] = [*self.name_servers, *self.brokers]
        for machine in machines:
            machine.start()
        for operator in self.operators:
            operator.set_up()
        is_up = self.until(
            self.start_up_us, lambda: all(operator.is_set_up for operator in self.operators), "the cluster is not up"
        )
        if not is_up:
            raise RunIsOver

    def _tell(self, story: Story) -> None:
        self.pass_time(self.plan.warm_up_us)
        self.until(self.plan.duration_us, run(story(self)).is_over, "a story's end")

    def _come_to_rest(self) -> None:
        """Mend and start everything. The clients go on until all works, then stop."""
        plan = self.plan
        self.mend()
        since_us = self.timeline.now_us
        self.until(plan.quiet_us, lambda: self.is_well_since(since_us), "no send works again after the last fault")
        for client in self.writers:
            client.is_stopping = True
        self.finish()
        for client in self.readers:
            client.is_stopping = True
        self.pass_time(15 * SECOND)
        # Brokers write on their own, too: how transactions ended, say. A slave dispatches what came a moment later.
        self.until(plan.quiet_us, self.has_converged, "the brokers do not all have the same log at the end")

    def pass_time(self, duration_us: int) -> None:
        """Run for a time, and look now and then. Raises RunIsOver when a promise is broken and the plan impatient."""
        end_us = self.timeline.now_us + duration_us
        while self.timeline.now_us < end_us:
            if self.plan.is_impatient and self.history.violations:
                raise RunIsOver
            self.timeline.run_until(min(end_us, self.timeline.now_us + self.look_us))
            self.look()

    def until(self, limit_us: int, is_true: Callable[[], bool], what: str) -> bool:
        """Run until it is true. Return False and record a violation when that takes too long. Raises RunIsOver."""
        end_us = self.timeline.now_us + limit_us
        while self.timeline.now_us < end_us:
            if is_true():
                return True
            self.pass_time(self.step_us)
        self.history.violated(f"{what} within {limit_us // SECOND} s: {self.describe()}")
        return False

    def end(self) -> None:
        """Kill every process."""
        nodes: list[Machine | ClientNode] = [*self.brokers, *self.name_servers]
        for node in (*nodes, *self.writers, *self.readers):
            node.process.die()


def are_level(brokers: Sequence[SimBroker], *others: int) -> bool:
    """Return whether all brokers are open, and all logs end, and are dispatched, at one offset, which is ``others``."""
    ends = set(others)
    for broker in brokers:
        if broker.parts is None:
            return False
        ends |= {broker.parts.store.physical_max_offset, broker.parts.store.dispatched_end}
    return len(ends) == 1
