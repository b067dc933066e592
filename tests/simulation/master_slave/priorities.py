"""Groups that pop a topic of priorities, and the promise to them: what waits goes by priority, and keeps its priority.

Each message stands in the queue of its priority, also for each retry (useSeparateRetryQueue), on every broker and after
any fault. Each comes to each group until it is acknowledged.

The order is one of what waits at one pop of the urgent group: a message of a lower priority goes out only when no
message of a higher one waits for its first time, and retries go out after all of these, by priority as well. Nothing is
said of two pops, or of two clients: what was handed out is not taken back. A broker's queues are looked at when it has
popped, because no client knows what another pop had got then.

A group with the attribute ``priority.factor`` starves no priority: no queue with messages is passed over by more than
PASSED_MAX pops.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from pymq.broker.pop.popper import PopAsk, Popped
from pymq.broker.pop.popper import Popper as BrokerPopper
from pymq.errors import PymqError
from pymq.model import pop
from pymq.model.priorities import FACTOR_ATTRIBUTE
from pymq.model.properties import PRIORITY
from pymq.model.record import StoredMessage
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.clients import Producer, World, messages_of, topic_request
from tests.simulation.history import ACKED, History, Send, name_of
from tests.simulation.master_slave.checking import named
from tests.simulation.master_slave.pops import Popper
from tests.simulation.remoting import run
from tests.simulation.timeline import SECOND

if TYPE_CHECKING:
    from pymq.broker.assembly.parts import BrokerParts
    from tests.simulation.broker_node import SimBroker
    from tests.simulation.cluster import Cluster
    from tests.simulation.plan import Plan

ALARMS = "Alarms"
ALARM_QUEUE_COUNT = 3
ALARM_ATTRIBUTES = "+message.type=PRIORITY"
SETTINGS = {"useSeparateRetryQueue": "true"}
PRIORITIES = (0, 1, 2, 2, 7)  # as often as here; the last queue takes all higher ones
URGENT, FAIR = "G-urgent", "G-fair"
FAIR_FACTOR = 10  # percent of its pops go by priority: each of three queues is first in 30 % or more of them
PASSED_MAX = 60  # 0.7 ** 60 is 5e-10
NO_TOPIC = "none"  # a send makes no topic
LOSSES = ("promote", "force")  # they may cost the topic, which is found in the log then, without its attributes


def queue_of(priority: int) -> int:
    """Return the queue that a message of this priority goes to."""
    return min(priority, ALARM_QUEUE_COUNT - 1)


def set_up_requests() -> list[Command]:
    """Return the requests that make the topic and the groups."""
    configs = (
        SubscriptionGroupConfig(group_name=URGENT),
        SubscriptionGroupConfig(group_name=FAIR, attributes={f"+{FACTOR_ATTRIBUTE}": str(FAIR_FACTOR)}),
    )
    return [
        topic_request(ALARMS, ALARM_QUEUE_COUNT, ALARM_ATTRIBUTES),
        *(
            Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=msgspec.json.encode(config))
            for config in configs
        ),
    ]


class AlarmProducer(Producer):
    """Sends messages of several priorities. Each asks for queue 0: that does not count."""

    def start(self, pace_us: int, size_max_bytes: int) -> None:
        """Send at the pace of the other producers, but not more than a message in 200 ms."""
        self.priorities: dict[bytes, int] = {}
        super().start(max(pace_us, SECOND // 5), min(size_max_bytes, 300))

    def begin(self, send: Send) -> None:
        """Note the send apart from those of other topics."""
        self.priorities[send.content] = priority = self._rng.choice(PRIORITIES)
        send.queue_id = queue_of(priority)
        self._history.priority_sends.append(send)

    def request(self, send: Send) -> Command:
        """Return the send of a message with its priority."""
        command = super().request(send)
        fields = {**(command.ext or {}), "b": ALARMS, "c": NO_TOPIC, "e": "0"}
        fields["i"] += f"{PRIORITY}\x01{self.priorities[send.content]}\x02"
        return Command(RequestCode.SEND_MESSAGE_V2, ext=fields, body=command.body, version=479)


class AlarmPopper(Popper):
    """Pops messages of all priorities for one group."""

    topic, queue_count, kind = ALARMS, ALARM_QUEUE_COUNT, "priority "
    on_popped: Callable[[StoredMessage, str], None]

    def note(self, message: StoredMessage, hidden_until_us: int) -> None:
        """Check a message, also that it has the queue of its priority, be it for the first time or again."""
        super().note(message, hidden_until_us)
        self.on_popped(message, f"to {self.group}")


class PopWatch:
    """Looks at what waits when one of the brokers has popped."""

    def __init__(self, history: History, brokers: Sequence[SimBroker]) -> None:
        self._history = history
        self._brokers = brokers
        self._passed: WeakKeyDictionary[BrokerPopper, dict[int, int]] = WeakKeyDictionary()  # pops in a row, by queue

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at all pops of the topic, within this context."""
        module: Any = BrokerPopper
        real = BrokerPopper.pop

        def popped(popper: BrokerPopper, ask: PopAsk, now_ms: int) -> Popped:
            parts = self._parts_of(popper) if ask.topic == ALARMS else None
            if parts is None:
                return real(popper, ask, now_ms)
            waiting = self._waiting(popper, ask)
            found = real(popper, ask, now_ms)
            if found.problem is None and found.count:
                self._look(parts, ask, waiting, found)
            return found

        module.pop = popped
        try:
            yield
        finally:
            module.pop = real

    def _parts_of(self, popper: BrokerPopper) -> BrokerParts | None:
        """Return the parts of the broker that pops; None for one of another group."""
        running = [broker.parts for broker in self._brokers if broker.parts is not None]
        return next((parts for parts in running if parts.pop.popper is popper), None)

    def _waiting(self, popper: BrokerPopper, ask: PopAsk) -> list[int]:
        """Return the queues in which messages wait for their first hand-out."""
        queues = range(ask.queue_count)
        return [queue_id for queue_id in queues if popper.waiting_count(ask.group, ask.topic, queue_id)]

    def _look(self, parts: BrokerParts, ask: PopAsk, waiting: list[int], found: Popped) -> None:
        popper, group = parts.pop.popper, parts.metadata.groups.get(ask.group)
        if ask.group == URGENT and ask.priority_factor:  # else the topic was found in the log, without its type
            self._look_at_order(popper, ask, found)
        if ask.group == FAIR and group is not None and group.attributes.get(FACTOR_ATTRIBUTE) == str(FAIR_FACTOR):
            self._look_at_passed(popper, waiting, found)

    def _look_at_order(self, popper: BrokerPopper, ask: PopAsk, found: Popped) -> None:
        """Check what one pop by priority found, and what it left."""
        self._history.operations["pops by priority"] += 1
        # RETRY_V1 and RETRY_V2 are names of a broker's one retry topic, by its settings.
        retry_topic = pop.retry_topic_v2 if popper._config.enable_retry_topic_v2 else pop.retry_topic_v1
        places = [(each.retry_flag == pop.NORMAL, each.queue_id) for each in found.queues]
        left = [
            (is_first, queue_id)
            for is_first, topic in ((True, ALARMS), (False, retry_topic(ask.group, ALARMS)))
            for queue_id in range(ask.queue_count)
            if popper.waiting_count(ask.group, topic, queue_id)
        ]
        if places != sorted(places, reverse=True) or (left and max(left) > min(places)):
            what = f"got (is for the first time, queue) {places}, and left {left}"
            self._history.violated(f"a pop of {ask.group} goes not by priority: it {what}")
        if len({*places, *left}) > 1:
            self._history.operations["pops by priority with a choice"] += 1

    def _look_at_passed(self, popper: BrokerPopper, waiting: list[int], found: Popped) -> None:
        """Check that no queue is passed over for ever."""
        taken = {each.queue_id for each in found.queues if each.retry_flag == pop.NORMAL}
        before = self._passed.get(popper, {})
        now = {queue_id: before.get(queue_id, 0) + 1 for queue_id in waiting if queue_id not in taken}
        self._passed[popper] = now
        self._history.operations["pops that passed over waiting priorities"] += bool(now)
        starving = [queue_id for queue_id, count in now.items() if count > PASSED_MAX]
        if starving:
            self._history.violated(f"{PASSED_MAX + 1} pops of {FAIR} in a row passed over queues {starving}")


