"""Scenarios of the client library against a running cluster, which may be any RocketMQ-compatible server.

Each scenario gets the name server's address and creates its own topics and groups; it raises AssertionError when
something differs from what it should be.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from pymq.client import (
    Admin,
    ConsumeResult,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    StoredMessage,
    TransactionProducer,
    TransactionState,
    sync,
)
from pymq.client.subscription_check import SubscriptionCheck
from pymq.clock import SystemClock
from pymq.errors import ExpressionError, NotFoundError, RefusedError, RequestTimeoutError
from pymq.model.names import dlq_topic
from pymq.model.tables import TopicConfig
from pymq.rate_limited_log import RateLimitedLog

DEADLINE_S = 40.0
_numbers = itertools.count()


def fresh(kind: str) -> str:
    """Return a topic or group name that is not in use; all names of a kind have one length, so records do too."""
    return f"{kind}_{os.getpid():08}_{time.monotonic_ns():016x}_{next(_numbers):06}"


async def until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait for ``condition``; after the deadline an AssertionError names ``what``."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"waited {deadline_s:g} s in vain for {what}"
        await asyncio.sleep(0.02)


async def make_topic(namesrv: str, queue_count: int = 4, attributes: dict[str, str] | None = None) -> str:
    """Create a topic on every master of the cluster and wait until the name server knows it."""
    topic = fresh("T")
    async with Admin(namesrv) as admin:
        for master in await admin.cluster.masters():
            config = TopicConfig(
                topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count, attributes=attributes or {}
            )
            await admin.topics.put(master.address, config)
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                await admin.topics.route(topic)
                return topic
            except NotFoundError:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)


async def send_numbers(namesrv: str, topic: str, count: int, tags: str = "") -> None:
    """Send the bodies b"0", b"1", … to the topic, spread over its queues."""
    async with Producer(fresh("P"), namesrv=namesrv) as producer:
        # A late answer makes the producer send again, and scenarios count the messages they get.
        sends = [producer.send(Message(topic, b"%d" % n, tags=tags), timeout_s=DEADLINE_S) for n in range(count)]
        await asyncio.gather(*sends)


class Inbox:
    """A handler that keeps the messages it got."""

    def __init__(self, verdict: Callable[[StoredMessage], ConsumeResult | None] = lambda _: None) -> None:
        self.messages: list[StoredMessage] = []
        self._verdict = verdict

    @property
    def bodies(self) -> Counter[bytes]:
        return Counter(message.content() for message in self.messages)

    async def __call__(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        result = None
        for message in messages:
            result = self._verdict(message) or result
            self.messages.append(message)
        return result


def numbers(count: int) -> set[bytes]:
    return {b"%d" % n for n in range(count)}


async def send_and_pull(namesrv: str, directory: Path) -> None:
    topic = fresh("Auto")
    async with Producer(fresh("P"), namesrv=namesrv) as producer, PullConsumer(fresh("G"), namesrv=namesrv) as pull:
        first = await producer.send(
            Message(topic, b"one", tags="A", keys="k1 k2", properties={"city": "Köln"}, flag=3), timeout_s=DEADLINE_S
        )
        large = bytes(range(256)) * 100
        await producer.send(Message(topic, large, tags="B"), queue=first.queue, timeout_s=DEADLINE_S)
        batch = await producer.send_batch(
            [Message(topic, b"b%d" % n, tags="A") for n in range(10)], queue=first.queue, timeout_s=DEADLINE_S
        )
        await producer.send_oneway(Message(topic, b"oneway"), queue=first.queue)
        assert first.queue_offset == 0 and batch.queue_offset == 2
        assert len(batch.message_id.split(",")) == len(batch.offset_message_id.split(",")) == 10
        queues = await pull.queues(topic)
        assert first.queue in queues and len(queues) % 4 == 0
        await _stored(pull, first.queue, 13)
        result = await pull.pull(first.queue, 0)
        messages = result.messages()
        while len(messages) < 13:
            result = await pull.pull(first.queue, result.next_offset)
            messages += result.messages()
        assert [message.content() for message in messages] == [
            b"one",
            large,
            *(b"b%d" % n for n in range(10)),
            b"oneway",
        ]
        assert messages[0].properties["city"] == "Köln" and messages[0].flag == 3
        assert messages[0].message_id == first.message_id
        assert messages[0].offset_message_id == first.offset_message_id
        tagged = await pull.pull(first.queue, 0, expression="B || C")
        assert [message.content() for message in tagged.messages()] == [large]
        assert (await pull.min_offset(first.queue), await pull.max_offset(first.queue)) == (0, 13)
        assert await pull.offset_by_time(first.queue, messages[0].store_timestamp_ms) == 0
        beyond = await pull.pull(first.queue, 999)
        assert beyond.status is PullStatus.OFFSET_ILLEGAL and beyond.next_offset == 13
        await pull.commit(first.queue, 5)
        assert await pull.committed(first.queue) == 5


async def _stored(pull: PullConsumer, queue: MessageQueue, end: int) -> None:
    """Wait until all messages below offset ``end`` can be pulled: Java fills its queues after it answers."""
    deadline = time.monotonic() + DEADLINE_S
    while await pull.max_offset(queue) < end:
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s in vain for {end} messages"
        await asyncio.sleep(0.02)


async def long_poll(namesrv: str, directory: Path) -> None:
    topic = await make_topic(namesrv, 1)
    async with Producer(fresh("P"), namesrv=namesrv) as producer, PullConsumer(fresh("G"), namesrv=namesrv) as pull:
        (queue,) = await pull.queues(topic)
        waiting = asyncio.ensure_future(pull.pull(queue, 0, suspend_ms=20_000))
        await producer.send(Message(topic, b"x"), timeout_s=DEADLINE_S)
        result = await waiting
        assert [message.content() for message in result.messages()] == [b"x"]


async def share_and_rebalance(namesrv: str, directory: Path) -> None:
    topic, group = await make_topic(namesrv, 4), fresh("G")
    inboxes = [Inbox(), Inbox()]
    consumers = [PushConsumer(group, namesrv=namesrv, on_message=inbox, consume_from="first") for inbox in inboxes]
    for consumer in consumers:
        consumer.subscribe(topic)

    def shares() -> list[int]:
        return [sum(queue.topic == topic for queue in consumer.assigned) for consumer in consumers]

    async with consumers[0]:
        await until(lambda: shares()[0] == 4, "the only member to have all queues")
        async with consumers[1]:
            await until(lambda: shares() == [2, 2], "two members to share")
            await send_numbers(namesrv, topic, 200)
            await until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 200, "all messages")
            assert inboxes[0].bodies + inboxes[1].bodies == Counter(numbers(200))
            assert inboxes[0].messages and inboxes[1].messages
        await until(lambda: shares()[0] == 4, "the last member to take over")
        await send_numbers(namesrv, topic, 20)
        await until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 220, "messages after the take-over")


async def a_member_that_vanishes(namesrv: str, directory: Path) -> None:
    """A member's connection breaks without unregistering: the others take its queues and no message is lost."""
    topic, group = await make_topic(namesrv, 4), fresh("G")
    inboxes = [Inbox(), Inbox()]
    stays, vanishes = (
        PushConsumer(group, namesrv=namesrv, on_message=inbox, consume_from="first") for inbox in inboxes
    )
    stays.subscribe(topic)
    vanishes.subscribe(topic)
    async with stays, vanishes:
        await until(lambda: sum(queue.topic == topic for queue in stays.assigned) == 2, "two members to share")
        await send_numbers(namesrv, topic, 40)
        await until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 40, "all messages")
        await vanishes._instance.remoting.close()
        await until(lambda: sum(queue.topic == topic for queue in stays.assigned) == 4, "the other one to take over")
        await send_numbers(namesrv, topic, 80)
        await until(lambda: set(inboxes[0].bodies) >= {b"%d" % n for n in range(40, 80)}, "messages after that")


