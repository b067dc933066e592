"""kombu's own classes on a real broker: queues, settlements, prefetch, priorities, exchanges, ETA, hostile bodies."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue, binding
from kombu.exceptions import ChannelError, OperationalError
from pymq_celery import fetching, work
from pymq_celery.names import exchange_topic, queue_topic

from pymq.client import Message
from pymq.client.sync import Admin, SimpleConsumer
from pymq.client.sync import Producer as PymqProducer
from pymq.errors import NotFoundError, RefusedError, UnreachableError, UsageError
from pymq.testing.broker import TestBroker

Connect = Callable[..., Connection]
WAIT_S = 10.0


def task_queue(name: str = "tasks") -> Queue:
    return Queue(name, Exchange(name, type="direct"), routing_key=name)


def put(connection: Connection, queue: Queue, *bodies: object, **properties: Any) -> None:
    properties.setdefault("serializer", "json")
    for body in bodies:
        Producer(connection.default_channel).publish(
            body, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue], **properties
        )


def json_producer(connection: Connection, exchange: Exchange | None = None) -> Producer:
    return Producer(connection.default_channel, exchange, serializer="json")


class Drained:
    """A consumer that keeps what it gets, without an acknowledgement."""

    def __init__(self, connection: Connection, *queues: Queue, prefetch_count: int = 0, no_ack: bool = False) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.consumer = Consumer(
            connection.channel(), list(queues), on_message=self.messages.append, accept=["json", "pickle"]
        )
        if prefetch_count:
            self.consumer.qos(prefetch_count=prefetch_count)
        self.consumer.consume(no_ack=no_ack)

    def wait(self, count: int) -> list[Any]:
        end_s = time.monotonic() + WAIT_S
        while len(self.messages) < count:
            self.connection.drain_events(timeout=max(0.0, end_s - time.monotonic()))
        return [message.payload for message in self.messages]

    def quiet(self, seconds: float = 0.3) -> bool:
        before = len(self.messages)
        try:
            self.connection.drain_events(timeout=seconds)
        except TimeoutError:
            return True
        return len(self.messages) == before


def dead_letters(broker: TestBroker, prefix: str, count: int) -> list[bytes]:
    """Return the bodies of a group's dead letters, once there are so many."""
    bodies: list[bytes] = []
    end_s = time.monotonic() + WAIT_S
    with SimpleConsumer("looker", namesrv=broker.namesrv) as consumer:
        while len(bodies) < count and time.monotonic() < end_s:
            with contextlib.suppress(NotFoundError):  # the first dead letter makes the topic
                for received in consumer.receive(f"%DLQ%{prefix}", 32, wait_ms=100):
                    bodies.append(received.content())
                    consumer.ack(received)
    return bodies


@pytest.mark.parametrize(
    "program",
    [
        "from celery import Celery; connection = Celery(broker='pymq://localhost').connection()",
        "import pymq_celery, kombu; connection = kombu.Connection('pymq://localhost')",
    ],
)
def test_a_program_needs_no_more_than_the_url(program: str) -> None:
    show = "; print(type(connection.transport).__module__, connection.as_uri())"
    done = subprocess.run([sys.executable, "-c", program + show], capture_output=True, text=True, timeout=60)
    assert done.stdout == "pymq_celery.transport pymq://localhost\n", done.stderr


def test_a_message_goes_from_a_producer_to_a_consumer(connect: Connect) -> None:
    queue = task_queue()
    put(connect(), queue, {"a": 1}, headers={"task": "proj.add", "id": "4711"})
    drained = Drained(connect(), queue)
    assert drained.wait(1) == [{"a": 1}]
    message = drained.messages[0]
    assert message.headers == {"task": "proj.add", "id": "4711"}
    assert message.delivery_info == {"exchange": "tasks", "routing_key": "tasks", "redelivered": False}


def test_a_binary_body_comes_back_as_it_was(connect: Connect) -> None:
    queue = task_queue()
    put(connect(), queue, {"a": b"\x00\xff"}, serializer="pickle")
    assert Drained(connect(), queue).wait(1) == [{"a": b"\x00\xff"}]


