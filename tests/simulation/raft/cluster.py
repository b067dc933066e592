"""Runs one seed with Raft groups: makes them, lets clients work under faults, brings them to rest, and judges them."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any, NamedTuple

import msgspec

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.replication.tables.table_pieces import PieceSizes
from pymq.errors import PymqError
from pymq.model.record import decode_records
from pymq.wire.bodies_raft import ADD, RaftRequest
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.broker_node import simulated_parts
from tests.simulation.clients import QUEUE_COUNT, TOPIC, ClientNode
from tests.simulation.cluster import logged_to, unheard, without_gc
from tests.simulation.history import ACKED, History
from tests.simulation.loop import own_running_loop
from tests.simulation.name_server import SimNameServer
from tests.simulation.network import SimNetwork
from tests.simulation.raft.clients import (
    ADMIN_PACE_US,
    Places,
    Probe,
    RaftConsumer,
    RaftProducer,
    TopicAdmin,
    topic_request,
)
from tests.simulation.raft.faults import RaftFaults
from tests.simulation.raft.ledger import Ledger
from tests.simulation.raft.liveness import LOOK_US, Liveness
from tests.simulation.raft.node import RaftBroker, group_settings, host_of, simulated_hosting
from tests.simulation.raft.plan import RaftPlan, drawn
from tests.simulation.remoting import run
from tests.simulation.timeline import SECOND, Timeline

START_UP_US = 30 * SECOND
RESTART_US = 3 * SECOND
READ_BYTES = 1 << 20


class RaftReport(NamedTuple):
    """The result of one seed. ``longest_wait_us``: the longest time without a send beside a majority that was well."""

    seed: int
    violations: list[str]
    faults: Counter[str]
    operations: Counter[str]
    longest_wait_us: int
    simulated_us: int
    event_count: int
    cpu_seconds: float
    trace: list[str]


class Operator(ClientNode):
    """Sets a group up, and changes its membership. It asks the leader that is one, not the one that a route names."""

    group: Group
    is_set_up = False

    def set_up(self) -> None:
        run(self._set_up())

    async def _set_up(self) -> None:
        while not self.is_set_up:
            await self.sleep(SECOND // 5)
            leader = self.group.leader()
            if leader is None:
                continue
            try:
                await self.client.invoke_ok(leader.address, topic_request(TOPIC, QUEUE_COUNT))
            except PymqError:
                continue
            self.is_set_up = True

    def ask(self, action: str, node_id: str) -> bool:
        """Ask the leader for a change; return whether there is one to ask."""
        leader = self.group.leader()
        if leader is None or leader.node is None:
            return False
        body = msgspec.json.encode(RaftRequest(action=action, node=node_id, term=leader.node.term))  # type: ignore[arg-type]
        run(self._ask(leader.address, Command(RequestCode.PYMQ_CHANGE_RAFT_GROUP, body=body, version=479), action))
        return True

    async def _ask(self, address: str, request: Command, action: str) -> None:
        try:
            await self.client.invoke_ok(address, request)
        except PymqError as error:
            self._history.note(f"{self.now_us / SECOND:.4f} operator: {action}: {error}")
            self._history.operations[f"{action} refused or without answer"] += 1
        else:
            self._history.operations[f"{action} accepted"] += 1


class Group:
    """One group: its brokers, its clients, and what is known of it."""

    def __init__(self, cluster: RaftCluster, number: int) -> None:
        plan, self.name = cluster.plan, f"shard-{number}"
        self.history = History(
            violations=cluster.violations, faults=cluster.faults_done, operations=cluster.operations,
            trace=cluster.trace,
        )  # fmt: skip
        timeline, network, fork = cluster.timeline, cluster.network, cluster.fork
        names = {"namesrvAddr": ";".join(server.address for server in cluster.name_servers)}
        self.brokers = [
            RaftBroker(
                f"{self.name}-n{each}", host_of(number, each), 0,
                {**plan.settings, **names, **group_settings(self.name, number, plan.node_count, each)},
                timeline=timeline, network=network, rng=fork(), history=self.history,
            )
            for each in range(plan.node_count)
        ]  # fmt: skip
        self.ledger = Ledger(self.history, lambda: timeline.now_us, is_sync_flush=plan.is_sync_flush)
        for broker in self.brokers:
            broker.on_turn = self.ledger.look
        self.places = Places(self.history, self.ledger)
        common: dict[str, Any] = {
            "timeline": timeline, "network": network, "history": self.history, "broker_name": self.name,
            "name_servers": [server.address for server in cluster.name_servers],
        }  # fmt: skip
        host = f"10.{number}"
        self.producers = [
            RaftProducer(f"p{number}{i}", f"{host}.2.{i + 1}", rng=fork(), **common) for i in range(plan.producer_count)
        ]
        self.probe = Probe(f"probe{number}", f"{host}.8.1", rng=fork(), **common)
        self.probe.brokers = [broker.address for broker in self.brokers]
        for producer in (*self.producers, self.probe):
            producer.places, producer.on_answer = self.places, self.places.answered
        self.consumers = [
            RaftConsumer(f"c{number}{i}", f"{host}.3.{i + 1}", rng=fork(), **common) for i in range(plan.consumer_count)
        ]
        for consumer in self.consumers:
            consumer.on_seen, consumer.life_at = self.places.seen, self._life_at
        self.topic_admin = TopicAdmin(f"t{number}", f"{host}.4.2", rng=fork(), **common)
        self.operator = Operator(f"o{number}", f"{host}.4.1", rng=fork(), **common)
        self.operator.group = self
        self.liveness = Liveness(self.brokers, network, self.probe, self.history)

    @property
    def clients(self) -> list[Any]:
        return [*self.producers, self.probe, *self.consumers, self.topic_admin, self.operator]

    def leader(self) -> RaftBroker | None:
        """Return the leader of the newest term."""
        leaders = [
            (node.term, i) for i, broker in enumerate(self.brokers) if (node := broker.node) and broker.is_leader
        ]
        return self.brokers[max(leaders)[1]] if leaders else None

    def _life_at(self, address: str) -> object:
        broker = next(broker for broker in self.brokers if broker.address == address)
        node = broker.node
        return (address, broker.start_count, node.term) if broker.is_leader and node is not None else None

    def start_clients(self, plan: RaftPlan) -> None:
        for producer in self.producers:
            producer.start(plan.pace_us, plan.size_max_bytes)
        self.probe.start_probing()
        for consumer in self.consumers:
            consumer.start(plan.pace_us)
        self.topic_admin.start(ADMIN_PACE_US)

    def is_well_since(self, since_us: int) -> bool:
        """Return whether all brokers serve as voters, one leads, and sends work."""
        leader = self.leader()
        if leader is None or leader.node is None or not all(broker.is_serving for broker in self.brokers):
            return False
        voters = leader.node.membership.voters
        are_in = all(broker.node is not None and broker.node.replica in voters for broker in self.brokers)
        recent = [send for send in self.places.acked[-20:] if send.invoked_us > since_us and send.outcome == ACKED]
        return are_in and len(recent) >= 3

    def has_converged(self) -> bool:
        """Return whether all brokers have the same log, confirmed and dispatched."""
        stores = [broker.parts.store for broker in self.brokers if broker.parts is not None]
        ends = {end for store in stores for end in (store.physical_max_offset, store.dispatched_end)}
        ends |= {broker.node.confirm_offset for broker in self.brokers if broker.node is not None}
        return len(stores) == len(self.brokers) and len(ends) == 1

    def judge(self) -> None:
        """Compare every broker's queues and tables with what clients were told."""
        for broker in self.brokers:
            if (parts := broker.parts) is None:
                continue
            self.places.judge({queue_id: _contents(parts, queue_id) for queue_id in range(QUEUE_COUNT)})
            self.topic_admin.judge(parts.metadata.topics.all())
            for consumer in self.consumers:
                if parts.role.is_master:
                    consumer.judge(parts.metadata.cursors.as_table()["offsetTable"])

    def add_back(self) -> None:
        """Make a removed node, if there is one, a member again: with an empty disk, as docs/raft.md says."""
        leader = self.leader()
        if leader is None or leader.node is None or leader.node.log.memberships[-1].end > leader.node.confirm_offset:
            return
        view = leader.node.log
        members = {replica.node_id for replica in view.membership.replicas}
        once = {replica for entry in view.memberships for replica in entry.membership.replicas}
        for broker in self.brokers:
            if broker.node_id in members or broker.node is None:
                continue
            if broker.node.replica in once:
                broker.lose_power()
                broker.empty_disk()
                broker.start()
            elif leader.node.leadership is not None and broker.node_id in leader.node.leadership.introduced:
                self.operator.ask(ADD, broker.node_id)
            return