async def tags(namesrv: str, directory: Path) -> None:
    topic, inbox = await make_topic(namesrv, 2), Inbox()
    consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic, "TagA || TagB")
    async with consumer:
        for tag in ("TagA", "TagB", "TagC", ""):
            await send_numbers(namesrv, topic, 5, tag)
        await until(lambda: len(inbox.messages) >= 10, "the tagged messages")
        # "AaAa" and "BBBB" share a Java hash with each other, so only the client can tell them apart.
        other = Inbox()
        collider = PushConsumer(fresh("G"), namesrv=namesrv, on_message=other, consume_from="first")
        collider.subscribe(topic, "AaAa")
        async with collider:
            await send_numbers(namesrv, topic, 3, "BBBB")
            await send_numbers(namesrv, topic, 2, "AaAa")
            await until(lambda: len(other.messages) >= 2, "the message with the wanted tag")
            assert {message.tags for message in other.messages} == {"AaAa"}
    assert Counter(message.tags for message in inbox.messages) == {"TagA": 5, "TagB": 5}


async def sql(namesrv: str, directory: Path) -> None:
    """SQL92 by push, from the heartbeat, and by pull, from the request; a wrong expression is refused."""
    topic, group = await make_topic(namesrv, 1), fresh("G")
    expression = "size BETWEEN 2 AND 6 AND (color = 'red' OR color IS NULL)"
    seen: list[str] = []
    consumer = PushConsumer(
        group,
        namesrv=namesrv,
        on_message=lambda messages: seen.extend(message.properties["number"] for message in messages),
        consume_from="first",
    )
    consumer.subscribe(topic, sql=expression)
    async with consumer, Producer(fresh("P"), namesrv=namesrv) as producer:
        for number in range(9):
            properties = {"number": str(number), "size": str(number)}
            if number % 3:
                properties["color"] = ("red", "blue")[number % 3 - 1]
            await producer.send(Message(topic, b"x", properties=properties), timeout_s=DEADLINE_S)
        await until(lambda: len(seen) >= 3, "three matching messages")
    assert seen == ["3", "4", "6"]
    async with PullConsumer(fresh("G"), namesrv=namesrv) as pull:
        (queue,) = await pull.queues(topic)
        await _stored(pull, queue, 9)
        result = await pull.pull(queue, 0, sql=expression)
        assert [message.properties["number"] for message in result.messages()] == ["3", "4", "6"]
        result = await pull.pull(queue, 0, sql="size > 100")
        assert result.status is PullStatus.NO_MATCHED_MESSAGE and result.next_offset == 9
        try:
            await pull.pull(queue, 0, sql="size >")
        except ExpressionError as error:
            assert error.column == 7
        else:
            raise AssertionError("a wrong expression was taken")


