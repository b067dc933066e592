"""PymqBroker against a server: what is published arrives, with all that belongs to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from faststream import BaseMiddleware, StreamMessage
from faststream.exceptions import IncorrectState, SetupError, StopConsume
from faststream.middlewares import AckPolicy
from pydantic import BaseModel
from pymq_faststream import (
    PymqBroker,
    PymqMessage,
    PymqPublisher,
    PymqPublishMessage,
    PymqResponse,
    PymqRoute,
    PymqRouter,
)

from pymq.client import Message, Producer
from pymq.errors import UnreachableError, UsageError
from pymq.testing.broker import TestBroker

pytestmark = pytest.mark.anyio
WAIT_S = 20.0
Inbox = asyncio.Queue[Any]


async def taken(inbox: Inbox, count: int) -> list[Any]:
    async with asyncio.timeout(WAIT_S):
        return [await inbox.get() for _ in range(count)]


class Order(BaseModel):
    number: int
    city: str = "Rome"


async def test_bodies_arrive_by_the_annotation_of_the_handler(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic)
    async def handle(order: Order, message: PymqMessage) -> None:
        await inbox.put((order, message))

    async with broker:
        await broker.start()
        sent = await broker.publish(
            Order(number=7),
            topic,
            tags="new",
            keys=["7", "x"],
            headers={"trace": "a1"},
            correlation_id="c1",
            ordering_key="7",
        )
        ((order, message),) = await taken(inbox, 1)
    assert order == Order(number=7)
    assert sent is not None
    assert (message.message_id, message.correlation_id, message.topic) == (sent.message_id, "c1", topic)
    assert (message.tags, message.keys, message.retry_count) == ("new", ["7", "x"], 0)
    assert message.headers == {"trace": "a1", "content-type": "application/json", "correlation_id": "c1"}


@pytest.mark.parametrize("body", [b"\x00\xff", "text", {"a": [1, None]}, 3, None])
async def test_bodies_of_all_kinds_come_back_as_they_were(broker: PymqBroker, topic: str, body: object) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic)
    async def handle(message: PymqMessage) -> None:
        await inbox.put(await message.decode())

    async with broker:
        await broker.start()
        await broker.publish(body, topic)
        assert await taken(inbox, 1) == [body]


async def test_a_result_goes_to_the_publishers_of_the_handler(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic)
    @broker.publisher(f"{topic}-out", tags="done", headers={"by": "publisher", "from": "publisher"})
    async def handle(number: int) -> PymqResponse:
        return PymqResponse(number + 1, headers={"from": "handler"}, keys="k")

    @broker.subscriber(f"{topic}-out", tags="done || other")
    async def look(number: int, message: PymqMessage) -> None:
        await inbox.put((number, message.headers["by"], message.headers["from"], message.tags, message.keys))

    async with broker:
        await broker.start()
        await broker.publish(1, topic)
        assert await taken(inbox, 1) == [(2, "publisher", "handler", "done", ["k"])]


async def test_batches_are_sent_in_one_request_and_come_as_lists(
    server: TestBroker, broker: PymqBroker, topic: str
) -> None:
    server.create_topic(topic, queue_count=1)
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic, batch=True, max_records=10)
    async def handle(numbers: list[int], message: PymqMessage) -> None:
        await inbox.put((numbers, [each.get("n") for each in message.batch_headers]))

    async with broker:
        await broker.start()
        with server.watch(topic=topic) as sends:
            await broker.publish_batch(1, PymqPublishMessage(2, headers={"n": "two"}), 3, topic=topic)
            assert sends.hit_count == 1
        found = await taken(inbox, 1)
        while sum(len(numbers) for numbers, _ in found) < 3:
            found += await taken(inbox, 1)
    assert [number for numbers, _ in found for number in numbers] == [1, 2, 3]
    assert [name for _, names in found for name in names] == [None, "two", None]


async def test_a_batch_publisher_publishes_each_element(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()
    out = broker.publisher(f"{topic}-out", batch=True)

    @broker.subscriber(topic)
    @out
    async def handle(count: int) -> list[int]:
        return list(range(count))

    @broker.subscriber(f"{topic}-out")
    async def look(number: int) -> None:
        await inbox.put(number)

    async with broker:
        await broker.start()
        await broker.publish(3, topic)
        await out.publish(10, 11, ordering_key="x")
        assert sorted(await taken(inbox, 5)) == [0, 1, 2, 10, 11]
        with pytest.raises(TypeError, match="got 2 messages: without batch=True a publisher takes one"):
            await broker.publisher(topic, persistent=False).publish(1, 2)


async def test_a_request_gets_the_result_of_the_handler(broker: PymqBroker, topic: str) -> None:
    @broker.subscriber(topic)
    async def handle(number: int) -> PymqResponse:
        return PymqResponse(number * 2, headers={"h": "1"})

    @broker.subscriber(f"{topic}-silent", no_reply=True)
    async def silent() -> str:
        return "not sent"

    async with broker:
        await broker.start()
        replies = await asyncio.gather(*(broker.request(number, topic, timeout=WAIT_S) for number in range(20)))
        assert [await reply.decode() for reply in replies] == [number * 2 for number in range(20)]
        assert replies[0].headers["h"] == "1"
        publisher = broker.publisher(topic, persistent=False)
        assert await (await publisher.request(4, timeout=WAIT_S)).decode() == 8
        with pytest.raises(TimeoutError, match=f"no reply to the request on topic {topic}-silent within 0.2 s"):
            await broker.request(1, f"{topic}-silent", timeout=0.2)
        with pytest.raises(UsageError, match="a request has neither delay nor ordering key"):
            await broker.request(1, topic, delay_ms=5)


async def test_a_requester_who_is_gone_fails_no_handler(server: TestBroker, broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()
    going = asyncio.Event()

    @broker.subscriber(topic)
    async def handle(message: PymqMessage) -> str:
        await inbox.put(message.retry_count)
        await going.wait()
        return "late"

    async with broker:
        await broker.start()
        async with PymqBroker(server.namesrv, group=f"{topic}-asks", logger=None) as requester:
            with pytest.raises(TimeoutError):
                await requester.request(1, topic, timeout=0.5)
        assert await taken(inbox, 1) == [0]
        going.set()
        await broker.publish(2, topic)
        assert await taken(inbox, 1) == [0]


async def test_reply_to_names_a_topic_for_the_result(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic)
    async def handle(number: int) -> int:
        return number + 1

    @broker.subscriber(f"{topic}-replies")
    async def look(number: int, message: PymqMessage) -> None:
        await inbox.put((number, message.correlation_id))

    async with broker:
        await broker.start()
        await broker.publish(1, topic, reply_to=f"{topic}-replies", correlation_id="c")
        assert await taken(inbox, 1) == [(2, "c")]


@pytest.mark.parametrize("reply_to", ["a.b", "x" * 300, "missing", "%RETRY%other", "SCHEDULE_TOPIC_XXXX"])
async def test_a_reply_to_a_topic_that_cannot_be_fails_no_handler(
    server: TestBroker, broker: PymqBroker, topic: str, reply_to: str
) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic, ordered=True, settings={"suspend_ms": 10})
    async def handle(number: int) -> str:
        await inbox.put(number)
        return "an answer"

    async with broker:
        await broker.start()
        await broker.publish(1, topic, reply_to=reply_to, ordering_key="k")
        await broker.publish(2, topic, ordering_key="k")
        assert await taken(inbox, 2) == [1, 2]
        is_made = await broker.config.broker_config.cluster.has_topic(reply_to)
        assert is_made == (reply_to == "SCHEDULE_TOPIC_XXXX")  # which is the server's own


async def test_a_forged_request_fails_no_handler(server: TestBroker, broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic, ordered=True, settings={"suspend_ms": 10})
    async def handle(body: str) -> str:
        await inbox.put(body)
        return "an answer"

    async with broker, Producer("stranger", namesrv=server.namesrv) as stranger:
        await broker.start()
        for properties in (
            {"REPLY_TO_CLIENT": "x"},
            {"CORRELATION_ID": "x"},
            {"CORRELATION_ID": "x", "REPLY_TO_CLIENT": "nobody"},
        ):
            await stranger.send(Message(topic, "forged", properties=properties), ordering_key="k")
        await stranger.send(Message(topic, "last"), ordering_key="k")
        assert await taken(inbox, 4) == ["forged", "forged", "forged", "last"]


async def test_acknowledging_a_reply_within_a_handler_leaves_its_message_alone(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(f"{topic}-price", max_workers=2)
    async def price(name: str) -> int:
        return len(name)

    @broker.subscriber(topic, ack_policy=AckPolicy.MANUAL, retry_delay_level=1)
    async def handle(name: str, message: PymqMessage) -> None:
        reply = await broker.request(name, f"{topic}-price", timeout=WAIT_S)
        await reply.ack()
        assert message.committed is None
        await inbox.put((await reply.decode(), message.retry_count))
        if message.retry_count:
            await message.ack()

    async with broker:
        await broker.start()
        await broker.publish("apple", topic)
        assert await taken(inbox, 2) == [(5, 0), (5, 1)]


async def test_filters_of_the_broker_and_of_the_handler(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()
    by_sql = broker.subscriber(topic, sql="price > 5", group=f"{topic}-sql")

    @by_sql(filter=lambda message: message.headers.get("kind") == "a")
    async def handle_a(body: str) -> None:
        await inbox.put(f"a:{body}")

    @by_sql
    async def handle_others(body: str) -> None:
        await inbox.put(f"other:{body}")

    async with broker:
        await broker.start()
        await broker.publish("cheap", topic, headers={"price": "1"})
        await broker.publish("one", topic, headers={"price": "6", "kind": "a"})
        await broker.publish("two", topic, headers={"price": "6"})
        assert sorted(await taken(inbox, 2)) == ["a:one", "other:two"]


async def test_a_subscriber_of_several_topics(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()
    topics = [f"{topic}-a", f"{topic}-b"]

    @broker.subscriber(*topics)
    async def handle(number: int, message: PymqMessage) -> None:
        await inbox.put((number, message.topic))

    looker = broker.subscriber(*topics, group=f"{topic}-looks", consume_from="first")
    async with broker:
        await broker.start()
        for number, each in enumerate(topics):
            await broker.publish(number, each)
        assert sorted(await taken(inbox, 2)) == list(enumerate(topics))
        found = [await looker.get_one(timeout=WAIT_S) for _ in topics]
        assert sorted(each.topic for each in found if each is not None) == topics
        waiting = asyncio.create_task(looker.get_one(timeout=WAIT_S))
        for each in topics:  # whichever it waits for
            await asyncio.sleep(0)
            await broker.publish(5, each)
        assert await waiting is not None


async def test_an_ordered_subscriber_keeps_the_order_of_a_key(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic, ordered=True, max_workers=4, settings={"suspend_ms": 10})
    async def handle(number: int, message: PymqMessage) -> None:
        if number == 3 and message.retry_count == 0:
            raise ValueError("once more")
        await inbox.put(number)

    async with broker:
        await broker.start()
        for number in range(10):
            await broker.publish(number, topic, ordering_key="k")
        assert await taken(inbox, 10) == list(range(10))


async def test_broadcast_reaches_each_subscriber_of_a_group(server: TestBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()
    brokers = [PymqBroker(server.namesrv, group=topic, logger=None) for _ in range(2)]
    for number, each in enumerate(brokers):

        @each.subscriber(topic, broadcast=True)
        async def handle(body: str, number: int = number) -> None:
            await inbox.put(number)

    async with brokers[0] as one, brokers[1] as other:
        await one.start()
        await other.start()
        await one.publish("x", topic)
        assert sorted(await taken(inbox, 2)) == [0, 1]


async def test_routers_prefix_topics_and_bring_middlewares(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()

    class Marks(BaseMiddleware):
        async def consume_scope(self, call_next: Any, msg: StreamMessage[Any]) -> Any:
            msg.headers["seen"] = "yes"
            return await call_next(msg)

        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            cmd.add_headers({"passed": "yes"})
            return await call_next(cmd)

    async def double(number: int) -> int:
        return number * 2

    async def look(number: int, message: PymqMessage) -> None:
        await inbox.put((number, message.headers["seen"], message.headers["passed"]))

    router = PymqRouter(
        f"{topic}-",
        handlers=[
            PymqRoute(double, "in", publishers=[PymqPublisher("out")]),
            PymqRoute(look, "out", consume_from="first"),
        ],
        middlewares=[Marks],
    )
    broker.include_router(router)
    async with broker:
        await broker.start()
        await broker.publish(4, f"{topic}-in")
        assert await taken(inbox, 1) == [(8, "yes", "yes")]
    with pytest.raises(SetupError, match="a router of type object can't be included"):
        broker.include_router(object())  # type: ignore[arg-type]


async def test_max_workers_handlers_run_at_once(broker: PymqBroker, topic: str) -> None:
    meeting, met = asyncio.Barrier(3), asyncio.Event()

    @broker.subscriber(topic, max_workers=3)
    async def handle() -> None:
        await meeting.wait()
        met.set()

    async with broker:
        await broker.start()
        for number in range(3):
            await broker.publish(number, topic)
        async with asyncio.timeout(WAIT_S):
            await met.wait()


async def until(condition: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_get_one_and_loops_take_messages_without_handlers(broker: PymqBroker, topic: str) -> None:
    subscriber = broker.subscriber(topic, consume_from="first", persistent=False)
    manual = broker.subscriber(topic, group=f"{topic}-m", consume_from="first", ack_policy=AckPolicy.MANUAL)
    with pytest.raises(UsageError, match="is not started"):
        await subscriber.get_one()
    async with broker:
        await broker.start()
        await broker.publish("one", topic)
        first = await subscriber.get_one(timeout=WAIT_S)
        assert first is not None
        assert await first.decode() == "one"
        assert await subscriber.get_one(timeout=0) is None
        held = await manual.get_one(timeout=WAIT_S)
        assert held is not None
        await held.nack()
        again = await manual.get_one(timeout=WAIT_S)
        assert again is not None
        assert again.message_id == held.message_id
        await again.reject()
        assert await manual.get_one(timeout=0) is None
        dead = broker.subscriber(f"%DLQ%{topic}-m", group=f"{topic}-d", consume_from="first", persistent=False)
        await dead.start()
        letter = await dead.get_one(timeout=WAIT_S)
        assert letter is not None
        assert await letter.decode() == "one"
        await broker.publish("two", topic)
        async for message in subscriber:
            assert await message.decode() == "two"
            break


async def test_a_loop_outlives_its_server_and_ends_with_its_subscriber(
    server: TestBroker, broker: PymqBroker, topic: str
) -> None:
    subscriber = broker.subscriber(topic, consume_from="first")
    inbox: Inbox = asyncio.Queue()

    async def read() -> None:
        async for message in subscriber:
            await inbox.put(await message.decode())

    async with broker:
        await broker.start()
        await broker.publish("x", topic)
        reading = asyncio.create_task(read())
        assert await taken(inbox, 1) == ["x"]
        server.kill()
        server.restart()
        await broker.publish("y", topic, timeout=WAIT_S)
        while await taken(inbox, 1) != ["y"]:
            pass  # x comes again if its acknowledgement was lost
        await subscriber.stop()
        async with asyncio.timeout(WAIT_S):
            await reading


async def test_a_handler_may_stop_its_subscriber(broker: PymqBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()
    subscriber = broker.subscriber(topic, ordered=True, settings={"suspend_ms": 10})

    @subscriber
    async def handle(number: int) -> None:
        await inbox.put(number)
        raise StopConsume

    async with broker:
        await broker.start()
        await broker.publish(1, topic, ordering_key="k")
        await broker.publish(2, topic, ordering_key="k")
        assert await taken(inbox, 1) == [1]
        await until(lambda: not subscriber.running)
    assert inbox.empty()


async def test_ping_and_the_states_of_a_broker(server: TestBroker, broker: PymqBroker, topic: str) -> None:
    with pytest.raises(IncorrectState, match="the broker is not connected"):
        await broker.publish("x", topic)
    async with broker:
        assert await broker.ping(WAIT_S)
        server.stop()
        try:
            assert not await broker.ping(0.3)
        finally:
            server.restart()
        assert await broker.ping(WAIT_S)
    async with broker:  # once more
        assert (await broker.publish("x", topic)) is not None


async def test_two_subscribers_of_a_group_want_the_same(broker: PymqBroker, topic: str) -> None:
    @broker.subscriber(topic, tags="a")
    async def one() -> None: ...

    @broker.subscriber(topic, tags="b")
    async def other() -> None: ...

    with pytest.raises(UsageError, match=r"two subscribers of group .* want different messages .*: give each a group"):
        await broker.start()


async def test_a_stop_waits_for_running_handlers_and_what_they_did_stays_done(server: TestBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()
    going = asyncio.Event()

    def application() -> PymqBroker:
        broker = PymqBroker(server.namesrv, group=topic, logger=None)

        @broker.subscriber(topic)
        async def handle(number: int) -> None:
            await inbox.put(("begins", number))
            await going.wait()
            await inbox.put(("ends", number))

        return broker

    async with application() as broker:
        await broker.start()
        await broker.publish(1, topic)
        await broker.publish(2, topic)
        assert await taken(inbox, 1) == [("begins", 1)]
        stopping = asyncio.create_task(broker.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        going.set()
        await stopping
        assert await taken(inbox, 1) == [("ends", 1)]
    async with application() as broker:
        await broker.start()
        assert await taken(inbox, 2) == [("begins", 2), ("ends", 2)]


async def test_unknown_options_are_refused_by_name(broker: PymqBroker, topic: str) -> None:
    options: Any = {"key": "x"}
    async with broker:
        with pytest.raises(UsageError, match="a message has no option 'key': tags, keys, delay_ms"):
            await broker.publish("x", topic, **options)
    with pytest.raises(UsageError, match="a publisher has no option 'key'"):
        broker.publisher(topic, **options)


async def test_delayed_messages_come_later_alone_and_in_batches(
    server: TestBroker, broker: PymqBroker, topic: str
) -> None:
    inbox: Inbox = asyncio.Queue()

    @broker.subscriber(topic)
    async def handle(number: int) -> None:
        await inbox.put(number)

    async with broker:
        await broker.start()
        await broker.publish(1, topic, delay_ms=3_600_000)
        await broker.publish_batch(2, PymqPublishMessage(3, delay_level=18), topic=topic, delay_level=0)
        assert await taken(inbox, 1) == [2]
        server.clock.advance(hours=1)
        assert await taken(inbox, 1) == [1]
        server.clock.advance(hours=1)
        assert await taken(inbox, 1) == [3]


async def test_a_start_without_servers_fails_and_can_be_repeated(server: TestBroker, topic: str) -> None:
    inbox: Inbox = asyncio.Queue()
    away = PymqBroker("127.0.0.1:1", group=topic, logger=None)

    @away.subscriber(topic)
    async def nothing() -> None: ...

    assert not await away.ping(0.1)
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        await away.start()
    await away.stop()

    broker = PymqBroker(server.namesrv, group=topic, logger=None)

    @broker.subscriber(topic)
    async def handle(number: int) -> None:
        await inbox.put(number)

    for number in range(2):
        async with broker:
            await broker.start()
            await broker.publish(number, topic)
            assert await taken(inbox, 1) == [number]
