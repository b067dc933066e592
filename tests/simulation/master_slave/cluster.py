"""A master and its slaves, with clients that send and read, an operator, and maybe a liar."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.replication.history import epoch_history
from tests.simulation.broker_node import SimBroker, simulated_parts
from tests.simulation.clients import QUEUE_COUNT, TOPIC, Consumer, Producer, World
from tests.simulation.cluster import Cluster, are_level
from tests.simulation.history import ACKED
from tests.simulation.master_slave import batches, timers
from tests.simulation.master_slave.batches import BatchProducer, BatchReader
from tests.simulation.master_slave.beliefs import Beliefs
from tests.simulation.master_slave.checking import Verdict, Watcher
from tests.simulation.master_slave.dealing import SETTINGS as DEAL_SETTINGS
from tests.simulation.master_slave.dealing import Book, Dealer
from tests.simulation.master_slave.faults import MasterSlaveFaults
from tests.simulation.master_slave.following import Followings
from tests.simulation.master_slave.liar import Liar
from tests.simulation.master_slave.lites import LiteStory, short_lives
from tests.simulation.master_slave.operating import MasterSlaveOperator
from tests.simulation.master_slave.pieces import PieceCutter, piece_sizes
from tests.simulation.master_slave.plan import MasterSlavePlan
from tests.simulation.master_slave.pops import GROUP as POPS_GROUP
from tests.simulation.master_slave.pops import Popper
from tests.simulation.master_slave.priorities import SETTINGS as PRIORITY_SETTINGS
from tests.simulation.master_slave.priorities import PriorityStory
from tests.simulation.master_slave.timers import SETTINGS as TIMER_SETTINGS
from tests.simulation.master_slave.timers import TimerProducer
from tests.simulation.timeline import MS, SECOND

BROKER_NAME = "broker-a"
LOOK_US = 2 * SECOND
LIES_MAX = 1500  # in one seed, about


class MasterSlave(Cluster):
    """All nodes of one plan, on one timeline."""

    salt = 0x51ED_270B
    name_server_net = "10.0.1"
    start_up_us = 20 * SECOND
    look_us = step_us = LOOK_US

    plan: MasterSlavePlan
    brokers: list[SimBroker]
    faults: MasterSlaveFaults
    batch_producers: list[BatchProducer]
    batch_readers: list[BatchReader]
    poppers: list[Popper]

    def __init__(self, plan: MasterSlavePlan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        self.broker_name = BROKER_NAME
        deal_settings = DEAL_SETTINGS if plan.dealer_count else {}
        timer_settings = TIMER_SETTINGS if plan.has_timers else {}
        priority_settings = PRIORITY_SETTINGS if plan.has_priorities else {}
        added = {**deal_settings, **timer_settings, **priority_settings}
        settings = {**plan.settings, **added, **self.names(BROKER_NAME)}
        self.brokers = [
            SimBroker(
                f"broker{i}", f"10.0.0.{i + 1}", i, settings,
                timeline=self.timeline, network=self.network, rng=self.fork(), history=self.history,
                has_proofs=plan.has_proofs,
            )
            for i in range(plan.slave_count + 1)
        ]  # fmt: skip
        self.watcher = Watcher(self)
        self.followings = Followings(self.brokers, self.network)
        world = self.world(self.history, BROKER_NAME)
        self.producers = [Producer(f"p{i}", f"10.0.2.{i + 1}", self.fork(), world) for i in range(plan.producer_count)]
        self.consumers = [Consumer(f"c{i}", f"10.0.3.{i + 1}", self.fork(), world) for i in range(plan.consumer_count)]
        self.operator = MasterSlaveOperator("operator", "10.0.4.1", self.fork(), world, self)
        self.operators = [self.operator]
        self.faults = MasterSlaveFaults(self, self.fork())
        self._add(plan, world)
        stories = [story for story in (self.lites, self.priorities) if story is not None]
        of_stories = [story.producer for story in stories]
        self.all_producers = [*self.producers, *self.timer_producers, *self.batch_producers, *of_stories]
        for producer in self.all_producers:
            producer.on_answer, producer.epoch_at = self.watcher.answered, self._epoch_at
        for consumer in self.consumers:
            consumer.on_seen, consumer.epoch_at = self.watcher.seen, self._epoch_at
            consumer.is_master_at, consumer.life_at = self._is_master_at, self._life_at
        self.beliefs = Beliefs(self)
        self.writers = [*self.all_producers, *self.dealers]
        story_clients = [client for story in stories for client in story.clients]
        self.readers = [*self.consumers, *self.batch_readers, *self.poppers, *story_clients, self.operator]

    def _add(self, plan: MasterSlavePlan, world: World) -> None:
        """Make what only some seeds have, with random numbers of its own: the rest is the same with and without it."""

        def chance(salt: int) -> random.Random:
            return random.Random(plan.seed ^ salt)

        self.book = Book(self.brokers, self.history, self.timeline)
        self.dealers = [Dealer(f"d{i}", f"10.0.5.{i + 1}", chance(0xDEA1 + i), world) for i in range(plan.dealer_count)]
        for dealer in self.dealers:
            dealer.book, dealer.on_answer, dealer.epoch_at = self.book, self.watcher.answered, self._epoch_at
        self.timer_producers: list[TimerProducer] = []
        if plan.has_timers:
            self.timer_producers.append(TimerProducer("t0", "10.0.2.100", chance(0x7173), world))
            self.timer_producers[0].cluster = self
        batch_chance = chance(0xBA7C)
        self.batch_producers = [BatchProducer("b0", "10.0.2.101", batch_chance, world)] if plan.has_batches else []
        self.batch_readers = [BatchReader("r0", "10.0.3.101", batch_chance, world)] if plan.has_batches else []
        self.poppers = [Popper("pops", "10.0.5.1", chance(0x909), world)] if plan.has_popper else []
        self.lites: LiteStory | None = self._make_lites(chance(0x117E), world) if plan.has_lites else None
        self.priorities: PriorityStory | None = None
        if plan.has_priorities:
            self.priorities = self._make_priorities(chance(0x9810), world)
        self.liar = self._make_liar(chance(0x11A2), world) if plan.has_liar else None
        self.piece_cutter = PieceCutter(self, chance(0x91EC)) if plan.has_pieces else None

    def _make_lites(self, rng: random.Random, world: World) -> LiteStory:
        story = LiteStory(self, world, self.brokers, lambda: self.master_parts, rng=rng, net="10.0")
        for client in story.clients:
            client.epoch_at = self._epoch_at
        return story

    def _make_priorities(self, rng: random.Random, world: World) -> PriorityStory:
        return PriorityStory(self, world, self.brokers, lambda: self.master_parts, rng=rng, net="10.0")

    def _make_liar(self, rng: random.Random, world: World) -> Liar:
        brokers = [broker.address for broker in self.brokers]
        pace_us = max(rng.choice((100, 300, 1000)) * MS, self.plan.duration_us // LIES_MAX)
        return Liar("liar", "10.0.9.1", rng, world, brokers, pace_us)

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Give simulated threads and jobs to brokers, and limit the epochs of every epoch history."""
        real, epoch_history.ENTRIES_MAX = epoch_history.ENTRIES_MAX, self.plan.epoch_entries_max
        try:
            watch = self.priorities.watch.watching() if self.priorities is not None else nullcontext()
            with simulated_parts(self.plan.tick_us, piece_sizes(self.plan)), short_lives(), watch:
                yield
        finally:
            epoch_history.ENTRIES_MAX = real

    # -- what the clients are asked to note -----------------------------------------------------------------------

    @property
    def master(self) -> SimBroker | None:
        """The first broker that is a master now."""
        return next((broker for broker in self.brokers if broker.is_master), None)

    @property
    def master_parts(self) -> BrokerParts | None:
        return self.master.parts if self.master is not None else None

    def only_master(self) -> tuple[SimBroker, BrokerParts] | None:
        """Return the only master, with its open parts; None when there is none, or another."""
        masters = [(broker, broker.parts) for broker in self.brokers if broker.is_master and broker.parts is not None]
        return masters[0] if len(masters) == 1 else None

    def broker_at(self, address: str) -> SimBroker:
        return next(broker for broker in self.brokers if broker.address == address)

    def is_broker(self, address: str) -> bool:
        """Return False for the address of a liar."""
        return any(broker.address == address for broker in self.brokers)

    def _epoch_at(self, address: str) -> tuple[int, str]:
        return self.broker_at(address).entry if self.is_broker(address) else (-1, "")

    def _is_master_at(self, address: str) -> bool:
        return self.is_broker(address) and self.broker_at(address).is_master

    def _life_at(self, address: str) -> object:
        if not self._is_master_at(address):
            return None
        broker = self.broker_at(address)
        return address, broker.start_count, broker.entry

    def note_death(self, broker: SimBroker, kind: str) -> None:
        """Record that a broker is about to die, by "kill" or "power"."""
        epoch_id = broker.entry[1] if kind == "power" and broker.is_master else ""
        self.history.incident(self.timeline.now_us, kind, broker.name, epoch_id)
        if kind == "power":
            self.watcher.disturb(self.timeline.now_us)

    # -- the run --------------------------------------------------------------------------------------------------

    def start_clients(self) -> None:
        plan = self.plan
        for producer in self.all_producers:
            producer.start(plan.pace_us, plan.size_max_bytes)
        for consumer in self.consumers:
            consumer.start(plan.pace_us)
        for reader in self.batch_readers:
            reader.start(plan.pace_us)
        for dealer in self.dealers:
            dealer.start(plan.pace_us, plan.size_max_bytes)
        for popper in self.poppers:
            popper.start(plan)
        for story in (self.lites, self.priorities):
            if story is not None:
                story.start(plan)
        if self.liar is not None:  # not before: a name server that knows nothing of a group believes the first one
            self.timeline.after(plan.warm_up_us, self._start_liar)

    def _start_liar(self) -> None:
        """Have the liar begin, or wait until the brokers that run have messages: an empty log proves nothing."""
        assert self.liar is not None
        running = [broker.parts for broker in self.brokers if broker.parts is not None]
        if running and all(parts.store.physical_max_offset for parts in running):
            self.liar.start()
        else:
            self.timeline.after(SECOND, self._start_liar)

    def let_faults_happen(self) -> None:
        """Pass the warm-up and the time with faults in one go: looks keep their pace from the clients' start on."""
        plan = self.plan
        self.timeline.after(plan.warm_up_us, self.faults.start)
        if self.piece_cutter is not None:
            self.piece_cutter.start()
        self.pass_time(plan.warm_up_us + plan.duration_us)
        self.faults.stop()

    def look(self) -> None:
        self.followings.look()
        self.beliefs.look()
        self.book.look()

    def mend(self) -> None:
        if self.liar is not None:
            self.liar.stop()
        super().mend()
        self.operator.mend()

    def finish(self) -> None:
        """Have all transactions ended, all timer messages delivered, and all messages popped and acknowledged."""
        if self.dealers:
            self._end_all_deals()
        super().finish()
        if self.timer_producers:
            timers.let_all_come(self)
        self.until(self.plan.quiet_us, self.has_converged, "the slaves have not all there is")
        for popper in self.poppers:
            popper.is_draining = True
            what = f"an end of all messages for {POPS_GROUP} did not come"
            if not self.until(self.plan.quiet_us, lambda popper=popper: not self._left(popper), what):
                self.history.violated(f"messages that came to no consumer: {sorted(self._left(popper))[:5]}")
        for story in (self.lites, self.priorities):
            if story is not None:
                story.finish()

    def _end_all_deals(self) -> None:
        """Wait until the broker's questions have ended every transaction. A clock that is behind asks late: set it."""
        newest_ms = max(broker.clock.skew_ms for broker in self.brokers)
        for broker in self.brokers:
            broker.clock.skew_ms = newest_ms
        self.until(self.plan.quiet_us, self._are_deals_ended, "not all transactions ended")

    def _are_deals_ended(self) -> bool:
        parts = self.master_parts
        return parts is not None and self.book.are_all_ended(parts)

    def _left(self, popper: Popper) -> set[bytes]:
        parts = self.master_parts
        return {b"no master"} if parts is None else popper.left(parts)

    def is_well_since(self, since_us: int) -> bool:
        """Return whether all brokers serve, one is the master, and sends work."""
        if self.only_master() is None or not all(broker.parts is not None for broker in self.brokers):
            return False
        recent = [send for send in self.history.sends[-50:] if send.invoked_us > since_us and send.outcome == ACKED]
        return len(recent) >= 3

    def has_converged(self) -> bool:
        return are_level(self.brokers)

    def judge(self) -> None:
        """Check the cluster at rest: its copies, and all that clients were told."""
        verdict = Verdict(self)
        verdict.look()
        if (parts := self.master_parts) is not None:
            self.book.judge(parts, verdict.may_be_lost)
        if self.timer_producers:
            timers.judge(self, verdict)
        if self.batch_producers:
            batches.judge(self, verdict)
        for story in (self.lites, self.priorities):
            if story is not None:
                story.judge(verdict.may_be_lost)

    def end(self) -> None:
        super().end()
        if self.liar is not None:
            self.liar.stop()

    def describe(self) -> str:
        return "; ".join(f"{broker.name}: {_state(broker.parts)}" for broker in self.brokers)


def _state(parts: BrokerParts | None) -> str:
    if parts is None:
        return "not open"
    queues = [parts.store.max_offset(TOPIC, queue_id) for queue_id in range(QUEUE_COUNT)]
    link = parts.side.ha_client_state() or ""
    return f"id {parts.role.broker_id}, log to {parts.store.physical_max_offset}, queues to {queues}, {link}"
