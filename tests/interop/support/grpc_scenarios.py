"""What every gRPC client does with every server. A scenario is a function of a client's driver, a stage and a name.

The name is its topic's and its group's; SETUPS says what attributes these have.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pymq.proxy.protocol.messages import SendMessageRequest
from pymq.proxy.protocol.names import Code, Encoding
from tests.interop.support import probe
from tests.interop.support.grpc_driver import Driver, DriverError, Json, body, text
from tests.interop.support.grpc_servers import GrpcServer
from tests.interop.support.pymq_server import REPOSITORY, PymqServer
from tests.proxy.harness import RawClient

WAIT_S = 90
INVISIBLE_S = 30
BATCH_COUNT = 16
BODY_BYTES_MAX = 4 * 1024 * 1024
FRAME_BYTES = 4096  # what a frame holds beside the body
READS_FRAMES_OF_4_MIB = ("node", "rust")
NOT_ON_APACHE = {("node", "compressed"), ("rust", "compressed")}  # zlib is passed on, which they don't inflate
DELAY_S = 3
SLOW_S = 25  # longer than the receipts of the server under test (soon_renewing.py)
GET_CONSUME_STATS = 208
TIMER_STEP_MS = 1000
CLOCK_STEP_MS = 1000  # Python sends whole seconds
PROPERTIES = {"color": "röd", "size": "7"}


class Stage(NamedTuple):
    """Where scenarios run: a server, and a client of the remoting protocol."""

    server: GrpcServer
    classic: Driver


class Setup(NamedTuple):
    """A scenario's topic and group."""

    message_type: str = "NORMAL"
    group: Mapping[str, Any] = MappingProxyType({})