class RaftCluster:
    """All nodes of one plan, on one timeline."""

    def __init__(self, plan: RaftPlan, *, tracing: bool = False) -> None:
        self.plan = plan
        self.trace: list[str] | None = [] if tracing else None
        self.violations: list[str] = []
        self.faults_done: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.timeline = Timeline()
        self._chance = random.Random(plan.seed ^ 0x3C6E_F372)
        self.network = SimNetwork(self.timeline, self.fork())
        self.network.link = plan.link
        history = self.history = History(
            violations=self.violations, faults=self.faults_done, operations=self.operations, trace=self.trace
        )
        self.name_servers = [
            SimNameServer(f"namesrv{i}", f"10.9.1.{i + 1}", self.timeline, self.network, history)
            for i in range(plan.name_server_count)
        ]
        self.groups = [Group(self, number) for number in range(plan.group_count)]
        self.faults = RaftFaults(self, self.fork())
        self._is_mending = True

    def fork(self) -> random.Random:
        return random.Random(self._chance.getrandbits(64))

    @property
    def brokers(self) -> list[RaftBroker]:
        return [broker for group in self.groups for broker in group.brokers]

    @property
    def clients(self) -> list[Any]:
        return [client for group in self.groups for client in group.clients]

    def run(self) -> None:
        plan = self.plan
        for server in self.name_servers:
            server.start()
        for broker in self.brokers:
            broker.start()
        for group in self.groups:
            group.operator.set_up()
        if not self._until(START_UP_US, lambda: all(group.operator.is_set_up for group in self.groups), "no group"):
            return
        for group in self.groups:
            group.start_clients(plan)
        self._pass(plan.warm_up_us)
        self.faults.start()
        self._restart_failed()
        self._pass(plan.duration_us)
        self.faults.stop()
        self._come_to_rest()
        for group in self.groups:
            group.judge()

    def _restart_failed(self) -> None:
        """Start, again and again, the brokers that gave up by themselves, as an init system does."""
        for broker in self.brokers:
            if not broker.is_alive and broker.name not in self.faults.down:
                broker.start()
        if self._is_mending:
            self.timeline.after(RESTART_US, self._restart_failed)

    def _come_to_rest(self) -> None:
        self.faults.heal_all()
        since_us = self.timeline.now_us
        self._until(self.plan.quiet_us, lambda: self._are_well_since(since_us), "the groups are not well again")
        for client in self.clients:
            if not isinstance(client, RaftConsumer):
                client.is_stopping = True
        self._pass(5 * SECOND)
        for group in self.groups:
            for consumer in group.consumers:
                consumer.is_stopping = True
        self._pass(15 * SECOND)
        self._until(self.plan.quiet_us, lambda: all(group.has_converged() for group in self.groups), "logs differ")
        self._is_mending = False

    def _are_well_since(self, since_us: int) -> bool:
        for group in self.groups:
            group.add_back()
        return all(group.is_well_since(since_us) for group in self.groups)

    def _pass(self, duration_us: int) -> None:
        end_us = self.timeline.now_us + duration_us
        while self.timeline.now_us < end_us and not (self.plan.is_impatient and self.violations):
            self.timeline.run_until(min(end_us, self.timeline.now_us + LOOK_US))
            for group in self.groups:
                if group.probe.last_acked_us >= 0 and not group.probe.is_stopping:
                    group.liveness.look(self.timeline.now_us)

    def _until(self, limit_us: int, is_true: Any, what: str) -> bool:
        end_us = self.timeline.now_us + limit_us
        while self.timeline.now_us < end_us:
            if self.plan.is_impatient and self.violations:
                return False
            if is_true():
                return True
            self._pass(SECOND)
        self.history.violated(f"{what} within {limit_us // SECOND} s: {self.describe()}")
        return False

    def describe(self) -> str:
        """Return the state of each broker, to help find the cause of a violation."""
        return "; ".join(_state(broker) for broker in self.brokers)

    def end(self) -> None:
        """Kill every process."""
        for node in (*self.brokers, *self.name_servers, *self.clients):
            node.process.die()


