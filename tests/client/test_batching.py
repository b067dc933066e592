"""Automatic batches, order by key, back-pressure and resend marks, against scripted brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import Message, MessageQueue, Producer, SendResult, queue_picker
from pymq.client.in_flight import InFlight
from pymq.errors import ClosedError, OverloadedError, RefusedError, RequestTimeoutError, UsageError
from pymq.model.properties import decode_properties
from pymq.model.record import decode_batch
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.send import SendMessageAnswer, SendMessageV2Header
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer
from tests.client.test_producer import BATCH, SEND, run, sent

QUEUES = [MessageQueue("T", "broker-0", 0), MessageQueue("T", "broker-0", 1)]


class Log:
    """A broker's log: what it stores, in order, by queue."""

    def __init__(self, *servers: FakeServer) -> None:
        self.queues: dict[int, list[bytes]] = {}
        self.sizes: list[int] = []  # of requests, in messages
        for server in servers:
            server.on(SEND, self.store)
            server.on(BATCH, self.store)

    def store(self, command: Command) -> Reply:
        header = decode_header(SendMessageV2Header, command.ext)
        bodies = [body for _, body, _ in decode_batch(command.body)] if header.batch else [command.body]
        queue = self.queues.setdefault(header.queue_id, [])
        offset = len(queue)
        queue += bodies
        self.sizes.append(len(bodies))
        ids = ",".join(f"{offset + i:032X}" for i in range(len(bodies)))
        return Reply(ext=SendMessageAnswer(message_id=ids, queue_id=header.queue_id, queue_offset=offset))


def numbers(count: int) -> list[Message]:
    return [Message("T", b"%d" % n) for n in range(count)]


def test_sends_of_one_turn_leave_in_one_request_and_get_their_own_results() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)
        results = await asyncio.gather(*[producer.send(message) for message in numbers(5)])
        assert log.sizes == [5]
        assert [one.queue_offset for one in results] == [0, 1, 2, 3, 4]
        assert [one.offset_message_id for one in results] == [f"{n:032X}" for n in range(5)]
        header, body = sent(brokers[0], 0, BATCH)
        assert decode_properties(header.properties.encode()) == {"WAIT": "true"}  # no key of its own
        keys = [decode_properties(own)["UNIQ_KEY"] for _, _, own in decode_batch(body)]
        assert keys == [one.message_id for one in results] and len(set(keys)) == 5

    run(scenario, linger_ms=0)


def test_a_batch_is_bounded_in_messages_and_bytes() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)
        await asyncio.gather(*[producer.send(message) for message in numbers(7)])
        assert log.sizes == [3, 3, 1]
        log.sizes.clear()
        await asyncio.gather(*[producer.send(Message("T", b"x" * 400)) for _ in range(4)])
        assert log.sizes == [2, 2]  # an entry has 22 bytes and its properties too

    run(scenario, linger_ms=0, batch_count_max=3, batch_bytes_max=1100)


def test_a_full_batch_does_not_linger_and_flush_sends_the_rest() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)
        futures = [await producer.enqueue(message) for message in numbers(5)]
        await futures[1]
        assert log.sizes == [2, 2] and not futures[4].done()
        await producer.flush()
        assert log.sizes == [2, 2, 1] and futures[4].done()

    run(scenario, linger_ms=60_000, batch_count_max=2)


def test_stopping_sends_what_lingers() -> None:
    futures: list[asyncio.Future[SendResult]] = []

    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        Log(*brokers)
        futures.extend([await producer.enqueue(message) for message in numbers(3)])

    run(scenario, linger_ms=60_000)
    assert [future.result().queue_offset for future in futures] == [0, 1, 2]


def test_a_stopped_producer_batches_no_more() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        Log(*brokers)
        await producer.send(Message("T", b"x"))
        await producer.stop()
        with pytest.raises(ClosedError, match="the client is stopped"):
            await producer.send(Message("T", b"x"))

    run(scenario, linger_ms=0)


@pytest.mark.parametrize(
    "other",
    [
        Message("T", b"other", delay_level=3),
        Message("T", b"other", delay_ms=100),
        Message("T", b"other", priority=0),
        Message("T", b"other", properties={"_SYS_MSG_PRIORITY_": "1"}),
        Message("T", b"other", properties={"TIMER_DELAY_MS": "5"}),
        Message("T", b"other" * 2000),  # compressed
        Message("T", b"other", properties={"long": "x" * 32_690}),
    ],
)
def test_what_can_not_be_in_a_batch_leaves_alone(other: Message) -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)
        await asyncio.gather(*[producer.send(one) for one in (*numbers(2), other, *numbers(2))])
        assert sorted(log.sizes) == [1, 2, 2]

    run(scenario, linger_ms=0)


def test_messages_that_wait_differently_and_other_topics_have_their_own_batches() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)
        quick = [Message("T", b"quick", wait_store=False) for _ in range(2)]
        others = [Message("New", b"other") for _ in range(2)]
        await asyncio.gather(*[producer.send(one) for one in (*numbers(2), *quick, *others)])
        assert log.sizes == [2, 2, 2]
        waits = [decode_properties(sent(brokers[0], n, BATCH)[0].properties.encode())["WAIT"] for n in range(3)]
        assert sorted(waits) == ["false", "true", "true"]

    run(scenario, linger_ms=0)