def test_a_large_body_comes_back_as_it_was(connect: Connect) -> None:
    queue, text = task_queue(), os.urandom(500_000).hex()
    put(connect(), queue, text)
    assert Drained(connect(), queue).wait(1) == [text]


def test_operators_find_a_task_by_its_id_and_its_name(connect: Connect, broker: TestBroker, prefix: str) -> None:
    put(connect(), task_queue(), {"a": 1}, headers={"task": "proj.add", "id": "4711"})
    with SimpleConsumer("looker", namesrv=broker.namesrv) as consumer:
        (received,) = consumer.receive(queue_topic(prefix, "tasks"), expression="proj.add", wait_ms=5000)
    assert received.message.keys == "4711"
    assert json.loads(json.loads(received.content())["body"]) == {"a": 1}


def test_an_acknowledged_message_does_not_come_again(connect: Connect) -> None:
    queue = task_queue()
    first = connect(visibility_timeout=2)
    put(first, queue, 1)
    drained = Drained(first, queue)
    drained.wait(1)
    drained.messages[0].ack()
    first.release()
    assert connect().default_channel.queue_declare("tasks", passive=True).message_count == 0
    assert Drained(connect(), queue).quiet()


def test_what_a_closed_connection_held_comes_again_marked_as_redelivered(connect: Connect) -> None:
    queue = task_queue()
    first = connect()
    put(first, queue, 1, 2, 3)
    Drained(first, queue).wait(3)
    first.release()
    drained = Drained(connect(), queue)
    assert sorted(drained.wait(3)) == [1, 2, 3]
    assert all(message.delivery_info["redelivered"] for message in drained.messages)


def test_a_rejected_message_is_requeued_or_becomes_a_dead_letter(
    connect: Connect, broker: TestBroker, prefix: str
) -> None:
    queue = task_queue()
    connection = connect()
    put(connection, queue, "again", "never")
    drained = Drained(connection, queue)
    drained.wait(2)
    for message in drained.messages:
        message.reject(requeue=message.payload == "again")
    assert drained.wait(3)[2] == "again"
    (body,) = dead_letters(broker, prefix, 1)
    assert json.loads(body)["body"] == '"never"'
    assert drained.quiet()


def test_a_held_message_is_renewed_until_it_is_settled(connect: Connect) -> None:
    queue = task_queue()
    connection = connect(visibility_timeout=1)
    put(connection, queue, 1)
    Drained(connection, queue).wait(1)
    assert Drained(connect(), queue).quiet(1.5)


def test_a_channel_holds_no_more_than_its_prefetch_count(connect: Connect) -> None:
    queue = task_queue()
    connection = connect()
    put(connection, queue, *range(20))
    drained = Drained(connection, queue, prefetch_count=3)
    drained.wait(3)
    assert drained.quiet()
    drained.messages[0].ack()
    drained.wait(4)
    assert drained.quiet()
    assert connect().default_channel.queue_declare("tasks", passive=True).message_count == 16
    drained.consumer.qos(prefetch_count=20)
    drained.wait(20)


def test_a_prefetch_count_of_one_holds_for_many_queues_together(connect: Connect) -> None:
    queues = [task_queue(f"q{number}") for number in range(5)]
    connection = connect(poll_ms=50)
    drained = Drained(connection, *queues, prefetch_count=1)
    for queue in queues * 3:
        put(connection, queue, queue.name)
    for count in range(1, 16):
        drained.wait(count)
        assert len(drained.messages) == count
        drained.messages[-1].ack()
    assert sorted(message.payload for message in drained.messages) == sorted([queue.name for queue in queues] * 3)


def test_a_cancelled_consumer_leaves_messages_to_others(connect: Connect) -> None:
    queue = task_queue()
    cancelled = Drained(connect(), queue, prefetch_count=4)
    assert cancelled.quiet()  # its pop waits at the broker
    cancelled.consumer.cancel()
    put(connect(), queue, *range(8))
    assert sorted(Drained(connect(), queue).wait(8)) == list(range(8))
    assert cancelled.quiet()