async def retry_then_success(namesrv: str, directory: Path) -> None:
    topic = await make_topic(namesrv, 2)
    inbox = Inbox(lambda message: ConsumeResult.RECONSUME_LATER if message.reconsume_times < 2 else None)
    consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=inbox, consume_from="first", delay_level=1)
    consumer.subscribe(topic)
    async with consumer:
        await send_numbers(namesrv, topic, 3)
        await until(lambda: len(inbox.messages) >= 9, "three tries of each message")
    assert Counter(message.reconsume_times for message in inbox.messages) == {0: 3, 1: 3, 2: 3}
    assert {message.topic for message in inbox.messages} == {topic}
    assert inbox.bodies == Counter({b"%d" % n: 3 for n in range(3)})


async def dead_letters(namesrv: str, directory: Path) -> None:
    topic, group = await make_topic(namesrv, 1), fresh("G")

    def fail(_: StoredMessage) -> ConsumeResult | None:
        raise ValueError("this handler never succeeds")

    inbox = Inbox(fail)
    consumer = PushConsumer(
        group, namesrv=namesrv, on_message=inbox, consume_from="first", delay_level=1, max_reconsume_times=1
    )
    consumer.subscribe(topic)
    async with consumer, PullConsumer(fresh("G"), namesrv=namesrv) as pull:
        await send_numbers(namesrv, topic, 1)
        await _expect_dead(pull, group, [b"0"])


async def _expect_dead(pull: PullConsumer, group: str, bodies: list[bytes]) -> None:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            (queue,) = await pull.queues(dlq_topic(group))
            result = await pull.pull(queue, 0)
            if result.status is PullStatus.FOUND:
                break
        except NotFoundError:
            pass
        assert time.monotonic() < end, "no dead letter came"
        await asyncio.sleep(0.1)
    assert [message.content() for message in result.messages()] == bodies