def test_a_chosen_queue_has_batches_of_its_own() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)
        await asyncio.gather(*[producer.send(one, queue=QUEUES[n % 2]) for n, one in enumerate(numbers(4))])
        await asyncio.gather(*[producer.send(one, selector=lambda queues, _: queues[1]) for one in numbers(2)])
        assert log.sizes == [2, 2, 2]
        assert log.queues == {0: [b"0", b"2"], 1: [b"1", b"3", b"0", b"1"]}

    run(scenario, linger_ms=0)


def test_a_refused_batch_is_sent_one_by_one_so_that_only_the_bad_message_fails() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)

        def picky(command: Command) -> Reply:
            if b"bad" in command.body:
                return Reply(ResponseCode.MESSAGE_ILLEGAL, "message 1 of the batch is bad")
            return log.store(command)

        brokers[0].on(SEND, picky)
        brokers[0].on(BATCH, picky)
        sends = [producer.send(Message("T", body)) for body in (b"a", b"bad", b"c")]
        first, bad, last = await asyncio.gather(*sends, return_exceptions=True)
        assert isinstance(bad, RefusedError) and "bad" in bad.remark
        assert first.queue_offset in (0, 1) and last.message_id
        assert sorted(body for queue in log.queues.values() for body in queue) == [b"a", b"c"]

    run(scenario, linger_ms=0)


def test_the_messages_of_a_refused_batch_of_a_key_keep_their_order() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log()
        brokers[0].on(SEND, log.store)
        brokers[0].refuse(BATCH, ResponseCode.MESSAGE_ILLEGAL)
        await asyncio.gather(*[producer.send(message, ordering_key="k") for message in numbers(5)])
        assert list(log.queues.values()) == [[b"0", b"1", b"2", b"3", b"4"]]

    run(scenario, linger_ms=0)


def test_another_refusal_is_everyones() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        brokers[0].refuse(BATCH, ResponseCode.INVALID_PARAMETER)
        errors = await asyncio.gather(*[producer.send(one) for one in numbers(3)], return_exceptions=True)
        assert all(isinstance(error, RefusedError) for error in errors)
        assert brokers[0].count(BATCH) == 1 and brokers[0].count(SEND) == 0

    run(scenario, linger_ms=0)


def test_a_repeated_batch_keeps_its_keys_and_is_marked() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        for broker in brokers:
            broker.refuse(BATCH, ResponseCode.SYSTEM_BUSY)
        errors = await asyncio.gather(*[producer.send(one) for one in numbers(2)], return_exceptions=True)
        assert all(isinstance(error, RefusedError) for error in errors)
        attempts = [command for broker in brokers for command in broker.requests[BATCH]]
        assert len(attempts) == 3 and len({command.body for command in attempts}) == 1
        marks = [decode_properties(command.ext["i"].encode()).get("PYMQ_RESEND") for command in attempts]
        assert sorted(mark or "" for mark in marks) == ["", "1", "2"]

    run(scenario, brokers=2, linger_ms=0)


def test_each_message_has_its_own_time() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def late(command: Command) -> Reply:
            await answered
            return Log().store(command)

        brokers[0].on(BATCH, late)
        patient = await producer.enqueue(Message("T", b"patient"), timeout_s=60)
        with pytest.raises(RequestTimeoutError, match="may be stored or not"):
            await producer.send(Message("T", b"hasty"), timeout_s=0.5)
        answered.set_result(None)
        assert (await patient).queue_offset == 0

    run(scenario, linger_ms=0)


# -- order by key --------------------------------------------------------------------------------------------------


def test_a_key_goes_where_java_sends_it() -> None:
    queues = [MessageQueue("T", "b", n) for n in range(7)]
    # "polygenelubricants".hashCode() is Integer.MIN_VALUE
    for key, place in (("", 0), ("a", 97 % 7), ("ab", (97 * 31 + 98) % 7), ("polygenelubricants", 2**31 % 7)):
        assert queue_picker.queue_of_key(queues, key) == queues[place]


@pytest.mark.parametrize("linger_ms", [None, 0, 5])
def test_messages_of_a_key_stay_in_order_over_refusals(linger_ms: float | None) -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)
        refused = 0

        def moody(command: Command) -> Reply:
            nonlocal refused
            refused += 1
            return Reply(ResponseCode.SYSTEM_BUSY, "busy") if refused % 3 == 1 else log.store(command)

        brokers[0].on(SEND, moody)
        brokers[0].on(BATCH, moody)
        keys = "abcdef"
        messages = [(keys[n % 6], b"%s%03d" % (keys[n % 6].encode(), n)) for n in range(40)]
        messages[20] = ("c", b"c020" * 2000)  # leaves alone, in its place
        results = await asyncio.gather(
            *[producer.send(Message("T", body), ordering_key=key, timeout_s=30) for key, body in messages]
        )
        for key in keys:
            mine = [result for (own, _), result in zip(messages, results, strict=True) if own == key]
            assert len({one.queue for one in mine}) == 1
            assert [one.queue_offset for one in mine] == sorted(one.queue_offset for one in mine)
        header, _ = sent(brokers[0], 0, SEND if linger_ms is None else BATCH)
        if linger_ms is None:
            assert decode_properties(header.properties.encode())["__SHARDINGKEY"] == "a"

    run(scenario, linger_ms=linger_ms, retry_count=9)


