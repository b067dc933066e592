"""Producers and consumers, which know only the name servers, as real ones do.

They send real requests and note the answers and their times.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from pymq.broker.assembly.parts import BrokerParts
from pymq.errors import PymqError, RefusedError
from pymq.model.record import StoredMessage, decode_records
from pymq.model.route import TopicRoute
from pymq.wire.bodies_route import decode_route
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ, Command
from tests.simulation.history import ACKED, MS, REFUSED, UNSURE, Commit, History, Seen, Send, name_of
from tests.simulation.network import SimNetwork
from tests.simulation.remoting import Promise, SimClient, run
from tests.simulation.timeline import SECOND, Process, Timeline

TOPIC = "Orders"
QUEUE_COUNT = 2
SUBSCRIPTION_FLAG, SUSPEND_FLAG = 4, 2
# A broker answers with these when it took a message in, but can't vouch for it.
NOT_SURE_CODES = frozenset(
    {
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SYSTEM_ERROR,
    }
)


# (address) -> (epoch, epoch id) of the epoch history of the broker that answers there now
EpochAt = Callable[[str], tuple[int, str]]


class World(NamedTuple):
    """What all clients of one broker name share."""

    timeline: Timeline
    network: SimNetwork
    history: History
    name_servers: list[str]  # their addresses
    broker_name: str


class ClientNode:
    """The base of all clients: a process, connections, and a route that may be outdated."""

    epoch_at: EpochAt = staticmethod(lambda address: (-1, ""))

    def __init__(self, name: str, host: str, rng: random.Random, world: World) -> None:
        self.name = name
        self.process = Process(world.timeline, name, host)
        self.client = SimClient(world.network, self.process)
        self._rng = rng
        self._timeline, self._network, self._history, self._name_servers, self._broker_name = world
        self._route: TopicRoute | None = None
        self._route_us = -(1 << 60)
        self.is_stopping = False

    @property
    def now_us(self) -> int:
        return self._timeline.now_us

    def sleep(self, duration_us: int) -> Promise:
        promise = Promise()
        self.process.after(duration_us, promise.keep)
        return promise

    async def route(self, *, is_fresh: bool = False) -> TopicRoute | None:
        """Return the route that the name servers give, or gave at most 30 s ago."""
        if not is_fresh and self._route is not None and self.now_us - self._route_us < 30 * SECOND:
            return self._route
        request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": TOPIC}, version=479)
        server = self._rng.choice(self._name_servers)
        try:
            answer = await self.client.invoke_ok(server, request)
        except PymqError:
            return self._route
        self._route, self._route_us = decode_route(answer.body), self.now_us
        return self._route

    async def master(self, *, is_fresh: bool = False) -> str | None:
        """Return the last known address of the master."""
        route = await self.route(is_fresh=is_fresh)
        data = route.broker(self._broker_name) if route else None
        return data.master_address if data else None

    async def reader(self, *, is_fresh: bool = False, broker_id: int = 0) -> str | None:
        """Return the broker to read from: the suggested one, else the master, else any."""
        route = await self.route(is_fresh=is_fresh)
        data = route.broker(self._broker_name) if route else None
        return data.read_address(broker_id) if data else None

    async def store(self, send: Send, request: Command, timeout_s: float = 3.0) -> Command | None:
        """Ask the send's broker to store something, and note how it ended. Return the answer if it was accepted."""
        answer = None
        try:
            answer = await self.client.invoke_ok(send.address, request, timeout_s)
        except RefusedError as error:
            send.code = error.code
            send.outcome = UNSURE if error.code in NOT_SURE_CODES else REFUSED
        except PymqError:
            send.outcome = UNSURE
        else:
            send.code, send.outcome = 0, ACKED
            send.epoch, send.epoch_id = self.epoch_at(send.address)
        send.answered_us = self.now_us
        return answer

    async def pull(self, address: str, **fields: str) -> tuple[Command | None, int]:
        """Ask for messages from an offset on. Return the answer, and the offset that goes on without one.

        There is no answer when nothing new is there: ask again from the same offset; or from -1 when there is no such
        offset any more. Raises PymqError.
        """
        ext = {
            "topic": TOPIC, "maxMsgNums": "32", "sysFlag": str(SUBSCRIPTION_FLAG), "commitOffset": "0",
            "suspendTimeoutMillis": "5000", "subVersion": "0", "subscription": "*",
        }  # fmt: skip
        request = Command(RequestCode.PULL_MESSAGE, ext=ext | fields, version=479)
        try:
            return await self.client.invoke_ok(address, request, 12.0), -1
        except RefusedError as error:
            if error.code == ResponseCode.PULL_OFFSET_MOVED:
                return None, -1
            if error.code not in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
                raise
            return None, int(fields["queueOffset"])


