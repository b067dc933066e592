"""Runs one cluster: makes it from a seed, lets its clients work under faults, brings it to rest, and judges it."""

from __future__ import annotations

import gc
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.replication.history import epoch_history
from pymq.broker.work.bulk_work import BULK_MODULES
from pymq.errors import PymqError
from tests.simulation import batches, timers
from tests.simulation.batches import BatchProducer, BatchReader
from tests.simulation.beliefs import Beliefs
from tests.simulation.broker_node import SimBroker, simulated_parts
from tests.simulation.checking import Verdict, Watcher
from tests.simulation.clients import QUEUE_COUNT, TOPIC, Consumer, Producer
from tests.simulation.dealing import SETTINGS as DEAL_SETTINGS
from tests.simulation.dealing import Book, Dealer
from tests.simulation.faults import Faults
from tests.simulation.following import Followings
from tests.simulation.history import ACKED, History, Seen, Send
from tests.simulation.liar import Liar
from tests.simulation.loop import own_running_loop
from tests.simulation.name_server import SimNameServer
from tests.simulation.network import SimNetwork
from tests.simulation.operating import Operator
from tests.simulation.pieces import PieceCutter, piece_sizes
from tests.simulation.plan import Plan, drawn
from tests.simulation.pops import GROUP as POPS_GROUP
from tests.simulation.pops import Popper
from tests.simulation.remoting import run
from tests.simulation.timeline import MS, SECOND, Timeline
from tests.simulation.timers import SETTINGS as TIMER_SETTINGS
from tests.simulation.timers import TimerProducer

BROKER_NAME = "broker-a"
START_UP_US = 20 * SECOND
LOOK_US = 2 * SECOND
LIES_MAX = 1500  # in one seed, about


for _name in BULK_MODULES:  # else the first seed would load them, and keep its objects for the process's life
    import_module(_name)


class Report(NamedTuple):
    """The result of one seed."""

    seed: int
    violations: list[str]
    faults: Counter[str]
    operations: Counter[str]
    lies: Counter[str]
    simulated_us: int
    event_count: int
    cpu_seconds: float
    trace: list[str]


Story = Callable[["Cluster"], Awaitable[None]]