GROUP = {"consumeEnable": True, "consumeFromMinEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0}
SETUPS = {
    "fifo": Setup("FIFO", {"consumeMessageOrderly": True}),
    "fifo_failure": Setup("FIFO", {"consumeMessageOrderly": True}),
    "delay": Setup("DELAY"),
    "recall": Setup("DELAY"),
    "transaction": Setup("TRANSACTION"),
    "orphans": Setup("TRANSACTION"),
    "dead_letter": Setup(group={"retryMaxTimes": 1}),
    "wrong_type": Setup("FIFO"),
}


def prepare(server: GrpcServer, scenario: str, name: str) -> None:
    """Make the topic and the group of a scenario."""
    setup = SETUPS.get(scenario, Setup())
    probe.create_topic(server.namesrv, server.broker, name, attributes=f"+message.type={setup.message_type}")
    probe.create_group(server.broker, name, **{**GROUP, **setup.group})


def _send(peer: Driver, name: str, message: bytes, **fields: Any) -> Json:
    sent: Json = peer.call("send", name=f"{name}-producer", topic=name, body=message, **fields)
    return sent


def _producer(peer: Driver, name: str) -> None:
    peer.call("producer", name=f"{name}-producer", topic=name)


def simple(peer: Driver, name: str, topic: str = "", **filters: str) -> str:
    """Make a simple consumer of the group ``name``, and of the topic of this name unless another is given."""
    consumer = f"{name}-simple"
    peer.call("simple", name=consumer, group=name, topic=topic or name, **(filters or {"tags": "*"}))
    return consumer


def _push(peer: Driver, name: str) -> str:
    consumer = f"{name}-push"
    peer.call("push", name=consumer, group=name, topic=name, tags="*")
    return consumer


def _receive(peer: Driver, consumer: str, errors: list[DriverError] | None = None) -> list[Json]:
    """Receive once; a client that treats an empty answer, or early settings, as an error adds it to ``errors``."""
    try:
        messages: list[Json] = peer.call("receive", name=consumer, count=BATCH_COUNT, seconds=INVISIBLE_S)
    except DriverError as error:
        if errors is not None:
            errors.append(error)
        return []
    return messages


def collect(peer: Driver, consumer: str, count: int) -> list[Json]:
    """Receive and acknowledge until ``count`` messages are here; fail after WAIT_S."""
    seen: list[Json] = []
    errors: list[DriverError] = []
    deadline = time.monotonic() + WAIT_S
    while len(seen) < count:
        if time.monotonic() > deadline:
            got = [text(one) for one in seen]
            raise AssertionError(f"{peer.language}: {consumer} got {got} only; last errors: {errors[-2:]}")
        for message in _receive(peer, consumer, errors):
            peer.call("ack", name=consumer, id=message["id"])
            seen.append(message)
    return seen


def _check_fields(message: Json, sent: Json, name: str, born_after_ms: float) -> None:
    assert message["topic"] == name
    assert message["id"] == sent["id"]
    assert message["tag"] == "TagA"
    assert sorted(message["keys"]) == ["k1", "k2"]
    assert message["properties"].items() >= PROPERTIES.items()
    assert born_after_ms - CLOCK_STEP_MS <= message["born_ms"] <= time.time() * 1000 + CLOCK_STEP_MS


def send_and_receive(peer: Driver, stage: Stage, name: str) -> None:
    """Every field of a message arrives; what was acknowledged doesn't come again."""
    begin_ms = time.time() * 1000
    _producer(peer, name)
    consumer = simple(peer, name)
    content = "hello 消息 🚀".encode()
    sent = _send(peer, name, content, tag="TagA", keys=["k1", "k2"], properties=PROPERTIES)
    (message,) = collect(peer, consumer, 1)
    _check_fields(message, sent, name, begin_ms)
    assert body(message) == content
    assert message["attempt"] == 1
    assert not message.get("message_group")
    assert not message.get("delivery_ms")
    assert _receive(peer, consumer) == []


def push(peer: Driver, stage: Stage, name: str) -> None:
    """A push consumer gets each of 40 messages once."""
    _producer(peer, name)
    consumer = _push(peer, name)
    bodies = [f"number {i}" for i in range(40)]
    for one in bodies:
        _send(peer, name, one.encode())
    seen = peer.await_messages(consumer, lambda messages: len(messages) >= len(bodies), WAIT_S)
    assert sorted(text(message) for message in seen) == sorted(bodies)


def fifo(peer: Driver, stage: Stage, name: str) -> None:
    """Messages of a message group come in the order in which they were sent."""
    _producer(peer, name)
    for i in range(10):
        for group in ("a", "b", "c"):
            _send(peer, name, f"{group}{i}".encode(), message_group=group)
    consumer = _push(peer, name)
    seen = peer.await_messages(consumer, lambda messages: len(messages) >= 30, WAIT_S)
    for group in ("a", "b", "c"):
        of_group = [text(message) for message in seen if message.get("message_group") == group]
        assert of_group == [f"{group}{i}" for i in range(10)]


def fifo_failure(peer: Driver, stage: Stage, name: str) -> None:
    """What follows a failed message of its message group waits, as far as the client waits."""
    _producer(peer, name)
    for content in (b"first", b"fail 1 time", b"last"):
        _send(peer, name, content, message_group="a")
    consumer = _push(peer, name)
    expected = ["first", "fail 1 time", "fail 1 time", "last"]
    if peer.language == "node":
        expected.remove("fail 1 time")  # it gives a message up at its first failure
    seen = [text(one) for one in peer.await_messages(consumer, lambda messages: len(messages) >= len(expected), WAIT_S)]
    if peer.language == "go":  # it goes on with the messages behind meanwhile
        assert sorted(seen) == sorted(expected)
    else:
        assert seen == expected


def delay(peer: Driver, stage: Stage, name: str) -> None:
    """A delayed message comes at its time, never before it."""
    _producer(peer, name)
    consumer = _push(peer, name)
    due_ms = (int(time.time()) + DELAY_S) * 1000
    _send(peer, name, b"later", delivery_ms=due_ms)
    (message,) = peer.await_messages(consumer, lambda messages: len(messages) >= 1, WAIT_S)
    early_ms = due_ms - time.time() * 1000
    assert early_ms <= 0, f"came {early_ms:.0f} ms early"
    assert message["delivery_ms"] == due_ms


def recall(peer: Driver, stage: Stage, name: str) -> None:
    """A recalled message doesn't come; its neighbor does."""
    _producer(peer, name)
    consumer = _push(peer, name)
    due_ms = (int(time.time()) + DELAY_S + 2) * 1000
    recalled = _send(peer, name, b"recalled", delivery_ms=due_ms)
    _send(peer, name, b"kept", delivery_ms=due_ms + TIMER_STEP_MS)
    assert peer.call("recall", name=f"{name}-producer", topic=name, handle=recalled["handle"]) == recalled["id"]
    seen = peer.await_messages(consumer, lambda messages: len(messages) >= 1, WAIT_S)
    assert [text(message) for message in seen] == ["kept"]


def transaction(peer: Driver, stage: Stage, name: str) -> None:
    """A committed message comes, a rolled back one doesn't."""
    _producer(peer, name)
    consumer = simple(peer, name)
    for content, commit in ((b"a rollback", False), (b"a commit", True)):
        sent = _send(peer, name, content, transaction=True, tag="TagT", keys=["k"])
        peer.call("end", id=sent["id"], commit=commit)
    (message,) = collect(peer, consumer, 1)
    assert (text(message), message["id"], message["tag"]) == ("a commit", sent["id"], "TagT")
    assert _receive(peer, consumer) == []


def orphans(peer: Driver, stage: Stage, name: str) -> None:
    """The server asks the producer about transactions that nobody ended."""
    _producer(peer, name)
    consumer = simple(peer, name)
    _send(peer, name, b"left for rollback", transaction=True)
    sent = _send(peer, name, b"left for commit", transaction=True)
    (message,) = collect(peer, consumer, 1)
    assert (text(message), message["id"]) == ("left for commit", sent["id"])


def dead_letter(peer: Driver, stage: Stage, name: str) -> None:
    """A message that always fails comes again once, then it is a dead letter with all its fields."""
    _producer(peer, name)
    consumer = _push(peer, name)
    sent = _send(peer, name, b"fail 9 times", tag="TagA", keys=["k1", "k2"], properties=PROPERTIES)
    letters = f"%DLQ%{name}"
    probe.wait_until("the dead letter", lambda: _stored_count(stage.server, letters) == 1)
    seen = peer.messages(consumer)
    assert [message["attempt"] for message in seen] == [1, 2]
    assert {message["id"] for message in seen} == {sent["id"]}
    (letter,) = tail(stage.server, "--dead-letters", name, "--count", "1")
    assert (letter["message_id"], letter["tags"], letter["body"]) == (sent["id"], "TagA", "fail 9 times")
    assert sorted(letter["keys"].split()) == ["k1", "k2"]
    assert letter["properties"].items() >= PROPERTIES.items()


def _stored_count(server: GrpcServer, topic: str) -> int:
    if probe.call(server.namesrv, probe.GET_ROUTE, {"topic": topic}).code != 0:
        return 0
    return probe.max_offset(server.broker, topic, 0)


def tail(server: GrpcServer, *arguments: str) -> list[Json]:
    command = [sys.executable, "-m", "pymq", "tail", *arguments]
    command += ["--from", "start", "--namesrv", server.namesrv, "-o", "jsonl"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def tags(peer: Driver, stage: Stage, name: str) -> None:
    """A consumer gets the messages of its tags only."""
    _filtered(peer, name, tags="Tag0 || Tag2")


def sql(peer: Driver, stage: Stage, name: str) -> None:
    """A consumer gets the messages that its expression matches only."""
    _filtered(peer, name, sql="number IN ('0', '2') AND TAGS IS NOT NULL")


def _filtered(peer: Driver, name: str, **filters: str) -> None:
    _producer(peer, name)
    consumer = simple(peer, name, **filters)
    for i in range(12):
        _send(peer, name, str(i).encode(), tag=f"Tag{i % 3}", properties={"number": str(i % 3)})
    seen = collect(peer, consumer, 8)
    assert sorted(int(text(message)) for message in seen) == [i for i in range(12) if i % 3 != 1]


def big_body(peer: Driver, stage: Stage, name: str) -> None:
    """The largest body goes there and back; a larger one is refused."""
    _producer(peer, name)
    consumer = simple(peer, name)
    content = os.urandom(BODY_BYTES_MAX - (FRAME_BYTES if peer.language in READS_FRAMES_OF_4_MIB else 0))
    _send(peer, name, content)
    (message,) = collect(peer, consumer, 1)
    assert body(message) == content
    _refused(peer, name, bytes(BODY_BYTES_MAX + 1))


def _refused(peer: Driver, name: str, message: bytes, **fields: Any) -> None:
    try:
        _send(peer, name, message, **fields)
    except DriverError:
        return
    raise AssertionError(f"{peer.language}: {message[:40]!r} with {fields} was sent")


def wrong_type(peer: Driver, stage: Stage, name: str) -> None:
    """A topic takes messages of its type only."""
    _producer(peer, name)
    _refused(peer, name, b"no message group")
    _send(peer, name, b"right", message_group="a")


def invisible(peer: Driver, stage: Stage, name: str) -> None:
    """A message that was not acknowledged in its time comes again, with its next number, and not earlier."""
    _producer(peer, name)
    consumer = simple(peer, name)
    sent = _send(peer, name, b"again")
    seen: list[Json] = []
    probe.wait_until("the first delivery", lambda: seen.extend(_receive(peer, consumer)) or seen)
    peer.call("change", name=consumer, id=sent["id"], seconds=2)
    changed_at = time.monotonic()
    (again,) = collect(peer, consumer, 1)
    assert time.monotonic() - changed_at >= 2
    assert (again["id"], again["attempt"]) == (sent["id"], 2)


def to_remoting(peer: Driver, stage: Stage, name: str) -> None:
    """A remoting client and `pymq tail` read what a gRPC client sent."""
    begin_ms = time.time() * 1000
    consumer = f"{name}-classic"
    stage.classic.call("classic_push", name=consumer, group=name, topic=name)
    _producer(peer, name)
    content = "hello 消息 🚀"
    sent = _send(peer, name, content.encode(), tag="TagA", keys=["k1", "k2"], properties=PROPERTIES)
    (message,) = stage.classic.await_messages(consumer, lambda messages: len(messages) >= 1, WAIT_S)
    _check_fields(message, sent, name, begin_ms)
    assert body(message) == content.encode()
    (shown,) = tail(stage.server, name, "--count", "1")
    assert (shown["message_id"], shown["tags"], shown["body"]) == (sent["id"], "TagA", content)
    stage.classic.call("classic_close", name=consumer)


def from_remoting(peer: Driver, stage: Stage, name: str) -> None:
    """A gRPC client reads what a remoting client sent."""
    begin_ms = time.time() * 1000
    consumer = simple(peer, name)
    producer = f"{name}-classic"
    stage.classic.call("classic_producer", name=producer)
    content = "hello 消息 🚀".encode()
    fields = {"tag": "TagA", "keys": ["k1", "k2"], "properties": PROPERTIES}
    sent_id = stage.classic.call("classic_send", name=producer, topic=name, body=content, **fields)
    (message,) = collect(peer, consumer, 1)
    _check_fields(message, {"id": sent_id}, name, begin_ms)
    assert body(message) == content
    stage.classic.call("classic_close", name=producer)


def compressed(peer: Driver, stage: Stage, name: str) -> None:
    """A gRPC client reads what a remoting client compressed by zlib; and both what a gRPC client compressed by gzip."""
    consumer = simple(peer, name)
    classic = f"{name}-classic"
    stage.classic.call("classic_producer", name=classic)
    content = b"a body that gets smaller " * 4000
    stage.classic.call("classic_send", name=classic, topic=name, body=content, tag="", keys=["k"], properties={})
    (message,) = collect(peer, consumer, 1)
    assert body(message) == content
    stage.classic.call("classic_close", name=classic)
    if stage.server.kind == "apache":  # it keeps gzip, which remoting clients don't inflate
        return
    probe.create_group(stage.server.broker, f"{name}-2", **GROUP)
    stage.classic.call("classic_push", name=f"{name}-2", group=f"{name}-2", topic=name)
    asyncio.run(_send_packed(stage.server.endpoint, name, content))
    assert [body(each) for each in collect(peer, consumer, 3)] == [content] * 3
    stage.classic.await_messages(f"{name}-2", lambda found: [body(each) for each in found] == [content] * 4, WAIT_S)
    stage.classic.call("classic_close", name=f"{name}-2")


async def _send_packed(endpoint: str, topic: str, content: bytes) -> None:
    """Send a message, and two in one request, compressed by gzip: no client in its present version does so itself."""
    client = RawClient(endpoint, f"{topic}-raw")
    packed = gzip.compress(content)
    for count in (1, 2):
        messages = [client.message(topic, packed, body_encoding=Encoding.GZIP) for _ in range(count)]
        answer = await client.call("SendMessage", SendMessageRequest(messages=messages))
        assert answer.status.code == Code.OK
    await client.close()


def slow(peer: Driver, stage: Stage, name: str) -> None:
    """A listener that takes longer than its receipt lasts gets its message once: the server renews the receipt."""
    _producer(peer, name)
    consumer = _push(peer, name)
    _send(peer, name, f"slow {SLOW_S} seconds".encode())
    peer.await_messages(consumer, lambda messages: len(messages) >= 1, WAIT_S)
    begun_s = time.monotonic()
    if stage.server.kind == PymqServer.kind:
        probe.wait_until("the acknowledgement", lambda: held_count(stage.server.broker, name) == 0)
        assert time.monotonic() - begun_s >= SLOW_S - 1
    else:  # it does not say what is acknowledged
        probe.wait_until("the listener to end", lambda: time.monotonic() - begun_s > SLOW_S + CLOCK_STEP_MS / 1000)
    assert [text(message) for message in peer.messages(consumer)] == [f"slow {SLOW_S} seconds"]


def held_count(broker: str, group: str) -> int:
    """Return the number of messages that the group's members hold."""
    reply = probe.call(broker, GET_CONSUME_STATS, {"consumerGroup": group})
    assert reply.code == 0, reply
    return sum(int(count) for count in re.findall(rb'"pymqInvisible":(\d+)', reply.body))


def before_restart(peer: Driver, name: str) -> None:
    """Start a producer and a push consumer, and see that they work."""
    _producer(peer, name)
    consumer = _push(peer, name)
    _send(peer, name, b"before")
    peer.await_messages(consumer, lambda messages: [text(one) for one in messages] == ["before"], WAIT_S)


def after_restart(peer: Driver, name: str, content: str) -> None:
    """See that the same two go on, by a message with this content; a send that met the restart may fail."""

    def sent() -> bool:
        try:
            return bool(_send(peer, name, content.encode()))
        except DriverError:
            return False

    probe.wait_until("a send after the restart", sent)
    peer.await_messages(f"{name}-push", lambda messages: any(text(one) == content for one in messages), WAIT_S)


Scenario = Callable[[Driver, Stage, str], None]
SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        slow, dead_letter, invisible, transaction, orphans, send_and_receive, recall, delay, fifo, fifo_failure,
        push, to_remoting,
        from_remoting, compressed, big_body, tags, sql, wrong_type,
    )
}  # fmt: skip
# Rust's client has no push consumer, no change of the invisible time, and no recall.
LEFT_OUT = {
    "rust": {"slow", "dead_letter", "invisible", "recall", "delay", "fifo", "fifo_failure", "push"},
}


def scenarios_of(language: str) -> list[str]:
    """Return the scenarios that a client can take part in."""
    return [scenario for scenario in SCENARIOS if scenario not in LEFT_OUT.get(language, ())]