def test_two_consumers_of_one_channel_share_a_queue(connect: Connect) -> None:
    queue = task_queue()
    connection = connect()
    drained = Drained(connection, queue, prefetch_count=4)
    second = Consumer(drained.consumer.channel, [queue], on_message=drained.messages.append, accept=["json"])
    second.consume()
    for number in range(10):
        put(connection, queue, number)
        drained.wait(number + 1)
        drained.messages[-1].ack()
    assert sorted(message.payload for message in drained.messages) == list(range(10))
    assert drained.quiet()


def test_without_a_prefetch_count_all_messages_come(connect: Connect) -> None:
    queue = task_queue()
    connection = connect()
    put(connection, queue, *range(work.UNDELIVERED_COUNT_MAX + 30))
    assert sorted(Drained(connection, queue).wait(work.UNDELIVERED_COUNT_MAX + 30)) == list(range(94))


def test_urgent_messages_come_first(connect: Connect) -> None:
    queue = task_queue()
    connection = connect(priority_steps=[0, 3, 6, 9])
    for priority in (9, 4, 0, 10**30, -5, 3):
        put(connection, queue, priority, priority=priority)
    drained = Drained(connection, queue, prefetch_count=1)
    for count in range(1, 7):
        drained.wait(count)
        drained.messages[-1].ack()
    order = [message.payload for message in drained.messages]
    assert set(order[:2]) == {0, -5}
    assert set(order[2:4]) == {3, 4}
    assert set(order[4:]) == {9, 10**30}


def test_a_purge_takes_all_that_wait(connect: Connect) -> None:
    queue = task_queue()
    connection = connect()
    put(connection, queue, *range(100))
    assert queue(connection).purge() == 100
    assert Drained(connection, queue).quiet()


def test_get_returns_one_message_or_none(connect: Connect) -> None:
    connection = connect()
    queue = task_queue()(connection)
    queue.declare()
    assert queue.get() is None
    put(connection, queue, 1, 2)
    found = [queue.get(no_ack=True).payload, queue.get(no_ack=True).payload]
    assert sorted(found) == [1, 2]
    assert queue.get() is None


def test_a_queue_that_does_not_exist_is_said_so(connect: Connect) -> None:
    with pytest.raises(ChannelError, match="no queue 'missing'"):
        connect().default_channel.queue_declare("missing", passive=True)


def test_a_queue_is_deleted_and_made_again_while_it_is_consumed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fetching, "LONG_POLL_MS", 200)
    monkeypatch.setattr(fetching, "RETRY_PAUSE_S", 0.05)
    monkeypatch.setattr(work, "RETRY_PAUSE_S", 0.05)
    queue = task_queue()
    consuming, sending = connect(), connect()
    put(sending, queue, 1)
    drained = Drained(consuming, queue)
    drained.wait(1)
    connect().default_channel.queue_delete("tasks")
    put(sending, queue, 2, 3)
    assert sorted(drained.wait(3)) == [1, 2, 3]


def test_a_queue_with_messages_is_not_deleted_if_only_an_empty_one_may_be(connect: Connect) -> None:
    connection = connect()
    put(connection, task_queue(), 1)
    connection.default_channel.queue_delete("tasks", if_empty=True)
    assert connection.default_channel.queue_declare("tasks", passive=True).message_count == 1


# -- exchanges --------------------------------------------------------------------------------------------------------


def test_a_fanout_exchange_reaches_every_private_queue(connect: Connect) -> None:
    exchange = Exchange("news", type="fanout", durable=False)
    readers = [Drained(connect(), Queue(f"r{n}", exchange, auto_delete=True, durable=False)) for n in range(3)]
    put(connect(), Queue("unread", exchange, auto_delete=True, durable=False), "a", "b", delivery_mode=1)
    assert [reader.wait(2) for reader in readers] == [["a", "b"]] * 3


def test_a_fanout_exchange_reaches_task_queues_that_the_sender_declares(connect: Connect) -> None:
    exchange = Exchange("news", type="fanout")
    queues = [Queue(name, exchange) for name in ("one", "two")]
    connection = connect()
    for queue in queues:
        queue(connection).declare()
    put(connection, queues[0], "x")
    assert [Drained(connect(), queue).wait(1) for queue in queues] == [["x"], ["x"]]


