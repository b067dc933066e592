"""One or two Raft groups in one cluster: their brokers, their clients and operators, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.replication.tables.table_pieces import PieceSizes
from pymq.errors import PymqError
from pymq.wire.bodies_raft import ADD, RaftRequest
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.broker_node import simulated_parts
from tests.simulation.clients import QUEUE_COUNT, TOPIC, ClientNode, Operator, World, messages_of, topic_request
from tests.simulation.cluster import Cluster, are_level
from tests.simulation.history import ACKED
from tests.simulation.master_slave import lites, priorities
from tests.simulation.master_slave.lites import LiteStory, short_lives
from tests.simulation.master_slave.priorities import PriorityStory
from tests.simulation.raft.clients import ADMIN_PACE_US, Places, Probe, RaftConsumer, RaftProducer, TopicAdmin
from tests.simulation.raft.faults import RaftFaults
from tests.simulation.raft.ledger import Ledger
from tests.simulation.raft.liveness import LOOK_US, Liveness
from tests.simulation.raft.node import RaftBroker, group_settings, host_of, simulated_hosting
from tests.simulation.raft.plan import RaftPlan
from tests.simulation.remoting import run
from tests.simulation.timeline import SECOND


class GroupOperator(Operator):
    """Sets a group up, and changes its membership. It asks the leader that is one, not the one that a route names."""

    group: Group

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
                if self.group.lites is not None:
                    await self.client.invoke_ok(leader.address, topic_request(lites.PARENT, 1, lites.PARENT_ATTRIBUTES))
                    for request in lites.group_requests():
                        await self.client.invoke_ok(leader.address, request)
                if self.group.priorities is not None:
                    for request in priorities.set_up_requests():
                        await self.client.invoke_ok(leader.address, request)
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

    def __init__(self, cluster: RaftGroups, number: int) -> None:
        plan, self.name = cluster.plan, f"shard-{number}"
        self.history = cluster.history.of_a_group()
        timeline, network, fork = cluster.timeline, cluster.network, cluster.fork
        added = priorities.SETTINGS if plan.has_priorities else {}
        settings = {**plan.settings, **added, **cluster.names(self.name)}
        self.brokers = [
            RaftBroker(
                f"{self.name}-n{each}", host_of(number, each), 0,
                {**settings, **group_settings(self.name, number, plan.node_count, each)},
                timeline=timeline, network=network, rng=fork(), history=self.history,
            )
            for each in range(plan.node_count)
        ]  # fmt: skip
        self.ledger = Ledger(self.history, lambda: timeline.now_us, is_sync_flush=plan.is_sync_flush)
        for broker in self.brokers:
            broker.on_turn = self.ledger.look
        self.places = Places(self.history, self.ledger)
        world = cluster.world(self.history, self.name)
        host = f"10.{number}"
        self.producers = [
            RaftProducer(f"p{number}{i}", f"{host}.2.{i + 1}", fork(), world) for i in range(plan.producer_count)
        ]
        self.probe = Probe(f"probe{number}", f"{host}.8.1", fork(), world)
        self.probe.brokers = [broker.address for broker in self.brokers]
        for producer in (*self.producers, self.probe):
            producer.places, producer.on_answer = self.places, self.places.answered
        self.consumers = [
            RaftConsumer(f"c{number}{i}", f"{host}.3.{i + 1}", fork(), world) for i in range(plan.consumer_count)
        ]
        for consumer in self.consumers:
            consumer.on_seen, consumer.life_at = self.places.seen, self._life_at
        self.topic_admin = TopicAdmin(f"t{number}", f"{host}.4.2", fork(), world)
        self.operator = GroupOperator(f"o{number}", f"{host}.4.1", fork(), world)
        self.operator.group = self
        self.lites = self._make_lites(cluster, world, host) if plan.has_lites else None
        self.priorities = self._make_priorities(cluster, world, host) if plan.has_priorities else None
        self.stories = [story for story in (self.lites, self.priorities) if story is not None]
        self.liveness = Liveness(self.brokers, network, self.probe, self.history)

    def _make_lites(self, cluster: RaftGroups, world: World, net: str) -> LiteStory:
        story = LiteStory(cluster, world, self.brokers, self._leader_parts, rng=cluster.fork(), net=net)
        for client in story.clients:
            client.is_strict = False  # what was acknowledged last is confirmed a second later
        return story

    def _make_priorities(self, cluster: RaftGroups, world: World, net: str) -> PriorityStory:
        story = PriorityStory(cluster, world, self.brokers, self._leader_parts, rng=cluster.fork(), net=net)
        for client in story.clients:
            client.is_strict = False  # as above
        return story

    def _leader_parts(self) -> BrokerParts | None:
        leader = self.leader()
        return None if leader is None else leader.parts

    @property
    def writers(self) -> list[ClientNode]:
        producers = [*self.producers, *(story.producer for story in self.stories)]
        return [*producers, self.probe, self.topic_admin, self.operator]

    @property
    def readers(self) -> list[ClientNode]:
        return [*self.consumers, *(client for story in self.stories for client in story.clients)]

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
        for story in self.stories:
            story.producer.start(plan.pace_us, plan.size_max_bytes)
            story.start(plan)

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
        confirmed = [broker.node.confirm_offset for broker in self.brokers if broker.node is not None]
        return are_level(self.brokers, *confirmed)

    def look(self, now_us: int) -> None:
        """Check that sends succeed while the probe sends."""
        if self.probe.last_acked_us >= 0 and not self.probe.is_stopping:
            self.liveness.look(now_us)

    def judge(self) -> None:
        """Compare every broker's queues and tables with what clients were told."""
        for broker in self.brokers:
            if (parts := broker.parts) is None:
                continue
            stored = {queue_id: messages_of(parts, queue_id) for queue_id in range(QUEUE_COUNT)}
            for queue_id, found in stored.items():
                if len(found) != (count := parts.store.max_offset(TOPIC, queue_id)):
                    self.history.violated(f"{len(found)} of {count} messages in queue {queue_id} of {broker.name}")
            self.places.judge({queue_id: [message.body for message in found] for queue_id, found in stored.items()})
            self.topic_admin.judge(parts.metadata.topics.all())
            for consumer in self.consumers:
                if parts.role.is_master:
                    consumer.judge(parts.metadata.cursors.as_table()["offsetTable"])
        for story in self.stories:
            story.judge(lambda send: False)

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