class Operator(ClientNode):
    """The base of operators. ``is_set_up`` is True once clients have what they use."""

    is_set_up = False

    @abstractmethod
    def set_up(self) -> None:
        """Begin to make what clients use, and go on until it is there."""


def send_request(topic: str, body: bytes, *, group: str = "operators", **fields: str) -> Command:
    """Return the request that sends a message. ``fields``: the request's other fields that differ."""
    ext = {
        "a": group, "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0", "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    return Command(RequestCode.SEND_MESSAGE_V2, ext=ext | fields, body=body, version=479)


def placed_at(send: Send, answer: Command) -> None:
    """Note the place in queue and log that the answer to a send names."""
    fields = answer.ext or {}
    send.queue_offset, send.physical = int(fields["queueOffset"]), int(fields["msgId"][-16:], 16)
    send.recall_handle = fields.get("recallHandle", "")


def topic_request(topic: str, queue_count: int, attributes: str = "") -> Command:
    """Return the request that makes a topic."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queue_count),
        "writeQueueNums": str(queue_count), "perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false",
        "attributes": attributes,
    }  # fmt: skip
    return Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=fields)


class Producer(ClientNode):
    """Sends one message after another. All differ, and a failed send is not retried."""

    on_answer: Callable[[Send], None] = staticmethod(lambda send: None)
    send_timeout_s = 3.0

    def start(self, pace_us: int, size_max_bytes: int) -> None:
        run(self._work(pace_us, size_max_bytes))

    async def _work(self, pace_us: int, size_max_bytes: int) -> None:
        number, is_fresh = 0, True
        while True:
            await self.sleep(int(self._rng.expovariate(1) * pace_us))
            if self.is_stopping:
                return
            address = await self.master(is_fresh=is_fresh)
            if address is None:
                is_fresh = True
                await self.sleep(SECOND)
                continue
            number += 1
            content = b"%b-%d|" % (self.name.encode(), number)
            content += b"." * int(self._rng.random() ** 4 * size_max_bytes)
            send = await self._send(address, content)
            is_fresh = send.outcome != ACKED

    def begin(self, send: Send) -> None:
        """Record a send that begins now."""
        self._history.begin(send)

    def request(self, send: Send) -> Command:
        """Return the request of a send."""
        fields = {"d": "4", "e": str(send.queue_id), "g": str(self.now_us // MS)}
        properties = f"UNIQ_KEY\x01{name_of(send.content)}\x02"
        request = send_request(TOPIC, send.content, group="producers", i=properties, **fields)
        request.serialize = self._rng.choice((SERIALIZE_JSON, SERIALIZE_ROCKETMQ))
        return request

    async def _send(self, address: str, content: bytes) -> Send:
        queue_id = self._rng.randrange(QUEUE_COUNT)
        send = Send(content, self.name, queue_id, address, self.now_us)
        self.begin(send)
        self._history.operations["sends"] += 1
        answer = await self.store(send, self.request(send), self.send_timeout_s)
        if answer is not None:
            placed_at(send, answer)
        self._history.operations[f"sends {send.outcome}"] += 1
        self._history.note(
            f"{self.now_us / SECOND:.4f} {self.name} {name_of(content)} at {address}: "
            f"{send.outcome} {send.code} queue {queue_id}@{send.queue_offset} log {send.physical} epoch {send.epoch}"
        )
        if send.outcome == ACKED:
            self.on_answer(send)
        return send


class Consumer(ClientNode):
    """The only member of its group. It reads every queue from the group's offset and commits now and then."""

    is_master_at: Callable[[str], bool] = staticmethod(lambda address: False)
    # (address) -> a value that changes with each start and each epoch of the master there; None without a master
    life_at: Callable[[str], object] = staticmethod(lambda address: None)
    on_seen: Callable[[Seen], None] = staticmethod(lambda seen: None)

    def start(self, pace_us: int) -> None:
        self._newest: dict[tuple[object, int], int] = {}  # the newest commit to one life of a master, by queue
        for queue_id in range(QUEUE_COUNT):
            run(self._work(queue_id, pace_us))

    @property
    def group(self) -> str:
        return f"G-{self.name}"

    async def _work(self, queue_id: int, pace_us: int) -> None:
        """Consume one queue until the consumer stops."""
        offset, committed, is_fresh, broker_id = -1, -1, True, 0
        while not self.is_stopping:
            await self.sleep(int(self._rng.expovariate(1) * pace_us))
            address = await self.reader(is_fresh=is_fresh, broker_id=broker_id)
            is_fresh = False
            if address is None:
                is_fresh = True
                await self.sleep(SECOND)
                continue
            try:
                if offset < 0 or self._rng.random() < 0.02:  # a restart of the consumer
                    offset = committed = await self._stored_offset(address, queue_id)
                offset, broker_id = await self._pull(address, queue_id, offset)
                if offset != committed and self._rng.random() < 0.5:
                    await self._commit(address, queue_id, offset)
                    committed = offset
            except PymqError:
                is_fresh, broker_id = True, 0

    async def _stored_offset(self, address: str, queue_id: int) -> int:
        self._history.operations["offset queries"] += 1
        fields = {"consumerGroup": self.group, "topic": TOPIC, "queueId": str(queue_id)}
        try:
            answer = await self.client.invoke_ok(
                address, Command(RequestCode.QUERY_CONSUMER_OFFSET, ext=fields, version=479)
            )
        except RefusedError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return 0
            raise
        offset, newest = int((answer.ext or {})["offset"]), self._newest.get((self.life_at(address), queue_id), 0)
        if offset < newest:
            self._history.violated(f"{self.group} went back to {offset} in queue {queue_id}, {newest} was committed")
        return offset

    async def _pull(self, address: str, queue_id: int, offset: int) -> tuple[int, int]:
        """Return the next offset, -1 to ask for the group's, and the id of the suggested broker. Raises PymqError."""
        self._history.operations["pulls"] += 1
        is_patient = self._rng.random() < 0.5
        entry = self.epoch_at(address)
        answer, next_offset = await self.pull(
            address, consumerGroup=self.group, queueId=str(queue_id), queueOffset=str(offset),
            sysFlag=str(SUBSCRIPTION_FLAG | (SUSPEND_FLAG if is_patient else 0)),
        )  # fmt: skip
        if answer is None:
            return next_offset, 0
        suggested = int((answer.ext or {}).get("suggestWhichBrokerId", 0))
        for message in decode_records(answer.body):
            seen = Seen(
                self.now_us, queue_id, message.queue_offset, message.physical_offset, message.body, address, *entry,
                self.group,
            )  # fmt: skip
            self._history.seen.append(seen)
            self.on_seen(seen)
            self._history.operations["messages read"] += 1
        return int((answer.ext or {})["nextBeginOffset"]), suggested

    async def _commit(self, address: str, queue_id: int, offset: int) -> None:
        self._history.operations["commits"] += 1
        fields = {
            "consumerGroup": self.group, "topic": TOPIC, "queueId": str(queue_id), "commitOffset": str(offset),
        }  # fmt: skip
        life, (epoch, _) = self.life_at(address), self.epoch_at(address)
        await self.client.invoke_ok(address, Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=fields, version=479))
        if life is not None and life == self.life_at(address):
            self._newest[life, queue_id] = max(offset, self._newest.get((life, queue_id), 0))
        self._history.commits.append(
            Commit(self.now_us, self.group, queue_id, offset, address, self.is_master_at(address), epoch)
        )


def messages_of(parts: BrokerParts, queue_id: int, topic: str = TOPIC, start: int = 0) -> list[StoredMessage]:
    """Return all messages of a queue from an offset on, as its broker reads them."""
    store, found = parts.store, list[StoredMessage]()
    at = max(store.min_offset(topic, queue_id), start)
    while at < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, at, 1024, 1 << 24)
        found += decode_records(b"".join(result.chunks))
        if result.next_offset <= at:
            break
        at = result.next_offset
    return found