def test_private_queues_of_a_topic_exchange_get_what_fits(connect: Connect) -> None:
    exchange = Exchange("events", type="topic")
    reader = Drained(connect(), Queue("r", exchange, routing_key="worker.#", auto_delete=True, durable=False))
    sender = json_producer(connect(), exchange)
    for key in ("task.done", "worker.online", "worker.beat.slow"):
        sender.publish(key, routing_key=key, declare=[exchange], delivery_mode=1)
    assert reader.wait(2) == ["worker.online", "worker.beat.slow"]
    assert reader.quiet()


@pytest.mark.parametrize(("kind", "keys"), [("topic", ["task.#", "worker.#"]), ("direct", ["task.done", "worker.up"])])
def test_a_private_queue_with_several_bindings_gets_all_of_them(connect: Connect, kind: str, keys: list[str]) -> None:
    exchange = Exchange("events", type=kind)
    bindings = [binding(exchange, routing_key=key) for key in keys]
    reader = Drained(connect(), Queue("r", exchange, bindings=bindings, exclusive=True))
    sender = json_producer(connect(), exchange)
    for key in ("task.done", "worker.up", "beat.slow"):
        sender.publish(key, routing_key=key, declare=[exchange], delivery_mode=1)
    assert reader.wait(2) == ["task.done", "worker.up"]
    assert reader.quiet()


def test_a_reply_reaches_a_private_queue_by_its_name_alone(connect: Connect) -> None:
    asking = connect()
    replies = Queue("answers of x/ü", exclusive=True)(asking)
    replies.declare()
    json_producer(connect()).publish("hello", routing_key="answers of x/ü", delivery_mode=1)
    assert Drained(asking, replies).wait(1) == ["hello"]


def test_what_came_before_a_private_queue_is_read_is_not_lost(connect: Connect) -> None:
    replies = Queue("late", Exchange(""), auto_delete=True, expires=60.0)
    replies(connect()).declare()
    json_producer(connect()).publish("early", routing_key="late", delivery_mode=1)
    assert replies(connect()).get(no_ack=True).payload == "early"
    assert replies(connect()).get() is None


def test_a_message_that_no_known_queue_takes_is_refused(connect: Connect) -> None:
    exchange = Exchange("orders", type="topic")
    with pytest.raises(UsageError, match=r"no queue is known here for exchange 'orders' with routing key 'a\.b'"):
        json_producer(connect(), exchange).publish(1, routing_key="a.b", declare=[exchange])


def test_a_task_queue_that_another_process_declared_is_reached_by_its_name(connect: Connect) -> None:
    queue = task_queue()
    drained = Drained(connect(), queue)
    json_producer(connect()).publish("by name", routing_key="tasks")
    assert drained.wait(1) == ["by name"]


# -- ETA --------------------------------------------------------------------------------------------------------------


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_task_with_an_eta_comes_when_it_is_due(connect: Connect) -> None:
    queue = task_queue()
    connection = connect()
    drained = Drained(connection, queue)
    put(connection, queue, "tomorrow", headers={"eta": in_seconds(86_400)})
    put(connection, queue, "now", headers={"eta": in_seconds(-5)})
    put(connection, queue, "no time zone", headers={"eta": "2099-01-01T00:00:00"})
    put(connection, queue, "no time", headers={"eta": "soon"})
    assert set(drained.wait(3)) == {"now", "no time zone", "no time"}
    begun_s = time.monotonic()
    put(connection, queue, "soon", headers={"eta": in_seconds(0.7)})
    assert drained.wait(4)[-1] == "soon"
    assert time.monotonic() - begun_s > 0.6


def test_a_task_beyond_the_largest_delay_is_put_off_again(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "EARLY_MS_MAX", 100)
    queue = task_queue()
    connection = connect(delay_max_s=0.3)
    drained = Drained(connection, queue)
    begun_s = time.monotonic()
    put(connection, queue, "later", headers={"eta": in_seconds(0.9)})
    drained.wait(1)
    assert time.monotonic() - begun_s > 0.7
    drained.messages[0].ack()
    assert drained.quiet()