async def orderly(namesrv: str, directory: Path) -> None:
    """Two members, one joins late, with failures in between: each queue's messages arrive in order, none twice."""
    topic, group = await make_topic(namesrv, 4), fresh("G")
    done: dict[int, list[int]] = defaultdict(list)
    failed: set[bytes] = set()
    running: Counter[int] = Counter()

    async def handle(messages: list[StoredMessage]) -> ConsumeResult:
        (message,) = messages
        running[message.queue_id] += 1
        await asyncio.sleep(0.002)
        running[message.queue_id] -= 1
        assert not running[message.queue_id], "two handlers at once on one queue"
        if message.queue_offset % 10 == 5 and message.content() not in failed:
            failed.add(message.content())
            return ConsumeResult.RECONSUME_LATER
        done[message.queue_id].append(message.queue_offset)
        return ConsumeResult.SUCCESS

    def member() -> PushConsumer:
        consumer = PushConsumer(
            group, namesrv=namesrv, on_message=handle, orderly=True, consume_from="first", suspend_ms=20
        )
        consumer.subscribe(topic)
        return consumer

    async with member() as first:
        await send_numbers(namesrv, topic, 160)
        await until(lambda: sum(map(len, done.values())) >= 40, "some messages in order")
        async with member() as second:
            await until(lambda: sum(queue.topic == topic for queue in second.assigned) == 2, "queues to be handed over")
            await until(lambda: sum(map(len, done.values())) >= 160, "all messages in order")
            assert sum(queue.topic == topic for queue in first.assigned) == 2
    assert {queue_id: sorted(offsets) for queue_id, offsets in done.items()} == done
    assert all(offsets == list(range(len(offsets))) for offsets in done.values())
    assert len(failed) >= 4


async def orderly_gives_up(namesrv: str, directory: Path) -> None:
    topic, group, inbox = await make_topic(namesrv, 1), fresh("G"), Inbox()

    async def handle(messages: list[StoredMessage]) -> ConsumeResult:
        await inbox(messages)
        return ConsumeResult.RECONSUME_LATER if messages[0].content() == b"0" else ConsumeResult.SUCCESS

    consumer = PushConsumer(
        group,
        namesrv=namesrv,
        on_message=handle,
        orderly=True,
        consume_from="first",
        suspend_ms=20,
        max_reconsume_times=2,
    )
    consumer.subscribe(topic)
    async with consumer, PullConsumer(fresh("G"), namesrv=namesrv) as pull, Producer(fresh("P"), namesrv=namesrv) as p:
        for body in (b"0", b"1"):
            await p.send(Message(topic, body), timeout_s=DEADLINE_S)
        await until(lambda: b"1" in inbox.bodies, "the message behind the hopeless one")
        assert [message.content() for message in inbox.messages] == [b"0", b"0", b"0", b"1"]
        await _expect_dead(pull, group, [b"0"])


async def broadcasting(namesrv: str, directory: Path) -> None:
    topic, group = await make_topic(namesrv, 2), fresh("G")
    inboxes = [Inbox(), Inbox()]

    def member(index: int) -> PushConsumer:
        consumer = PushConsumer(
            group,
            namesrv=namesrv,
            on_message=inboxes[index],
            broadcasting=True,
            consume_from="first",
            offsets_path=directory / f"{group}-{index}.json",
        )
        consumer.subscribe(topic)
        return consumer

    async with member(0), member(1):
        await send_numbers(namesrv, topic, 20)
        await until(lambda: all(len(inbox.messages) >= 20 for inbox in inboxes), "all messages at both members")
    await send_numbers(namesrv, topic, 5)
    async with member(0):
        await until(lambda: len(inboxes[0].messages) >= 25, "the messages after the restart")
    assert len(inboxes[0].messages) == 25, "the file keeps what was consumed before"
    assert inboxes[1].bodies == Counter(numbers(20))