class RaftGroups(Cluster):
    """All nodes of one plan, on one timeline."""

    salt = 0x3C6E_F372
    name_server_net = "10.9.1"
    start_up_us = 30 * SECOND
    look_us = LOOK_US
    step_us = SECOND

    plan: RaftPlan
    brokers: list[RaftBroker]
    faults: RaftFaults

    def __init__(self, plan: RaftPlan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        self.groups = [Group(self, number) for number in range(plan.group_count)]
        self.brokers = [broker for group in self.groups for broker in group.brokers]
        self.operators = [group.operator for group in self.groups]
        self.writers = [client for group in self.groups for client in group.writers]
        self.readers = [client for group in self.groups for client in group.readers]
        self.faults = RaftFaults(self, self.fork())

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Give simulated threads, jobs and ticks to brokers."""
        with ExitStack() as stack:
            for context in (simulated_parts(self.plan.tick_us, PieceSizes()), simulated_hosting(), short_lives()):
                stack.enter_context(context)
            for group in self.groups:
                if group.priorities is not None:
                    stack.enter_context(group.priorities.watch.watching())
            yield

    def start_clients(self) -> None:
        for group in self.groups:
            group.start_clients(self.plan)

    def look(self) -> None:
        for group in self.groups:
            group.look(self.timeline.now_us)

    def is_well_since(self, since_us: int) -> bool:
        for group in self.groups:
            group.add_back()
        return all(group.is_well_since(since_us) for group in self.groups)

    def finish(self) -> None:
        """Have all messages of lite topics, and all with priorities, popped and acknowledged."""
        super().finish()
        for group in self.groups:
            for story in group.stories:
                story.finish()

    def has_converged(self) -> bool:
        return all(group.has_converged() for group in self.groups)

    def judge(self) -> None:
        for group in self.groups:
            group.judge()

    def longest_wait_us(self) -> int:
        return max(group.liveness.longest_us for group in self.groups)

    def describe(self) -> str:
        return "; ".join(_state(broker) for broker in self.brokers)


def _state(broker: RaftBroker) -> str:
    node, raft = broker.node, broker.raft
    if node is None or raft is None:
        return f"{broker.name} {'begins' if broker.is_alive else 'is dead'} {broker.refused_start}"
    voters = sorted(replica.node_id for replica in node.membership.voters)
    return (
        f"{broker.name} {node.role.value} of term {node.term}, log to {node.log.end}, confirmed {node.confirm_offset}, "
        f"voters {voters}, serves: {broker.is_serving} {raft.problems()[-1:]}"
    )