def _state(broker: RaftBroker) -> str:
    node, raft = broker.node, broker.raft
    if node is None or raft is None:
        return f"{broker.name} {'begins' if broker.is_alive else 'is dead'} {broker.refused_start}"
    voters = sorted(replica.node_id for replica in node.membership.voters)
    return (
        f"{broker.name} {node.role.value} of term {node.term}, log to {node.log.end}, confirmed {node.confirm_offset}, "
        f"voters {voters}, serves: {broker.is_serving} {raft.problems()[-1:]}"
    )


def _contents(parts: BrokerParts, queue_id: int) -> list[bytes]:
    """Return all messages of one queue."""
    store, found = parts.store, list[bytes]()
    view = store.queue_view(TOPIC, queue_id)
    while view is not None and len(found) < view.max_offset:
        result = store.get(TOPIC, queue_id, len(found), 1000, READ_BYTES)
        messages = decode_records(b"".join(result.chunks))
        assert messages, f"no message at {len(found)} of queue {queue_id}"
        found += [message.body for message in messages]
    return found


def simulate_raft(seed: int, *, tracing: bool = False, plan: RaftPlan | None = None) -> RaftReport:
    """Run one seed. An error that escapes is a violation too."""
    started = time.process_time()
    cluster = RaftCluster(plan or drawn(seed), tracing=tracing)
    timeline, history = cluster.timeline, cluster.history
    with without_gc():
        with (
            logged_to(history),
            own_running_loop(),
            simulated_parts(cluster.plan.tick_us, PieceSizes()),
            simulated_hosting(),
        ):
            try:
                cluster.run()
            except Exception as error:
                if tracing:
                    raise
                history.violated(f"{type(error).__name__}: {error}")
        longest_us = max(group.liveness.longest_us for group in cluster.groups)
        with unheard():
            cluster.end()
            del cluster
    return RaftReport(
        seed, history.violations, history.faults, history.operations, longest_us, timeline.now_us,
        timeline.event_count, time.process_time() - started, history.trace or [],
    )  # fmt: skip