async def offsets_survive_a_restart(namesrv: str, directory: Path) -> None:
    topic, group = await make_topic(namesrv, 4), fresh("G")
    for _ in range(3):
        inbox = Inbox()
        await send_numbers(namesrv, topic, 30)
        consumer = PushConsumer(group, namesrv=namesrv, on_message=inbox, consume_from="first", batch_count_max=8)
        consumer.subscribe(topic)
        async with consumer:
            await until(lambda inbox=inbox: len(inbox.messages) >= 30, "this round's messages")
        assert inbox.bodies == Counter(numbers(30))
    async with PullConsumer(group, namesrv=namesrv) as pull:
        for queue in await pull.queues(topic):
            assert await pull.committed(queue) == await pull.max_offset(queue)


async def find_by_time(namesrv: str, directory: Path) -> None:
    topic = await make_topic(namesrv, 1)
    await send_numbers(namesrv, topic, 10)
    sent_ms = time.time_ns() // 1_000_000
    await until(lambda: time.time_ns() // 1_000_000 > sent_ms, "the next message to have a millisecond of its own")
    async with Producer(fresh("P"), namesrv=namesrv) as producer, PullConsumer(fresh("G"), namesrv=namesrv) as pull:
        result = await producer.send(Message(topic, b"later"), timeout_s=DEADLINE_S)
        (message,) = (await pull.pull(result.queue, result.queue_offset)).messages()
        by_time = await pull.offset_by_time(result.queue, message.store_timestamp_ms)
        assert by_time == result.queue_offset


async def reset_by_an_operator(namesrv: str, directory: Path) -> None:
    topic, group, inbox = await make_topic(namesrv, 2), fresh("G"), Inbox()
    consumer = PushConsumer(group, namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic)
    async with consumer, Admin(namesrv) as admin:
        await send_numbers(namesrv, topic, 10)
        await until(lambda: len(inbox.messages) >= 10, "all messages once")
        await consumer.commit()
        await admin.groups.reset_offsets(group, topic, await admin.cluster.masters(), timestamp_ms=0)
        await send_numbers(namesrv, topic, 4)  # wakes parked pulls, whose answer carries the reset
        await until(lambda: len(inbox.messages) >= 24, "all messages again")


async def operators_see_the_consumer(namesrv: str, directory: Path) -> None:
    topic, group, inbox = await make_topic(namesrv, 2), fresh("G"), Inbox()
    consumer = PushConsumer(group, namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic, "TagA")
    async with consumer, Admin(namesrv) as admin, Producer(fresh("P"), namesrv=namesrv) as producer:
        await send_numbers(namesrv, topic, 3, "TagA")
        await until(lambda: len(inbox.messages) >= 3, "the messages")
        address = await _broker_address(admin)
        connections = await admin.groups.connections(address, group)
        assert connections is not None
        assert [one.client_id for one in connections.connection_set] == [consumer.client_id]
        assert connections.subscription_table[topic].tags_set == ["TagA"]
        info = await admin.groups.running_info(address, group, consumer.client_id)
        assert {queue.topic for queue in info.mq_table} >= {topic}
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        sent = await producer.send(Message(topic, b"other", tags="TagZ"), timeout_s=DEADLINE_S)
        result = await admin.groups.consume_directly(address, group, consumer.client_id, topic, sent.offset_message_id)
        assert result.consume_result == "CR_SUCCESS"
        assert inbox.messages[-1].content() == b"other"


async def _broker_address(admin: Admin) -> str:
    return (await admin.cluster.masters())[0].address


async def members_that_subscribe_differently(namesrv: str, directory: Path) -> None:
    topic, group = await make_topic(namesrv), fresh("G")
    consumers = {}
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Admin(namesrv))
        for tags in ("A || B", "C"):
            consumers[tags] = PushConsumer(group, namesrv=namesrv, on_message=Inbox())
            consumers[tags].subscribe(topic, tags)
            await stack.enter_async_context(consumers[tags])
        expected = {topic: {"A || B": 1, "C": 1}}
        end = time.monotonic() + DEADLINE_S
        while await admin.groups.differing_subscriptions(group) != expected:
            assert time.monotonic() < end, "no broker or member reports it"
            await asyncio.sleep(0.1)
        lines: list[str] = []
        watch = logging.Handler()
        watch.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
        log = logging.getLogger("pymq.client.instance")
        log.addHandler(watch)
        try:
            for consumer in consumers.values():
                consumer._instance.group_log = RateLimitedLog(log, SystemClock(), "scenario")
                await consumer._instance.heartbeat_all()
                await SubscriptionCheck(consumer._state).run()
        finally:
            log.removeHandler(watch)
        assert any(f"group '{group}' subscribe differently" in line and topic in line for line in lines), lines