class Cluster:
    """All nodes of one plan, on one timeline."""

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        self.plan = plan
        self.broker_name = BROKER_NAME
        self.timeline = Timeline()
        self.history = History(trace=[] if tracing else None)
        self._chance = random.Random(plan.seed ^ 0x51ED_270B)
        self.network = SimNetwork(self.timeline, self._fork())
        self.network.link = plan.link
        self.name_servers = [
            SimNameServer(f"namesrv{i}", f"10.0.1.{i + 1}", self.timeline, self.network, self.history)
            for i in range(plan.name_server_count)
        ]
        addresses = [server.address for server in self.name_servers]
        deal_settings = DEAL_SETTINGS if plan.dealer_count else {}
        timer_settings = TIMER_SETTINGS if plan.has_timers else {}
        names = {"brokerName": BROKER_NAME, "namesrvAddr": ";".join(addresses)}
        settings = {**plan.settings, **deal_settings, **timer_settings, **names}
        self.brokers = [
            SimBroker(
                f"broker{i}", f"10.0.0.{i + 1}", i, settings,
                timeline=self.timeline, network=self.network, rng=self._fork(), history=self.history,
                has_proofs=plan.has_proofs,
            )
            for i in range(plan.slave_count + 1)
        ]  # fmt: skip
        self.watcher = Watcher(self.brokers, self.history, plan.copies_needed, is_sync_flush=plan.is_sync_flush)
        self.followings = Followings(self.brokers, self.network)
        common: dict[str, Any] = {
            "timeline": self.timeline, "network": self.network, "history": self.history,
            "name_servers": addresses, "broker_name": BROKER_NAME,
        }  # fmt: skip
        self.producers = [
            Producer(f"p{i}", f"10.0.2.{i + 1}", rng=self._fork(), **common) for i in range(plan.producer_count)
        ]
        self.consumers = [
            Consumer(f"c{i}", f"10.0.3.{i + 1}", rng=self._fork(), **common) for i in range(plan.consumer_count)
        ]
        self.book = Book(self.brokers, self.history, self.timeline)
        self.dealers = [
            Dealer(f"d{i}", f"10.0.5.{i + 1}", rng=random.Random(plan.seed ^ 0xDEA1 + i), **common)
            for i in range(plan.dealer_count)
        ]
        for dealer in self.dealers:
            dealer.book, dealer.on_answer, dealer.epoch_at = self.book, self.watcher.answered, self._epoch_at
        self.timer_producers = [self._make_timers(common)] if plan.has_timers else []
        batch_rng = random.Random(plan.seed ^ 0xBA7C)
        self.batch_producers = [BatchProducer("b0", "10.0.2.101", rng=batch_rng, **common)] if plan.has_batches else []
        self.batch_readers = [BatchReader("r0", "10.0.3.101", rng=batch_rng, **common)] if plan.has_batches else []
        self.all_producers = [*self.producers, *self.timer_producers, *self.batch_producers]
        for producer in self.all_producers:
            producer.on_answer, producer.epoch_at = self._answered, self._epoch_at
        for consumer in self.consumers:
            consumer.on_seen, consumer.epoch_at, consumer.is_master_at = self._seen, self._epoch_at, self._is_master_at
            consumer.life_at = self._life_at
        self.liar = self._make_liar(common) if plan.has_liar else None
        rng = random.Random(plan.seed ^ 0x909)  # its own, as the liar's
        self.poppers = [Popper("pops", "10.0.5.1", rng=rng, **common)] if plan.has_popper else []
        self.beliefs = Beliefs(self)
        self.operator = Operator("operator", "10.0.4.1", cluster=self, rng=self._fork(), **common)
        self.faults = Faults(self, self._fork())
        self.piece_cutter = PieceCutter(self, random.Random(plan.seed ^ 0x91EC)) if plan.has_pieces else None

    def _fork(self) -> random.Random:
        return random.Random(self._chance.getrandbits(64))

    def _make_liar(self, common: dict[str, Any]) -> Liar:
        """Make a liar with random numbers of its own: the rest of a seed is the same with and without it."""
        rng, brokers = random.Random(self.plan.seed ^ 0x11A2), [broker.address for broker in self.brokers]
        pace_us = max(rng.choice((100, 300, 1000)) * MS, self.plan.duration_us // LIES_MAX)
        return Liar("liar", "10.0.9.1", rng=rng, brokers=brokers, pace_us=pace_us, **common)

    def _make_timers(self, common: dict[str, Any]) -> TimerProducer:
        """Make a producer of timer messages, also with random numbers of its own."""
        producer = TimerProducer("t0", "10.0.2.100", rng=random.Random(self.plan.seed ^ 0x7173), **common)
        producer.cluster = self
        return producer

    # -- what the clients are asked to note -----------------------------------------------------------------------

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
        if not self.is_broker(address):
            return None
        broker = self.broker_at(address)
        return (address, broker.start_count, broker.entry) if broker.is_master else None

    def _answered(self, send: Send) -> None:
        self.watcher.answered(send)

    def _seen(self, seen: Seen) -> None:
        self.watcher.seen(seen)

    # -- the run ------------------------------------------------------------------------------------------------

    def run(self, story: Story | None = None) -> None:
        """Run the plan; ``story`` takes the place of its faults."""
        plan, timeline = self.plan, self.timeline
        for server in self.name_servers:
            server.start()
        for broker in self.brokers:
            broker.start()
        self.operator.set_up()
        self._until(START_UP_US, self._is_working, "the cluster did not come up")
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
        if self.liar is not None:  # not before: a name server that knows nothing of a group believes the first one
            timeline.after(plan.warm_up_us, self._start_liar)
        if story is None:
            self.faults.start()
            if self.piece_cutter is not None:
                self.piece_cutter.start()
            self._pass(plan.warm_up_us + plan.duration_us)
            self.faults.stop()
        else:
            timeline.run_until(timeline.now_us + plan.warm_up_us)
            self._until(plan.duration_us, run(story(self)).is_over, "a story's end")
        self._come_to_rest()
        verdict = Verdict(self.brokers, self.history, self.followings, plan.flush_age_us, plan.copies_needed)
        verdict.look()
        master = self._master_parts()
        if master is not None:
            self.book.judge(master, verdict.may_be_lost)
        if self.timer_producers:
            timers.judge(self, verdict)
        if self.batch_producers:
            batches.judge(self, verdict)

    def _start_liar(self) -> None:
        """Have the liar begin, or wait until the brokers that run have messages: an empty log proves nothing."""
        assert self.liar is not None
        running = [broker.parts for broker in self.brokers if broker.parts is not None]
        if running and all(parts.store.physical_max_offset for parts in running):
            self.liar.start()
        else:
            self.timeline.after(SECOND, self._start_liar)

    def _is_working(self) -> bool:
        return self.operator.is_set_up

    def _pass(self, duration_us: int) -> None:
        """Runs for a time, and records the followed masters now and then."""
        end_us = self.timeline.now_us + duration_us
        while self.timeline.now_us < end_us:
            self.timeline.run_until(min(end_us, self.timeline.now_us + LOOK_US))
            self.followings.look()
            self.beliefs.look()
            self.book.look()

    def _until(self, limit_us: int, is_true: Callable[[], bool], what: str) -> bool:
        end_us = self.timeline.now_us + limit_us
        while self.timeline.now_us < end_us:
            if self.plan.is_impatient and self.history.violations:
                return False
            if is_true():
                return True
            self._pass(LOOK_US)
        self.history.violated(f"{what} within {limit_us // SECOND} s")
        return False

    def _come_to_rest(self) -> None:
        """Mend and start everything. The clients go on until all works, then stop."""
        if self.liar is not None:
            self.liar.stop()
        self.faults.heal_all()
        self.operator.mend()
        since_us = self.timeline.now_us
        self._until(
            self.plan.quiet_us, lambda: self._is_well_since(since_us), "no send works again after the last fault"
        )
        for producer in (*self.all_producers, *self.dealers):
            producer.is_stopping = True
        if self.dealers:
            self._end_all_deals()
        self.timeline.run_until(self.timeline.now_us + 5 * SECOND)
        if self.timer_producers:
            timers.let_all_come(self)
        self._until(self.plan.quiet_us, self._has_converged, "the slaves have not all there is")
        self._drain()
        for client in (*self.consumers, *self.batch_readers, *self.poppers, self.operator):
            client.is_stopping = True
        self.timeline.run_until(self.timeline.now_us + 15 * SECOND)
        # Brokers write on their own, too: how transactions ended, say. A slave dispatches what came a moment later.
        self._until(self.plan.quiet_us, self._has_converged, "the slaves have not all there is at the end")

    def _end_all_deals(self) -> None:
        """Wait until the broker's questions have ended every transaction. A clock that is behind asks late: set it."""
        newest_ms = max(broker.clock.skew_ms for broker in self.brokers)
        for broker in self.brokers:
            broker.clock.skew_ms = newest_ms
        self._until(self.plan.quiet_us, self._are_deals_ended, "not all transactions ended")

    def _are_deals_ended(self) -> bool:
        master = self._master_parts()
        return master is not None and self.book.are_all_ended(master)

    def _master_parts(self) -> BrokerParts | None:
        return next((broker.parts for broker in self.brokers if broker.is_master), None)

    def _drain(self) -> None:
        """Have all messages popped and acknowledged."""
        for popper in self.poppers:
            popper.is_draining = True
            what = f"an end of all messages for {POPS_GROUP} did not come"
            if not self._until(self.plan.quiet_us, lambda popper=popper: not self._left(popper), what):
                self.history.violated(f"messages that came to no consumer: {sorted(self._left(popper))[:5]}")

    def _left(self, popper: Popper) -> set[bytes]:
        master = self._master_parts()
        return {b"no master"} if master is None else popper.left(master)

    def _is_well_since(self, since_us: int) -> bool:
        masters = [broker for broker in self.brokers if broker.is_master]
        if len(masters) != 1 or not all(broker.parts is not None for broker in self.brokers):
            return False
        recent = [send for send in self.history.sends[-50:] if send.invoked_us > since_us and send.outcome == ACKED]
        return len(recent) >= 3

    def _has_converged(self) -> bool:
        """Return True when all brokers have the same log, and have dispatched all of it."""
        stores = [broker.parts.store for broker in self.brokers if broker.parts is not None]
        ends = {end for store in stores for end in (store.physical_max_offset, store.dispatched_end)}
        return len(stores) == len(self.brokers) and len(ends) == 1

    def end(self) -> None:
        """Kills every process."""
        clients = (*self.all_producers, *self.dealers, *self.consumers, *self.batch_readers, *self.poppers)
        nodes: list[Any] = [*self.brokers, *self.name_servers, *clients, self.operator]
        for node in nodes:
            node.process.die()
        if self.liar is not None:
            self.liar.stop()

    def describe(self) -> str:
        """Return the state of each broker, to help find the cause of a violation."""
        return "\n".join(f"{broker.name}: {_state(broker.parts)}" for broker in self.brokers)


def _state(parts: BrokerParts | None) -> str:
    if parts is None:
        return "not open"
    queues = [parts.store.max_offset(TOPIC, queue_id) for queue_id in range(QUEUE_COUNT)]
    link = parts.side.ha_client_state() or ""
    return f"id {parts.role.broker_id}, log to {parts.store.physical_max_offset}, queues to {queues}, {link}"


class _Errors(logging.Handler):
    """Reports a violation when the product logs a traceback: that is an error inside it."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, (PymqError, OSError)):
            self._history.violated(f"{record.getMessage()}: {type(error).__name__}: {error}")


@contextmanager
def logged_to(history: History) -> Iterator[None]:
    logger = logging.getLogger("pymq")
    handler = _Errors(history)
    before = logger.propagate, logger.level
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before[0]
        logger.setLevel(before[1])  # unlike an assignment, this clears what the child loggers have cached


@contextmanager
def _epoch_histories_of(epoch_count: int) -> Iterator[None]:
    """Limit every epoch history to ``epoch_count`` epochs within this context."""
    real = epoch_history.ENTRIES_MAX
    epoch_history.ENTRIES_MAX = epoch_count
    try:
        yield
    finally:
        epoch_history.ENTRIES_MAX = real


@contextmanager
def without_gc() -> Iterator[None]:
    """Keep what dead processes leave until the run ends: the collector would run at moments that no seed decides."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def unheard() -> Iterator[None]:
    """Silence coroutines of dead processes: when deleted they run to their ends without a loop, and complain."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = before


def simulate(seed: int, *, tracing: bool = False, plan: Plan | None = None, story: Story | None = None) -> Report:
    """Runs one seed. An error that escapes is a violation too."""
    started = time.process_time()
    cluster = Cluster(plan or drawn(seed), tracing=tracing)
    history, timeline = cluster.history, cluster.timeline
    with without_gc():
        with (
            logged_to(history),
            own_running_loop(),
            _epoch_histories_of(cluster.plan.epoch_entries_max),
            simulated_parts(cluster.plan.tick_us, piece_sizes(cluster.plan)),
        ):
            try:
                cluster.run(story)
            except Exception as error:
                if tracing:
                    raise
                history.violated(f"{type(error).__name__}: {error}")
        # Automatic collection is still off here. Otherwise the collector would scan all of it twice.
        with unheard():
            cluster.end()
            del cluster
    return Report(
        seed, history.violations, history.faults, history.operations, history.lies, timeline.now_us,
        timeline.event_count, time.process_time() - started, history.trace or [],
    )  # fmt: skip
