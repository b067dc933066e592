"""A machine of workers behind name servers, with clients that spread over all of them.

For the checks each worker is a master without slaves: it has a history, a watcher and a verdict of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pymq.broker.replication.tables.table_pieces import PieceSizes
from pymq.config import load_broker_config
from pymq.store.disk.workers_file import planned_layout
from pymq.workers.settings import worker_settings
from tests.simulation.broker_node import ROOT, SMALL, SimBroker, simulated_parts
from tests.simulation.clients import Consumer, World
from tests.simulation.cluster import Cluster, are_level
from tests.simulation.history import ACKED, History, Seen, Send
from tests.simulation.master_slave.checking import Verdict, Watcher
from tests.simulation.master_slave.following import Followings
from tests.simulation.timeline import SECOND
from tests.simulation.workers.clients import Probe, SpreadProducer, WorkersOperator
from tests.simulation.workers.faults import WorkersFaults
from tests.simulation.workers.liveness import LOOK_US, Liveness
from tests.simulation.workers.machine import WorkerNode, WorkersMachine
from tests.simulation.workers.plan import WorkersPlan

MACHINE = "broker-a"
HOST = "10.0.0.1"
MEMORY_BYTES = 8 << 30


class WorkerGroup:
    """What is known of one worker."""

    def __init__(self, cluster: Workers, node: WorkerNode, history: History) -> None:
        self.plan = cluster.plan
        self.node = node
        self.brokers: list[SimBroker] = [node]
        self.history = history
        self.followings = Followings(self.brokers, cluster.network)
        self.watcher = Watcher(self)

    def broker_at(self, address: str) -> SimBroker:
        assert address == self.node.address
        return self.node

    def is_well_since(self, since_us: int) -> bool:
        """Return whether it serves, and sends to it that began after this time work."""
        sends = self.history.sends[-20:]
        recent = [send for send in sends if send.invoked_us > since_us and send.outcome == ACKED]
        return self.node.is_serving and len(recent) >= 3


class Workers(Cluster):
    """All nodes of one plan, on one timeline."""

    salt = 0x1B87_3593
    name_server_net = "10.0.1"
    start_up_us = 30 * SECOND
    look_us = LOOK_US
    step_us = SECOND

    plan: WorkersPlan
    brokers: list[WorkerNode]
    faults: WorkersFaults

    def __init__(self, plan: WorkersPlan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        self.history.operations["seeds with a machine of workers"] += 1
        layout = planned_layout(None, MACHINE, plan.worker_count)
        own = {**SMALL, **plan.settings, **self.names(MACHINE)}
        config = load_broker_config(None, {key: str(value) for key, value in own.items()})
        self.brokers = []
        self.groups: dict[str, WorkerGroup] = {}  # by a worker's address
        for worker in layout.active:
            history = self.history.of_a_group()
            settings = worker_settings(config, layout, worker, ROOT, MEMORY_BYTES, plan.worker_count)
            settings["storePathRootDir"] = ROOT  # of a disk of its own, which is its folder on the machine's disk
            node = WorkerNode(
                worker.name, HOST, 0, own | settings, port=int(settings["listenPort"]),
                timeline=self.timeline, network=self.network, rng=self.fork(), history=history,
            )  # fmt: skip
            self.brokers.append(node)
            self.groups[node.address] = WorkerGroup(self, node, history)
        self.machine = WorkersMachine(layout, self.brokers, self.timeline, self.network, self.history)
        self._make_clients(plan)
        self.liveness = Liveness(self)
        self.faults = WorkersFaults(self, self.fork())

    def _make_clients(self, plan: WorkersPlan) -> None:
        world = self.world(self.history, MACHINE)
        self.producers = [
            SpreadProducer(f"p{i}", f"10.0.2.{i + 1}", self.fork(), world) for i in range(plan.producer_count)
        ]
        self.probes: dict[str, Probe] = {}
        self.consumers: list[Consumer] = []
        for i, group in enumerate(self.groups.values()):
            own: World = self.world(group.history, group.node.name)
            probe = self.probes[group.node.name] = Probe(f"probe{i}", f"10.0.8.{i + 1}", self.fork(), own)
            probe.address = group.node.address
            consumer = Consumer("c0", f"10.0.3.{i + 1}", self.fork(), own)
            consumer.on_seen, consumer.epoch_at = self._seen, self._epoch_at
            consumer.is_master_at, consumer.life_at = self._is_master_at, self._life_at
            self.consumers.append(consumer)
        for producer in (*self.producers, *self.probes.values()):
            producer.on_answer, producer.epoch_at = self._answered, self._epoch_at
        for producer in self.producers:
            producer.histories = {address: group.history for address, group in self.groups.items()}
        self.operator = WorkersOperator("operator", "10.0.4.1", self.fork(), world)
        self.operator.addresses = list(self.groups)
        self.operators = [self.operator]
        self.writers = [*self.producers, *self.probes.values()]
        self.readers = [*self.consumers, self.operator]

    # -- what the clients are asked to note -----------------------------------------------------------------------

    def _answered(self, send: Send) -> None:
        self.groups[send.address].watcher.answered(send)

    def _seen(self, seen: Seen) -> None:
        self.groups[seen.address].watcher.seen(seen)

    def _epoch_at(self, address: str) -> tuple[int, str]:
        return self.groups[address].node.entry

    def _is_master_at(self, address: str) -> bool:
        return self.groups[address].node.is_master

    def _life_at(self, address: str) -> object:
        node = self.groups[address].node
        return (address, node.start_count, node.entry) if node.is_master else None

    def note_death(self, node: SimBroker, kind: str) -> None:
        """Record that a worker is about to end, by "kill", "stop" or "power"."""
        group = self.groups[node.address]
        epoch_id = node.entry[1] if kind == "power" and node.is_master else ""
        group.history.incident(self.timeline.now_us, kind, node.name, epoch_id)
        if kind == "power":
            group.watcher.disturb(self.timeline.now_us)

    # -- the run --------------------------------------------------------------------------------------------------

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Give simulated threads and jobs to brokers."""
        with simulated_parts(self.plan.tick_us, PieceSizes()):
            yield

    def start_clients(self) -> None:
        for producer in self.producers:
            producer.start(self.plan.pace_us, self.plan.size_max_bytes)
        for probe in self.probes.values():
            probe.start_probing()
        for consumer in self.consumers:
            consumer.start(self.plan.pace_us)

    def look(self) -> None:
        self.liveness.look()

    def is_well_since(self, since_us: int) -> bool:
        return all(group.is_well_since(since_us) for group in self.groups.values())

    def has_converged(self) -> bool:
        return all(are_level([node]) for node in self.brokers)

    def judge(self) -> None:
        """Check each worker at rest: all that clients were told by it, and nothing that went to another one."""
        for group in self.groups.values():
            Verdict(group).look()

    def end(self) -> None:
        super().end()
        self.machine.process.die()

    def describe(self) -> str:
        machine = f"{self.machine.name} is {'up' if self.machine.is_alive else 'down'}"
        return "; ".join((machine, *(f"{node.name} {_state(node)}" for node in self.brokers)))


def _state(node: WorkerNode) -> str:
    return "serves" if node.is_serving else "starts" if node.is_alive else f"is down {node.refused_start}"