async def plain_handlers_run_in_threads(namesrv: str, directory: Path) -> None:
    topic = await make_topic(namesrv, 4)
    received: list[bytes] = []
    running: list[int] = [0, 0]  # now, most
    two_at_once = threading.Barrier(2)
    calls = itertools.count(1)

    def handle(messages: list[StoredMessage]) -> None:
        running[0] += 1
        running[1] = max(running)
        if next(calls) <= 2:
            two_at_once.wait(DEADLINE_S)
        running[0] -= 1
        received.extend(message.content() for message in messages)

    consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=handle, consume_from="first", concurrency_max=4)
    consumer.subscribe(topic)
    async with consumer:
        await send_numbers(namesrv, topic, 60)
        await until(lambda: len(received) >= 60, "all messages")
    assert set(received) == numbers(60)
    assert 2 <= running[1] <= 4


async def a_topic_that_comes_later(namesrv: str, directory: Path) -> None:
    topic, inbox = fresh("Later"), Inbox()
    consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic)
    async with consumer:
        await send_numbers(namesrv, topic, 5)  # creates it
        await until(lambda: len(inbox.messages) >= 5, "messages of the new topic")


async def selected_queue_keeps_order(namesrv: str, directory: Path) -> None:
    topic = await make_topic(namesrv, 4)

    def by_key(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return queues[int(message.keys) % len(queues)]

    async with Producer(fresh("P"), namesrv=namesrv) as producer:
        for n in range(20):
            result = await producer.send(Message(topic, b"x", keys=str(n % 4)), selector=by_key, timeout_s=DEADLINE_S)
            assert result.queue.queue_id == n % 4 and result.queue_offset == n // 4


async def request_and_reply(namesrv: str, directory: Path) -> None:
    topic = await make_topic(namesrv)
    group = fresh("G")
    kept: list[StoredMessage] = []

    async def serve(messages: list[StoredMessage]) -> None:
        for message in messages:
            if message.content() == b"quiet":
                kept.append(message)
            else:
                answer = Message("any", b"re: " + message.content(), tags="A", properties={"color": "red"})
                await replier.reply(message, answer, timeout_s=DEADLINE_S)

    consumer = PushConsumer(group, namesrv=namesrv, on_message=serve, consume_from="first")
    consumer.subscribe(topic)
    async with Producer(fresh("P"), namesrv=namesrv) as replier, consumer:
        async with Producer(fresh("P"), namesrv=namesrv) as producer:
            questions = [b"%d" % n * 3000 for n in range(10)]
            answers = await asyncio.gather(
                *[producer.request(Message(topic, one), timeout_s=DEADLINE_S) for one in questions]
            )
            assert [one.content() for one in answers] == [b"re: " + one for one in questions]
            assert {(one.tags, one.properties["color"], one.properties["MSG_TYPE"]) for one in answers} == {
                ("A", "red", "reply")
            }
            assert all(int(one.properties["ARRIVE_TIME"]) > 0 for one in answers)
            try:
                await producer.request(Message(topic, b"quiet"), timeout_s=1.5)
            except RequestTimeoutError as error:
                assert "no reply" in str(error)
            else:
                raise AssertionError("there was a reply to a request that is not replied to")
            await until(lambda: kept, "the quiet request")
            # The requester is there, but its request is over: taken and dropped.
            await replier.reply(kept[0], "too late", timeout_s=DEADLINE_S)
        try:
            await replier.reply(kept[0], "too late", timeout_s=DEADLINE_S)
        except RefusedError as error:
            assert error.code == 1 and kept[0].properties["REPLY_TO_CLIENT"] in str(error)
        else:
            raise AssertionError("a reply to a producer that is gone was taken")


async def blocking_faces(namesrv: str, directory: Path) -> None:
    topic = await make_topic(namesrv, 2)
    await asyncio.to_thread(_blocking, namesrv, topic)


def _blocking(namesrv: str, topic: str) -> None:
    received: list[bytes] = []

    def take(messages: list[StoredMessage]) -> None:
        for message in messages:
            if message.content() == b"who":
                producer.reply(message, "me", timeout_s=DEADLINE_S)
            else:
                received.append(message.content())

    consumer = sync.PushConsumer(fresh("G"), namesrv=namesrv, on_message=take, consume_from="first")
    consumer.subscribe(topic)
    with (
        consumer,
        sync.Producer(fresh("P"), namesrv=namesrv) as producer,
        sync.PullConsumer("G", namesrv=namesrv) as pull,
    ):
        sent = [producer.send(Message(topic, b"%d" % n), timeout_s=DEADLINE_S) for n in range(5)]
        later = [producer.send_async(Message(topic, b"%d" % n), timeout_s=DEADLINE_S) for n in range(5, 10)]
        sent += [future.result(DEADLINE_S) for future in later]
        assert len(sent) == 10
        end = time.monotonic() + DEADLINE_S
        while len(received) < 10:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert sum(pull.max_offset(queue) for queue in pull.queues(topic)) == 10
        assert producer.request(Message(topic, "who"), timeout_s=DEADLINE_S).content() == b"me"
        assert {queue.topic for queue in consumer.assigned} >= {topic}
    assert set(received) == numbers(10)


class Ledger:
    """A transaction listener that says of each body what it was told; at first, or when asked later."""

    def __init__(self, first: dict[bytes, TransactionState], later: dict[bytes, TransactionState]) -> None:
        self._first, self._later = first, later
        self.executed: list[tuple[bytes, object]] = []
        self.checked: list[StoredMessage] = []

    def execute(self, message: Message, arg: object) -> TransactionState:
        self.executed.append((message.body, arg))
        return self._first[message.body]

    async def check(self, message: StoredMessage) -> TransactionState:
        self.checked.append(message)
        return self._later[message.content()]


async def transactions(namesrv: str, directory: Path) -> None:
    """Messages of transactions come when they are committed, also by the answer to a check, and otherwise never."""
    topic, group = await make_topic(namesrv, 1), fresh("P")
    commit, rollback, unknown = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
    first = {b"yes": commit, b"no": rollback, b"later yes": unknown, b"later no": unknown, b"blocking": commit}
    ledger = Ledger(first, {b"later yes": commit, b"later no": rollback})
    inbox = Inbox()
    consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic)
    async with TransactionProducer(group, namesrv=namesrv, listener=ledger) as producer, consumer:
        results = {}
        for body in (b"no", b"later no", b"yes", b"later yes"):
            sending = producer.send_in_transaction(Message(topic, body, "A", "k"), 5, timeout_s=DEADLINE_S)
            results[body] = await sending
            assert results[body].state is first[body]
        assert results[b"yes"].is_confirmed and ledger.executed[0] == (b"no", 5)

        def block() -> None:
            with sync.TransactionProducer(group, namesrv=namesrv, listener=ledger) as blocking:
                assert blocking.send_in_transaction(Message(topic, b"blocking")).state is commit

        await asyncio.to_thread(block)
        await until(lambda: len(ledger.checked) >= 2, "checks of the open transactions")
        await until(lambda: len(inbox.messages) >= 3, "the committed messages")
    assert inbox.bodies == {b"yes": 1, b"later yes": 1, b"blocking": 1}
    asked = next(message for message in ledger.checked if message.content() == b"later yes")
    assert (asked.topic, asked.tags, asked.message_id) == (topic, "A", results[b"later yes"].message_id)


SCENARIOS = [
    send_and_pull,
    long_poll,
    share_and_rebalance,
    a_member_that_vanishes,
    tags,
    sql,
    retry_then_success,
    dead_letters,
    orderly,
    orderly_gives_up,
    broadcasting,
    offsets_survive_a_restart,
    find_by_time,
    reset_by_an_operator,
    operators_see_the_consumer,
    members_that_subscribe_differently,
    plain_handlers_run_in_threads,
    a_topic_that_comes_later,
    selected_queue_keeps_order,
    request_and_reply,
    transactions,
    blocking_faces,
]
