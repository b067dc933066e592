"""Groups that pop lite topics, and the promise to them: each message is acknowledged or a dead letter, in order.

Lite topics are sessions that come and go. The clients of a group, which is shared or exclusive, take subscriptions from
each other all the time. Lite topics expire soon, and none that a group has not read.

A message that was acknowledged comes again only if a death or a promotion cost the offset: it is saved, and copied to
slaves, some seconds later. The same holds for a message that comes before its invisible time is over.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pymq.broker.pop import lite_expiry
from pymq.errors import PymqError, RefusedError
from pymq.model import pop
from pymq.model.lite_topics import light_queue_name, read_mark_name
from pymq.model.properties import LITE_TOPIC
from pymq.model.record import StoredMessage, decode_record, decode_records
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.simulation.clients import ClientNode, Producer, World, messages_of, topic_request
from tests.simulation.history import ACKED, Incident, Send, name_of
from tests.simulation.master_slave.checking import named
from tests.simulation.master_slave.offsets import COPIED_US, OFFSETS_OLD_US, broker_of
from tests.simulation.remoting import run
from tests.simulation.timeline import MS, SECOND

if TYPE_CHECKING:
    from pymq.broker.assembly.parts import BrokerParts
    from tests.simulation.broker_node import SimBroker
    from tests.simulation.cluster import Cluster
    from tests.simulation.plan import Plan

PARENT = "Sessions"  # with one queue
PARENT_ATTRIBUTES = "+message.type=LITE,+lite.topic.expiration=0"
GROUPS = {"G-shared": "Shared", "G-exclusive": "Exclusive"}
CLIENTS_A_GROUP = 2
MESSAGES_A_SESSION = 8
OPEN_SESSIONS = 3
REVIVED_SHARE = 0.1  # of the messages: they are of a session that was over
INVISIBLE_MS = (500, 3000, 10_000)
ACKED_SHARE = 0.8  # of the answers; the other messages come again
RETRY_MAX_TIMES = 3
RENEWAL_US = 3 * SECOND
EXPIRATION_MS, CHECK_PERIOD_MS = 10_000, 3_000
# These make a broker's clock another one than the simulation's, or keep it from saving.
CONFUSING_FAULTS = frozenset({"clock jump", "full disk", "failing fsync"})


@contextmanager
def short_lives() -> Iterator[None]:
    """Let lite topics expire after seconds instead of minutes, within this context."""
    module: Any = lite_expiry
    real = module.EXPIRATION_MIN_MS, module.CHECK_PERIOD_MS
    module.EXPIRATION_MIN_MS, module.CHECK_PERIOD_MS = EXPIRATION_MS, CHECK_PERIOD_MS
    try:
        yield
    finally:
        module.EXPIRATION_MIN_MS, module.CHECK_PERIOD_MS = real


def group_requests() -> list[Command]:
    """Return the requests that make the groups."""
    configs = [
        SubscriptionGroupConfig(
            group_name=group,
            retry_max_times=RETRY_MAX_TIMES,
            attributes={"+lite.bind.topic": PARENT, "+lite.sub.model": model},
        )
        for group, model in GROUPS.items()
    ]
    return [
        Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=msgspec.json.encode(config)) for config in configs
    ]


class LiteProducer(Producer):
    """Sends messages of sessions, of which a few are open at a time."""

    def start(self, pace_us: int, size_max_bytes: int) -> None:
        """Send at the pace of the other producers, but not more than a message in 200 ms."""
        self.lites: list[str] = []
        super().start(max(pace_us, SECOND // 5), min(size_max_bytes, 300))

    def begin(self, send: Send) -> None:
        """Note the send apart from those of other topics."""
        send.queue_id = 0
        self._history.lite_sends.append(send)

    def request(self, send: Send) -> Command:
        """Return the send of a message of a session."""
        newest = len(self._history.lite_sends) // MESSAGES_A_SESSION
        number = max(0, newest - self._rng.randrange(OPEN_SESSIONS))
        if self._rng.random() < REVIVED_SHARE:
            number = self._rng.randrange(newest + 1)
        lite = f"session-{number}"
        if lite not in self.lites:
            self.lites.append(lite)
        command = super().request(send)
        fields = {**(command.ext or {}), "b": PARENT, "e": "0"}
        fields["i"] += f"{LITE_TOPIC}\x01{lite}\x02"
        return Command(RequestCode.SEND_MESSAGE_V2, ext=fields, body=command.body, version=479)


class Got(NamedTuple):
    """One message as a client got it from the broker at ``address``, and until when it must stay away."""

    time_us: int
    lite: str
    offset: int
    physical: int
    hidden_until_us: int
    address: str
    epoch: int  # that broker's newest then


class Reading:
    """What the clients of a group know together."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.first_seen: dict[bytes, None] = {}  # in the order of their first hand-outs
        self.tried: set[bytes] = set()  # with an acknowledgement, perhaps without an answer
        self.acked: dict[bytes, Got] = {}  # in time, with all that came before them in their hand-out
        self.out: dict[bytes, Got] = {}  # without an acknowledgement

    def left(self, master: BrokerParts) -> set[bytes]:
        """Return the messages of the master that were neither acknowledged nor became dead letters."""
        stored = messages_of(master, 0, PARENT)
        contents = {message.body for message in stored if "INNER_MULTI_DISPATCH" in message.properties}
        left = contents - self.tried
        return left and left - {message.body for message in messages_of(master, 0, f"%DLQ%{self.group}")}