def test_the_worker_holds_a_task_with_an_eta_when_brokers_take_no_timers(prefix: str) -> None:
    with (
        TestBroker(timerWheelEnable="false") as broker,
        Connection(f"pymq://{broker.namesrv}/{prefix}") as connection,
    ):
        put(connection, task_queue(), "early", headers={"eta": in_seconds(3600)})
        assert Drained(connection, task_queue()).wait(1) == ["early"]


# -- hostile and odd input --------------------------------------------------------------------------------------------

BAD_BODIES = [
    b" ",
    b"\xff\xfe\x00",
    b"[1, 2]",
    b"{}",
    b'{"properties": 7}',
    b"[" * 100_000,
    b'{"properties": {"body_encoding": "rot13"}, "body": "x"}',
    b'{"properties": {"body_encoding": "base64"}, "body": "!"}',
    b'{"properties": {"delivery_info": []}}',
    b'{"properties": {}, "headers": [1]}',
    b'{"properties": {}, "body": {"a": 1}}',
    b'{"properties": {}, "x": {"__type__": "uuid", "__value__": 7}}',
]


def test_a_body_that_is_not_kombus_becomes_a_dead_letter_and_the_rest_goes_on(
    connect: Connect, broker: TestBroker, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = task_queue()
    connection = connect()
    put(connection, queue, "before")
    with PymqProducer("stranger", namesrv=broker.namesrv) as stranger:
        for body in BAD_BODIES:
            stranger.send(Message(queue_topic(prefix, "tasks"), body))
    put(connection, queue, "after")
    assert sorted(Drained(connection, queue).wait(2)) == ["after", "before"]
    assert sorted(dead_letters(broker, prefix, len(BAD_BODIES))) == sorted(BAD_BODIES)
    assert caplog.text.count("becomes a dead letter: its") == len(BAD_BODIES)


def test_a_broadcast_that_is_not_kombus_is_skipped(
    connect: Connect, broker: TestBroker, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    exchange = Exchange("news", type="fanout")
    private = Queue("r", exchange, exclusive=True)
    reader = Drained(connect(), private)
    with PymqProducer("stranger", namesrv=broker.namesrv) as stranger:
        stranger.send(Message(exchange_topic(prefix, "news"), b"{"))
    put(connect(), private, "after", delivery_mode=1)
    assert reader.wait(1) == ["after"]
    assert "is skipped: its body is no JSON text" in caplog.text


def test_a_body_above_the_brokers_limit_is_refused_with_it(prefix: str) -> None:
    with TestBroker(maxMessageSize="65536") as broker, Connection(f"pymq://{broker.namesrv}/{prefix}") as connection:
        for headers in ({}, {"eta": in_seconds(60)}):
            with pytest.raises(RefusedError, match="65536"):
                put(connection, task_queue(), os.urandom(150_000).hex(), headers=headers)
        put(connection, task_queue(), "small", headers={"eta": in_seconds(60)})
        assert Drained(connection, task_queue()).quiet(), "timer messages go on"


def test_a_body_above_the_limit_is_refused_with_the_limit(connect: Connect) -> None:
    with pytest.raises(UsageError, match="the limit is 1024"):
        put(connect(body_size_max_bytes=1024), task_queue(), os.urandom(2000).hex())


@pytest.mark.slow
def test_one_channel_reads_a_thousand_queues(connect: Connect) -> None:
    connection = connect(queue_count=1)
    queues = [Queue(f"q{number}") for number in range(1000)]
    for queue in queues:
        queue(connection).declare()
    drained = Drained(connection, *queues, prefetch_count=8)
    for number in range(0, 1000, 7):
        json_producer(connection).publish(number, routing_key=f"q{number}")
    for count in range(1, 144):
        drained.wait(count)
        drained.messages[-1].ack()
    assert sorted(message.payload for message in drained.messages) == list(range(0, 1000, 7))


def test_odd_names_are_queues_of_their_own(connect: Connect) -> None:
    connection = connect()
    names = ["a.b", "a%2Eb", "a b", "Ünï/ço", "a|1", "a\x00\x06\x16", "-", "x" * 100]
    queues = [Queue(name) for name in names]
    for queue in queues:
        queue(connection).declare()
        json_producer(connection).publish(queue.name, routing_key=queue.name)
    for queue in queues:
        assert queue(connection).get(no_ack=True).payload == queue.name
        assert queue(connection).get() is None


def test_a_name_without_a_topic_is_refused_with_the_limit(connect: Connect) -> None:
    with pytest.raises(UsageError, match=r"needs a topic of 310 characters.*the limit is 127"):
        Queue("." * 100)(connect()).declare()


# -- brokers that come and go -----------------------------------------------------------------------------------------


def test_a_connection_without_a_name_server_fails_as_kombu_expects(connect: Connect) -> None:
    connection = connect("127.0.0.1:1")
    with pytest.raises(connection.recoverable_connection_errors) as raised:
        connection.transport.establish_connection()
    assert isinstance(raised.value, UnreachableError)
    tries: list[object] = []
    with pytest.raises(OperationalError):
        connection.ensure_connection(
            lambda *given: tries.append(given), max_retries=1, interval_start=0, interval_step=0
        )
    assert len(tries) == 1


def test_kombu_falls_back_to_another_cluster(broker: TestBroker, prefix: str) -> None:
    urls = f"pymq://127.0.0.1:1/{prefix};pymq://{broker.namesrv}/{prefix}"
    with Connection(urls) as connection:
        connection.ensure_connection(interval_start=0, interval_step=0)
        put(connection, task_queue(), "there")
        assert task_queue()(connection).get(no_ack=True).payload == "there"
    host, _, port = broker.namesrv.partition(":")
    with Connection(host, transport="pymq", port=int(port), virtual_host=prefix) as connection:
        assert task_queue()(connection).get() is None


def test_messages_survive_a_killed_broker_and_are_acknowledged_after_it(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "RETRY_PAUSE_S", 0.05)
    monkeypatch.setattr(work, "RETRY_PAUSE_S", 0.05)
    queue = task_queue()
    with TestBroker() as broker, Connection(f"pymq://{broker.namesrv}/{prefix}") as connection:
        put(connection, queue, *range(10))
        drained = Drained(connection, queue, prefetch_count=4)
        drained.wait(4)
        broker.kill()
        for message in drained.messages:
            message.ack()
        broker.restart()
        while len(drained.messages) < 10:
            drained.wait(len(drained.messages) + 1)
            drained.messages[-1].ack()
        assert sorted(message.payload for message in drained.messages) == list(range(10))
        connection.release()
        with Connection(f"pymq://{broker.namesrv}/{prefix}") as later:
            assert Drained(later, queue).quiet()


def test_a_forked_child_leaves_the_connection_to_its_parent(connect: Connect) -> None:
    queue = task_queue()
    connection = connect()
    put(connection, queue, 1, 2)
    drained = Drained(connection, queue)
    drained.wait(2)
    child = os.fork()
    if not child:
        try:
            assert not connection.transport.connected
            connection.release()
            with Connection(connection.as_uri(include_password=True)) as own:
                put(own, queue, 3)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    for message in drained.messages:
        message.ack()
    assert drained.wait(3) == [1, 2, 3] or sorted(drained.wait(3)) == [1, 2, 3]


def test_the_topics_are_made_with_the_given_number_of_queues(connect: Connect, broker: TestBroker, prefix: str) -> None:
    connection = connect(queue_count=2, deliveries_max=3)
    task_queue()(connection).declare()
    with Admin(namesrv=broker.namesrv) as admin:
        config = admin.topics.config(broker.address, queue_topic(prefix, "tasks"))
        group = admin.groups.config(broker.address, prefix)
    assert config is not None
    assert config.queue_count == 2
    assert group is not None
    assert group.retry_max_times == 2


def test_a_message_that_fails_too_often_becomes_a_dead_letter(
    connect: Connect, broker: TestBroker, prefix: str
) -> None:
    queue = task_queue()
    connection = connect(deliveries_max=3)
    put(connection, queue, "poison")
    drained = Drained(connection, queue)
    for count in range(1, 4):
        drained.wait(count)
        drained.messages[-1].reject(requeue=True)
    (body,) = dead_letters(broker, prefix, 1)
    assert json.loads(body)["body"] == '"poison"'
    assert drained.quiet()
