"""Clients in forked and spawned processes, with real processes and a real broker."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pymq.client import Message, Producer, PushConsumer, sync
from pymq.errors import ClosedError, UnreachableError, UsageError
from pymq.model.tables import TopicConfig
from pymq.testing.standalone import StandaloneProcess
from tests.client.scenarios import Inbox, fresh, until

CHILD_TIME_MAX_S = 30

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of (fork|forkpty):DeprecationWarning"),  # Python 3.12
]


@pytest.fixture(scope="module")
def servers() -> Iterator[StandaloneProcess]:
    with StandaloneProcess() as servers:
        yield servers


@pytest.fixture(scope="module")
def namesrv(servers: StandaloneProcess) -> str:
    return servers.namesrv


def in_child(work: Callable[[], object]) -> None:
    """Run ``work`` in a forked child, and fail with its exception. A child that hangs is ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(CHILD_TIME_MAX_S)
        problem = ""
        try:
            work()
        except BaseException:
            problem = traceback.format_exc()
        os.write(writing, problem.encode()[-4000:])
        os._exit(1 if problem else 0)
    os.close(writing)
    with os.fdopen(reading) as said:
        problem = said.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, problem or f"the child hung for {CHILD_TIME_MAX_S} s or crashed: status {status}"


def send_from_new_client(namesrv: str, topic: str) -> None:
    with sync.Producer(fresh("P"), namesrv=namesrv) as producer:
        producer.send(Message(topic, "from a process of its own"))


def test_a_client_that_a_forked_child_makes_works(namesrv: str) -> None:
    topic = fresh("T")
    with sync.Producer(fresh("P"), namesrv=namesrv) as producer:
        producer.send(Message(topic, "starts the loop's thread"))
        in_child(lambda: send_from_new_client(namesrv, topic))


def test_time_outs_hold_in_a_forked_child() -> None:
    with sync.Producer("P", namesrv="127.0.0.1:1") as producer:

        def fails() -> None:
            for one in (producer, sync.Producer("P", namesrv="127.0.0.1:1")):
                with pytest.raises(UnreachableError, match="no name server answers"):
                    one.send(Message("T", "x"))

        in_child(fails)


def test_a_forked_child_reopens_what_the_parent_used(servers: StandaloneProcess) -> None:
    namesrv, topic, group = servers.namesrv, fresh("T"), fresh("P")
    with (
        sync.Producer(group, namesrv=namesrv) as producer,
        sync.PullConsumer(fresh("G"), namesrv=namesrv) as pull,
        sync.Admin(namesrv) as admin,
    ):
        admin.topics.put(servers.broker, TopicConfig(topic_name=topic))  # answered when the name server knows it
        sent = producer.send(Message(topic, "parent"))
        parent_id = producer._client.client_id
        assert sent.queue in pull.queues(topic)

        def child() -> None:
            again = producer.send(Message(topic, "child"), queue=sent.queue)
            assert again.message_id != sent.message_id and producer._client.client_id != parent_id
            assert sent.queue in pull.queues(topic) and topic in admin.topics.names()
            for client in (producer, pull):
                client.stop()
            admin.close()

        in_child(child)
        assert producer.send(Message(topic, "parent again"), queue=sent.queue).queue_offset == sent.queue_offset + 2
        assert producer._client.client_id == parent_id
        assert sent.queue in pull.queues(topic) and topic in admin.topics.names()


def test_a_client_that_the_child_only_stops_goes_on_in_the_parent(namesrv: str) -> None:
    topic = fresh("T")
    with sync.Producer(fresh("P"), namesrv=namesrv) as producer, sync.Admin(namesrv) as admin:
        producer.send(Message(topic, "x"))
        admin.topics.names()
        in_child(lambda: (producer.stop(), admin.close()))
        producer.send(Message(topic, "x"))
        assert topic in admin.topics.names()


def test_a_running_push_consumer_stays_with_the_parent(namesrv: str) -> None:
    topic, inbox = fresh("T"), Inbox()
    consumer = sync.PushConsumer(fresh("G"), namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic)
    with consumer, sync.Producer(fresh("P"), namesrv=namesrv) as producer:

        def child() -> None:
            for call in (consumer.commit, consumer.start, lambda: consumer.assigned, lambda: consumer.subscribe("U")):
                with pytest.raises(ClosedError, match="make a new PushConsumer in this process"):
                    call()
            consumer.stop()

        in_child(child)
        producer.send(Message(topic, "x"))
        asyncio.run(until(lambda: inbox.messages, "the message, in the parent"))


def test_an_async_client_that_the_parent_used_raises_at_once_in_a_child(namesrv: str) -> None:
    async def parent() -> None:
        topic = fresh("T")
        async with Producer(fresh("P"), namesrv=namesrv) as producer:
            await producer.send(Message(topic, "x"))
            consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=lambda messages: None)
            consumer.subscribe(topic)
            async with consumer:

                async def child() -> None:
                    calls = [
                        lambda: producer.send(Message(topic, "x")),
                        lambda: producer.send(Message(fresh("T"), "x")),
                        producer.start,
                        consumer.commit,
                        consumer.start,
                    ]
                    for call in calls:
                        with pytest.raises(ClosedError, match=f"process {parent_id}, which forked this process"):
                            await call()
                    await producer.stop()
                    await consumer.stop()

                parent_id = os.getpid()
                in_child(lambda: asyncio.run(child()))
            await producer.send(Message(topic, "x"))

    asyncio.run(parent())


def test_a_client_that_was_not_used_before_the_fork_has_its_own_name_in_each_process(namesrv: str) -> None:
    producer, topic = Producer(fresh("P"), namesrv=namesrv), fresh("T")
    parent_id = producer.client_id

    async def send() -> None:
        async with producer:
            await producer.send(Message(topic, "x"))

    def child() -> None:
        assert producer.client_id != parent_id and f"@{os.getpid()}#" in producer.client_id
        asyncio.run(send())

    in_child(child)
    assert producer.client_id == parent_id
    asyncio.run(send())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_send(namesrv: str, method: str) -> None:
    topic = fresh("T")
    with sync.Producer(fresh("P"), namesrv=namesrv) as producer:
        producer.send(Message(topic, "x"))
        context: Any = multiprocessing.get_context(method)
        process = context.Process(target=send_from_new_client, args=(namesrv, topic))
        process.start()
        process.join(CHILD_TIME_MAX_S)
        if process.is_alive():
            process.kill()
            process.join()
        assert process.exitcode == 0


def test_a_client_can_not_be_passed_to_another_process() -> None:
    with (
        sync.Producer("P", namesrv="127.0.0.1:1") as producer,
        pytest.raises(UsageError, match="make a new Producer there"),
    ):
        pickle.dumps(producer)