class LiteClient(ClientNode):
    """One of a group's clients. It changes its subscriptions, pops, and acknowledges most of what it gets."""

    producer: LiteProducer
    reading: Reading
    brokers: Sequence[SimBroker]
    is_draining = False  # subscribe to everything, and acknowledge everything
    is_strict = True  # whether a message that comes early or after its acknowledgement breaks the promise

    def start(self, plan: Plan) -> None:
        self._wanted: set[str] = set()
        self._renewed_us = -RENEWAL_US
        self.client.on_push = self._pushed
        self.is_strict = self.is_strict and not CONFUSING_FAULTS & set(plan.kinds)
        run(self._work(min(max(2 * plan.pace_us, 300 * MS), plan.quiet_us // 20)))

    async def _work(self, pace_us: int) -> None:
        is_fresh = True
        while not self.is_stopping:
            await self.sleep(int(self._rng.expovariate(1) * (100 * MS if self.is_draining else pace_us)))
            address = await self.master(is_fresh=is_fresh)
            is_fresh = address is None
            if address is None:
                await self.sleep(SECOND)
                continue
            try:
                await self._subscribe(address)
                await self._pop(address)
            except PymqError:
                is_fresh, self._renewed_us = True, -RENEWAL_US

    # -- subscriptions -------------------------------------------------------------------------------------------

    async def _subscribe(self, address: str) -> None:
        """Send the whole set when it is time, and change it now and then."""
        lites = self.producer.lites
        if self.is_draining and self._wanted != set(lites):
            await self._control(address, "PARTIAL_ADD", set(lites))
        elif lites and not self.is_draining and self._rng.random() < 0.3:
            newest = lites[-OPEN_SESSIONS:] if self._rng.random() < 0.7 else lites
            action = self._rng.choice(("PARTIAL_ADD", "PARTIAL_ADD", "PARTIAL_REMOVE"))
            await self._control(address, action, set(self._rng.sample(newest, self._rng.randint(1, len(newest)))))
        if self.now_us - self._renewed_us >= RENEWAL_US:
            await self._control(address, "COMPLETE_ADD", set(self._wanted))
            self._renewed_us = self.now_us

    async def _control(self, address: str, action: str, lites: set[str]) -> None:
        entry = {
            "action": action, "clientId": self.name, "group": self.reading.group, "topic": PARENT,
            "liteTopicSet": sorted(lites),
        }  # fmt: skip
        body = msgspec.json.encode({"subscriptionSet": [entry]})
        self._history.operations["changes of lite subscriptions"] += 1
        if action == "PARTIAL_ADD":
            self._wanted |= lites
        elif action == "PARTIAL_REMOVE":
            self._wanted -= lites
        await self.client.invoke_ok(address, Command(RequestCode.LITE_SUBSCRIPTION_CTL, body=body))

    def _pushed(self, address: str, command: Command) -> Reply | None:
        """Note that another client of an exclusive group has a lite topic now."""
        if command.code == RequestCode.NOTIFY_UNSUBSCRIBE_LITE:
            self._history.operations["lite subscriptions taken away"] += 1
            self._wanted.discard((command.ext or {})["liteTopic"])
        return None

    # -- pops ----------------------------------------------------------------------------------------------------

    async def _pop(self, address: str) -> None:
        invisible_ms, began_us = self._rng.choice(INVISIBLE_MS), self.now_us
        fields = {
            "clientId": self.name, "consumerGroup": self.reading.group, "topic": PARENT,
            "maxMsgNum": str(self._rng.choice((1, 4, 32))), "invisibleTime": str(invisible_ms),
            "pollTime": str(self._rng.choice((0, 2000))), "bornTime": "0",
        }  # fmt: skip
        self._history.operations["lite pops"] += 1
        try:
            answer = await self.client.invoke_ok(address, Command(RequestCode.POP_LITE_MESSAGE, ext=fields), 12.0)
        except RefusedError as error:
            if error.code == ResponseCode.POLLING_TIMEOUT:
                return
            raise
        ext, found = answer.ext or {}, defaultdict[str, list[StoredMessage]](list)
        for message in decode_records(answer.body):
            found[message.properties[LITE_TOPIC]].append(message)
        for lite, messages in found.items():
            self._note(address, lite, messages, began_us + invisible_ms * MS)
        for lite, messages in found.items():
            if self.is_draining or self._rng.random() < ACKED_SHARE:
                await self._acknowledge(address, lite, messages, ext)

    def _note(self, address: str, lite: str, messages: list[StoredMessage], hidden_until_us: int) -> None:
        """Check what a pop got of one lite topic."""
        reading, history = self.reading, self._history
        offsets, (epoch, _) = [_offset(message) for message in messages], self.epoch_at(address)
        if offsets != list(range(offsets[0], offsets[0] + len(offsets))):
            history.violated(f"{reading.group} got the offsets {offsets} of {lite} at once")
        for message, offset in zip(messages, offsets, strict=True):
            content, name = message.body, name_of(message.body)
            history.operations["lite messages popped"] += 1
            if content in reading.first_seen:
                history.operations["lite messages popped again"] += 1
            acked, out = reading.acked.pop(content, None), reading.out.get(content)
            got = Got(self.now_us, lite, offset, message.physical_offset, hidden_until_us, address, epoch)
            # An old master that does not know of a new one lacks what that one took.
            is_strict = self.is_strict and not any(_is_unheard(incident, got) for incident in history.incidents)
            if acked is not None and is_strict and not self._may_be_forgotten(acked):
                history.violated(
                    f"{name} of {lite}, acknowledged at {acked.time_us / SECOND:.3f}, came again to {reading.group}"
                )
            if out is not None and self.now_us < out.hidden_until_us and is_strict:
                early_ms = (out.hidden_until_us - self.now_us) // MS
                if not self._may_be_forgotten(out):
                    history.violated(f"{name} of {lite} came {early_ms} ms early to {reading.group}")
            reading.first_seen.setdefault(content)
            reading.out[content] = got

    async def _acknowledge(self, address: str, lite: str, messages: list[StoredMessage], ext: dict[str, str]) -> None:
        """Acknowledge the messages in order, or the first of them."""
        count = len(messages) if self.is_draining else self._rng.randint(1, len(messages))
        for message in messages[:count]:
            offset, reading = _offset(message), self.reading
            receipt = pop.Receipt(
                offset, int(ext["popTime"]), int(ext["invisibleTime"]), int(ext["reviveQid"]), 0, self._broker_name
            )
            fields: dict[str, Any] = {
                "consumerGroup": reading.group, "topic": PARENT, "liteTopic": lite, "queueId": "0",
                "offset": str(offset), "extraInfo": pop.encode_receipt(receipt, 0, offset),
            }  # fmt: skip
            self._history.operations["acknowledgements of lite messages"] += 1
            reading.tried.add(message.body)
            out = reading.out[message.body]
            await self.client.invoke_ok(address, Command(RequestCode.ACK_MESSAGE, ext=fields))
            if reading.out.get(message.body) is not out or self.now_us >= out.hidden_until_us:
                return  # it may be handed out again already
            del reading.out[message.body]
            reading.acked[message.body] = out._replace(time_us=self.now_us)

    def _may_be_forgotten(self, got: Got) -> bool:
        """Return whether a death or a promotion may have cost a hand-out or an acknowledgement."""
        since_us = got.time_us - SECOND
        return any(
            self._may_have_cost(incident, got) if incident.time_us >= since_us else _is_unheard(incident, got)
            for incident in self._history.incidents
        )

    def _may_have_cost(self, incident: Incident, got: Got) -> bool:
        if incident.kind in ("promote", "force"):
            return not self._has(incident, got)
        node = broker_of(incident, self.brokers)
        age_us = node.moving_us(got.time_us, incident.time_us)
        return age_us <= COPIED_US + OFFSETS_OLD_US

    def _has(self, promotion: Incident, got: Got) -> bool:
        """Return whether the promoted broker had the offset behind the message then."""
        own = promotion.offsets.get(f"{light_queue_name(PARENT, got.lite)}@{self.reading.group}", {})
        mark = promotion.offsets.get(f"{read_mark_name(PARENT)}@{self.reading.group}", {})
        return int(own.get("0", -1)) > got.offset if own else int(mark.get("0", -1)) > got.physical


def _is_unheard(incident: Incident, got: Got) -> bool:
    """Return whether another broker was the master by then, and the one that answered did not know."""
    is_other = incident.is_done and incident.kind in ("promote", "force") and incident.node != got.address
    return is_other and got.epoch <= int(incident.detail)


def _offset(message: StoredMessage) -> int:
    return int(message.properties["INNER_MULTI_QUEUE_OFFSET"])


class LiteStory:
    """The producer and the clients of lite topics at the brokers of one name."""

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
        self.producer = LiteProducer("lp", f"{net}.2.102", rng, world)
        self.readings = [Reading(group) for group in GROUPS]
        self.clients = [
            LiteClient(f"l{number}", f"{net}.6.{number + 1}", random.Random(rng.random()), world)
            for number in range(CLIENTS_A_GROUP * len(GROUPS))
        ]
        for number, client in enumerate(self.clients):
            client.producer, client.brokers = self.producer, brokers
            client.reading = self.readings[number // CLIENTS_A_GROUP]

    def start(self, plan: Plan) -> None:
        """Have all clients begin; the producer is started apart."""
        for client in self.clients:
            client.start(plan)

    def finish(self) -> None:
        """Have all messages acknowledged, and all lite topics expired."""
        run(self._make_again())
        for number, client in enumerate(self.clients):
            client.is_draining = number % CLIENTS_A_GROUP == 0
            client.is_stopping = not client.is_draining
        quiet_us, what = self._cluster.plan.quiet_us, "an end of all messages of lite topics did not come"
        if not self._cluster.until(quiet_us, lambda: not self._left(), what):
            self._history.violated(f"messages of lite topics that came to no consumer: {sorted(self._left())[:5]}")
        if "clock jump" not in self._cluster.plan.kinds:
            self._cluster.until(quiet_us, self._are_all_expired, "not all lite topics that are read expire")

    async def _make_again(self) -> None:
        """Make the parent and the groups, which a broker that was promoted by force may lack."""
        client = self.clients[0]
        if (address := await client.master(is_fresh=True)) is not None:
            for request in (topic_request(PARENT, 1, PARENT_ATTRIBUTES), *group_requests()):
                with suppress(PymqError):
                    await client.client.invoke_ok(address, request)

    def _left(self) -> set[bytes]:
        if (parts := self._master_parts()) is None:
            return {b"no master"}
        return set().union(*(reading.left(parts) for reading in self.readings))

    def _are_all_expired(self) -> bool:
        parts = self._master_parts()
        if parts is not None and not parts.store.lights.count:
            self._history.operations["lite topics expired at the end"] += len(self.producer.lites)
            return True
        return False

    def judge(self, may_be_lost: Callable[[Send], bool]) -> None:
        """Check the messages on all brokers at rest, and the order in which they came."""
        history, stored = self._history, dict[str, list[bytes]]()
        if (parts := self._master_parts()) is None:
            return  # which is a violation already
        messages = messages_of(parts, 0, PARENT)
        for message in messages:
            stored.setdefault(message.properties[LITE_TOPIC], []).append(message.body)
        contents = {message.body for message in messages}
        for send in history.lite_sends:
            if send.outcome == ACKED and send.content not in contents and not may_be_lost(send):
                history.violated(f"lost message of a lite topic: {named(send)}")
        if unknown := contents - {send.content for send in history.lite_sends}:
            history.violated(f"messages of lite topics that were never sent: {sorted(unknown)[:3]}")
        for reading in self.readings:
            for lite, bodies in stored.items():
                order = [content for content in reading.first_seen if content in set(bodies)]
                wanted = [content for content in bodies if content in reading.first_seen]
                if order != wanted:
                    history.violated(f"{lite} came to {reading.group} as {order[:9]}, its order is {wanted[:9]}")
        for broker in self._brokers:
            if broker.parts is not None:
                self._judge_light_queues(broker.name, broker.parts, stored)
        history.operations["messages of lite topics stored"] += len(messages)

    def _judge_light_queues(self, name: str, parts: BrokerParts, stored: dict[str, list[bytes]]) -> None:
        """Check that each light queue that a broker knows ends with the messages of its lite topic."""
        for lite in parts.store.lights.names_of(PARENT):
            entries = parts.store.lights.entries(PARENT, lite, 0, 1 << 20)
            bodies = [decode_record(parts.store.record_at(entry.physical_offset)).body for entry in entries]
            wanted = stored.get(lite, [])
            if bodies != wanted[len(wanted) - len(bodies) :]:
                self._history.violated(f"{lite} of {name} holds {bodies[:9]}, the log has {wanted[:9]}")
