"""Lite topics: sends to many of them, and pops that acknowledge each message."""

import json
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from bench import answers, frames, process
from bench.cases import QUEUES, Bench, Figure
from bench.control import BenchError, Control, connect, wait_until
from bench.pops import ACK_MESSAGE, DEADLINE_S, INVISIBLE_MS, POLL_MS, POP_COUNT, RECEIVE_BYTES
from bench.result import Rate
from pymq.model.lite_topics import lite_queue_number
from pymq.model.record import decode_records

# RocketMQ has none without the first two. It makes files for each, and would refuse sends that wait for them 200 ms.
LITE_SETTINGS = {
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "maxLmqConsumeQueueNum": "1000000",
    "waitTimeMillsInSendQueue": "60000",
}
ATTRIBUTES = "+message.type=LITE,+lite.topic.expiration=-1"
SEND_V2, POP_LITE, SUBSCRIBE, PUT_GROUP, BROKER_INFO = 310, 200070, 200071, 200, 200074
SENDERS, IN_FLIGHT = 4, 64
CLIENTS = 8
NAMES_PER_REQUEST = 1000
ROUNDS = 2  # messages of each lite topic, half of them measured
BODY = b"x" * 128


def lite_topics(bench: Bench, count: int) -> list[Figure]:
    """Measures sends to ``count`` lite topics, beside a plain topic, and pops of them by 8 clients."""
    label = f"{count // 1000}k lite topics"
    plain_topic, parent = bench.fresh_topic("plain"), bench.fresh_topic("lites", ATTRIBUTES)
    server = bench.server
    resident = process.resident_bytes(server.broker_pid)
    make = _Sends(server.broker, parent, count)
    try:
        made, _ = make.run(bench, count)
        grown = process.resident_bytes(server.broker_pid) - resident
        sent, sent_us = make.run(bench, count)
    finally:
        make.close()
    plain = _Sends(server.broker, plain_topic, 0)
    try:
        plain.run(bench, bench.sizes.latency_messages)
        _, plain_us = plain.run(bench, count)
    finally:
        plain.close()
    with Control(server.broker) as control:
        wait_until(lambda: _lite_count(control) >= count, f"{count} lite topics")
        control.expect(PUT_GROUP, {}, _group("bench_lites", parent))
    pop = _Pops(server.broker, parent, "bench_lites", count)
    try:
        subscribed_s = pop.subscribe()
        before = process.cpu_seconds(server.broker_pid)
        with process.pinned():
            popped = pop.run(count * ROUNDS)
        process.settle_cpu()
        pop_us = (process.cpu_seconds(server.broker_pid) - before) / popped.messages * 1e6
    finally:
        pop.close()
    return [
        Figure(f"{label}, made", made.per_second, "msg/s", None, True),
        Figure(f"{label}, memory", grown / count, "bytes each", None),
        Figure(f"{label}, send rate", sent.per_second, "msg/s", None, True),
        Figure(f"{label}, send broker CPU", sent_us, "us/msg", None),
        Figure(f"{label}, send CPU to a plain topic's", sent_us / plain_us, "times", 1.3),
        Figure(f"{label}, subscribed", subscribed_s, "s", None),
        Figure(f"{label}, pop-ack rate", popped.per_second, "msg/s", None, True),
        Figure(f"{label}, pop-ack broker CPU", pop_us, "us/msg", None),
    ]


LITE_CASES: dict[str, Callable[[Bench], list[Figure]]] = {
    "lite-10k": partial(lite_topics, count=10_000),
    "lite-100k": partial(lite_topics, count=100_000),
}


def _lite_count(control: Control) -> int:
    _, body = control.ask(BROKER_INFO, {})
    return int(json.loads(body)["currentLmqNum"])


def _group(name: str, parent: str) -> bytes:
    """Return a group that reads lite topics, without a limit of subscriptions."""
    attributes = {
        "+lite.bind.topic": parent, "+lite.sub.client.quota": "-1", "+lite.sub.client.max.event.cnt": "100000"
    }  # fmt: skip
    return json.dumps({"groupName": name, "consumeEnable": True, "attributes": attributes}).encode()