def test_an_ordered_queue_has_one_request_at_a_time_and_batches_behind_it() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log()
        held: asyncio.Queue[Command] = asyncio.Queue()
        go_on = asyncio.Semaphore(0)

        async def slow(command: Command) -> Reply:
            held.put_nowait(command)
            await go_on.acquire()
            return log.store(command)

        brokers[0].on(SEND, slow)
        brokers[0].on(BATCH, slow)
        first = await producer.enqueue(Message("T", b"first"), ordering_key="k", timeout_s=60)
        await held.get()
        rest = [await producer.enqueue(one, ordering_key="k", timeout_s=60) for one in numbers(9)]
        await asyncio.sleep(0.01)  # longer than the linger time: they wait nevertheless
        assert held.empty()
        rest.append(await producer.enqueue(Message("T", b"last"), ordering_key="k", timeout_s=60))
        go_on.release()
        go_on.release()
        go_on.release()  # for a request that should not be
        await asyncio.gather(first, *rest)
        assert log.sizes == [1, 10]

    run(scenario, linger_ms=1)


def test_what_waits_behind_a_slow_request_fails_in_time() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        brokers[0].on(SEND, lambda _: None)
        stuck = await producer.enqueue(Message("T", b"stuck"), ordering_key="k", timeout_s=60)
        with pytest.raises(RequestTimeoutError):
            await producer.send(Message("T", b"behind"), ordering_key="k", timeout_s=0.5)
        assert brokers[0].count(SEND) == 1
        stuck.cancel()
        producer._lanes.end()

    run(scenario)


def test_a_key_and_a_chosen_queue_contradict() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        with pytest.raises(UsageError, match="ordering_key chooses the queue"):
            await producer.send(Message("T", b"x"), ordering_key="k", queue=QUEUES[0])
        for key in ("", 7):
            with pytest.raises(UsageError, match="give text with at least one character"):
                await producer.send(Message("T", b"x"), ordering_key=key)

    run(scenario)


# -- back-pressure -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linger_ms", [None, 0])
def test_sends_beyond_the_limit_wait_for_room(linger_ms: float | None) -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        log = Log(*brokers)
        await asyncio.gather(*[producer.send(one) for one in numbers(40)])
        assert sum(log.sizes) == 40 and max(log.sizes) <= 4
        assert producer._room.count == producer._room.bytes == 0

    run(scenario, linger_ms=linger_ms, in_flight_count_max=4)


def test_a_full_producer_refuses_when_asked_to() -> None:
    async def scenario(_: Any, brokers: Any, producer: Any) -> None:
        Log(*brokers)
        sends = await asyncio.gather(*[producer.send(one) for one in numbers(4)], return_exceptions=True)
        assert [isinstance(one, OverloadedError) for one in sends] == [False, False, True, True]
        assert "in_flight_count_max 2" in str(sends[3])
        assert await producer.send(Message("T", b"later"))

    run(scenario, linger_ms=0, in_flight_count_max=2, when_full="refuse")


def test_room_is_given_in_order_and_a_large_message_passes_alone() -> None:
    async def main() -> None:
        room = InFlight(10, 100, "wait")
        assert room.try_take(60)
        taken: list[str] = []

        async def take(name: str, size_bytes: int) -> None:
            await room.take(size_bytes, 60)
            taken.append(name)

        large = asyncio.create_task(take("large", 500))
        small = asyncio.create_task(take("small", 10))
        await asyncio.sleep(0)
        assert not room.try_take(1)  # others came before
        room.give(1, 60)
        await large
        assert taken == ["large"] and not small.done()
        room.give(1, 500)
        await small
        with pytest.raises(RequestTimeoutError, match=r"1 messages with 10 bytes.*in_flight_bytes_max 100"):
            await room.take(95, 0.01)
        assert (room.count, room.bytes) == (1, 10)
        waiting = asyncio.create_task(take("gone", 95))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert room.try_take(90)

    asyncio.run(main())


def test_limits_out_of_range_are_refused() -> None:
    for options in (
        {"linger_ms": -1},
        {"linger_ms": 60_001},
        {"batch_count_max": 0},
        {"batch_count_max": 32_768},
        {"batch_bytes_max": 0},
        {"in_flight_count_max": 0},
        {"in_flight_bytes_max": 0},
        {"when_full": "drop"},
    ):
        with pytest.raises(UsageError, match=next(iter(options))):
            Producer("PG", namesrv="127.0.0.1:1", **options)