class PriorityStory:
    """The producer and the groups of a topic of priorities at the brokers of one name."""

    def __init__(
        self,
        cluster: Cluster,
        world: World,
        brokers: Sequence[SimBroker],
        master_parts: Callable[[], BrokerParts | None],
        *,
        rng: random.Random,
        net: str,
    ) -> None:
        """``net``: the first two numbers of the clients' addresses."""
        self._cluster = cluster
        self._history = world.history
        self._brokers = brokers
        self._master_parts = master_parts
        self.producer = AlarmProducer("ap", f"{net}.2.103", rng, world)
        self.clients = [
            AlarmPopper(f"a{number}", f"{net}.7.{number + 1}", random.Random(rng.random()), world)
            for number in range(2)
        ]
        for popper, group, counts in zip(self.clients, (URGENT, FAIR), ((1, 4, 32), (1,)), strict=True):
            popper.group, popper.counts, popper.on_popped = group, counts, self._check
        self.watch = PopWatch(self._history, brokers)

    def start(self, plan: Plan) -> None:
        """Have the groups begin; the producer is started apart."""
        for popper in self.clients:
            popper.start(plan)

    def _check(self, message: StoredMessage, where: str) -> None:
        """Check that a message has its priority, and stands in the queue of it."""
        if any(incident.kind in LOSSES for incident in self._history.incidents):
            return
        priority = self.producer.priorities.get(message.body, -1)
        had, name = message.properties.get(PRIORITY), name_of(message.body)
        if had != str(priority) or message.queue_id != queue_of(priority):
            self._history.violated(f"{name} of priority {priority} came {where} with {had} in queue {message.queue_id}")
        if message.reconsume_times:
            self._history.operations["priorities kept by retries"] += 1

    def finish(self) -> None:
        """Have all messages acknowledged by both groups."""
        run(self._make_again())
        for popper in self.clients:
            popper.is_draining = True
        quiet_us, what = self._cluster.plan.quiet_us, "an end of all messages with priorities did not come"
        if not self._cluster.until(quiet_us, lambda: not self._left(), what):
            self._history.violated(f"messages with priorities that came to no consumer: {sorted(self._left())[:5]}")

    async def _make_again(self) -> None:
        """Make the topic and the groups, which a broker that was promoted by force may lack."""
        popper = self.clients[0]
        if (address := await popper.master(is_fresh=True)) is not None:
            for request in set_up_requests():
                with suppress(PymqError):
                    await popper.client.invoke_ok(address, request)

    def _left(self) -> set[bytes]:
        parts = self._master_parts()
        return {b"no master"} if parts is None else set().union(*(popper.left(parts) for popper in self.clients))

    def judge(self, may_be_lost: Callable[[Send], bool]) -> None:
        """Check the messages and their retries on all brokers at rest."""
        history = self._history
        for broker in self._brokers:
            if broker.parts is not None:
                self._judge_queues(broker.name, broker.parts)
        if (parts := self._master_parts()) is None:
            return  # which is a violation already
        stored = {message.body for each in range(ALARM_QUEUE_COUNT) for message in messages_of(parts, each, ALARMS)}
        for send in history.priority_sends:
            if send.outcome == ACKED and send.content not in stored and not may_be_lost(send):
                history.violated(f"lost message with a priority: {named(send)}")
        if unknown := stored - {send.content for send in history.priority_sends}:
            history.violated(f"messages with priorities that were never sent: {sorted(unknown)[:3]}")
        history.operations["messages with priorities stored"] += len(stored)

    def _judge_queues(self, name: str, parts: BrokerParts) -> None:
        retries = [form(group, ALARMS) for form in (pop.retry_topic_v1, pop.retry_topic_v2) for group in (URGENT, FAIR)]
        for topic in (ALARMS, *retries):
            for queue_id in range(ALARM_QUEUE_COUNT):
                for message in messages_of(parts, queue_id, topic):
                    self._check(message, f"into {topic} of {name}")
                    self._history.operations["priorities checked on brokers"] += 1