class _Sends:
    """Sends a message to each lite topic in turn; to a plain topic with ``count`` 0."""

    def __init__(self, address: str, topic: str, count: int) -> None:
        self._topic = topic
        self._count = count
        self._number = 0
        self._sockets = [connect(address, None) for _ in range(SENDERS)]

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

    def run(self, bench: Bench, messages: int) -> tuple[Rate, float]:
        """Send so many messages; return the rate, and the broker's CPU time of each in us."""
        parts = [list(islice(self._frames(), messages // SENDERS)) for _ in self._sockets]
        process.settle_cpu()
        before = process.cpu_seconds(bench.server.broker_pid)
        start = time.perf_counter()
        with process.pinned():
            sent = _exchange(self._sockets, parts)
        seconds = time.perf_counter() - start
        process.settle_cpu(1.0)
        return Rate(sent, seconds), (process.cpu_seconds(bench.server.broker_pid) - before) / sent * 1e6

    def _frames(self) -> Iterator[bytes]:
        while True:
            self._number += 1
            properties = f"UNIQ_KEY\x01{self._number:032X}\x02WAIT\x01true\x02"
            queue = self._number % QUEUES
            if self._count:
                lite = f"session-{self._number % self._count}"
                queue = lite_queue_number(lite, QUEUES)
                properties += f"__LITE_TOPIC\x01{lite}\x02"
            ext = {
                "a": "bench", "b": self._topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0",
                "g": "1700000000000", "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
            }  # fmt: skip
            yield frames.encode_json(SEND_V2, self._number, ext, BODY)


def _exchange(sockets: list[socket.socket], parts: list[list[bytes]]) -> int:
    """Keep sends in flight until all are answered; return how many.

    Raises:
        BenchError: one was refused, or no answer came for a minute.
    """
    counters = [answers.AnswerCounter() for _ in sockets]
    sent = [0] * len(sockets)
    with selectors.DefaultSelector() as selector:

        def send(place: int, count: int) -> None:
            some = parts[place][sent[place] : sent[place] + count]
            sent[place] += len(some)
            sockets[place].sendall(b"".join(some))

        for place, sock in enumerate(sockets):
            selector.register(sock, selectors.EVENT_READ, place)
            send(place, IN_FLIGHT)
        while sum(counter.frames for counter in counters) < sum(map(len, parts)):
            ready = selector.select(DEADLINE_S)
            if not ready:
                raise BenchError("no answer to a send for a minute")
            for key, _ in ready:
                data = sockets[key.data].recv(RECEIVE_BYTES)
                if not data:
                    raise BenchError("the broker closed a connection under load")
                done = counters[key.data].feed(data)
                if done:
                    send(key.data, done)
    refusals = [counter.first_refusal for counter in counters if counter.first_refusal]
    if refusals:
        raise BenchError(f"a send was refused: {refusals[0]}")
    return sum(counter.frames for counter in counters)


@dataclass(slots=True)
class _Client:
    name: str
    sock: socket.socket
    lites: list[str]
    is_popping: bool = False
    open_acks: int = 0
    cutter: answers.FrameCutter = field(default_factory=answers.FrameCutter)


class _Pops:
    """Clients of one group that share the lite topics."""

    def __init__(self, address: str, parent: str, group: str, count: int) -> None:
        self._address = address
        self._parent = parent
        self._group = group
        self._number = 0
        self._clients = [
            _Client(f"client-{at}", connect(address, None), [f"session-{n}" for n in range(at, count, CLIENTS)])
            for at in range(CLIENTS)
        ]

    def close(self) -> None:
        for client in self._clients:
            client.sock.close()

    def subscribe(self) -> float:
        """Subscribe each client to its lite topics; return the seconds that this took."""
        begin = time.monotonic()
        for client in self._clients:
            for at in range(0, len(client.lites), NAMES_PER_REQUEST):
                self._ask(client, client.lites[at : at + NAMES_PER_REQUEST])
        return time.monotonic() - begin

    def _ask(self, client: _Client, lites: list[str]) -> None:
        entry = {
            "action": "PARTIAL_ADD", "clientId": client.name, "group": self._group, "topic": self._parent,
            "liteTopicSet": lites, "version": 1,
        }  # fmt: skip
        self._number += 1
        body = json.dumps({"subscriptionSet": [entry]}).encode()
        client.sock.sendall(frames.encode_json(SUBSCRIBE, self._number, {}, body))
        while True:
            for frame in client.cutter.feed(client.sock.recv(RECEIVE_BYTES)):
                header, _ = answers.split_answer(frame)
                if header["code"]:
                    raise BenchError(f"a subscription was refused: code {header['code']}, {header.get('remark')}")
                return

    def run(self, messages: int) -> Rate:
        """Pop and acknowledge so many messages.

        Raises:
            BenchError: a request was refused, or no message came for a minute.
        """
        acked, start = 0, time.perf_counter()
        last = start
        with selectors.DefaultSelector() as selector:
            for each in self._clients:
                selector.register(each.sock, selectors.EVENT_READ, each)
                self._pop(each)
            while acked < messages:
                for key, _ in selector.select(1.0):
                    client: _Client = key.data
                    for frame in client.cutter.feed(client.sock.recv(RECEIVE_BYTES)):
                        if client.open_acks:
                            client.open_acks -= 1
                            acked += 1
                            last = time.perf_counter()
                        else:
                            acks = self._acks(frame)
                            client.open_acks = len(acks)
                            client.sock.sendall(b"".join(acks))
                        if not client.open_acks:
                            self._pop(client)
                if time.perf_counter() - last > DEADLINE_S:
                    raise BenchError(f"{acked} of {messages} messages were popped, and no more came")
        return Rate(acked, last - start)

    def _pop(self, client: _Client) -> None:
        self._number += 1
        ext = {
            "clientId": client.name, "consumerGroup": self._group, "topic": self._parent, "maxMsgNum": str(POP_COUNT),
            "invisibleTime": str(INVISIBLE_MS), "pollTime": str(POLL_MS), "bornTime": str(int(time.time() * 1000)),
        }  # fmt: skip
        client.sock.sendall(frames.encode_json(POP_LITE, self._number, ext))

    def _acks(self, frame: bytes) -> list[bytes]:
        """Return an acknowledgement of each message in an answer. Raises BenchError for a refused pop."""
        header, body = answers.split_answer(frame)
        if header["code"] in (209, 210, 19):
            return []
        if header["code"]:
            raise BenchError(f"a lite pop was refused: code {header['code']}, {header.get('remark')}")
        ext = header["extFields"]
        tail = f"{ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 broker-a 0"
        acks: list[bytes] = []
        for message in decode_records(body):
            self._number += 1
            offset = message.properties["INNER_MULTI_QUEUE_OFFSET"]
            fields = {
                "consumerGroup": self._group, "topic": self._parent, "queueId": "0", "offset": offset,
                "extraInfo": f"{offset} {tail} {offset}", "liteTopic": message.properties["__LITE_TOPIC"],
            }  # fmt: skip
            acks.append(frames.encode_json(ACK_MESSAGE, self._number, fields))
        return acks
